"""Public room: `lowkey ledger …`: what a ledger says of itself, without the data: what is spent, and what still fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse

if TYPE_CHECKING:
    from lowkey.privacy.ledger import Ledger

ledger = typer.Typer(no_args_is_help=True)
File = Annotated[
    Path, typer.Argument(metavar="LEDGER", help="A ledger; or the folder of a release or of a stream.", show_default=False)
]
MOST_RELEASES = 400  # of which the noise of a stream is computed


@ledger.callback()
def commands() -> None:
    """What a ledger says of itself, without the data: what is spent, and what still fits.

    Example: lowkey ledger status people.jsonl
    """


@ledger.command()
def status(file: File, as_json: o.Json = False) -> None:
    """Say what each fit on a ledger has cost, what they cost together, and what is left.

    Example: lowkey ledger status people.jsonl
    """
    from lowkey.privacy.book import epsilon_of, fitting_mu
    from lowkey.privacy.price import at_most

    found = _opened(file)
    plans, held = _plans(found), found.held()
    screen = Screen(as_json=as_json)
    rows = [[f"  {plan['method']}", at_most(plan["epsilon"], 4), f"{plan['delta']:g}", plan["state"]] for plan in plans]
    screen.table("", ["  fit", "epsilon by itself", "delta", "state"], rows)
    fields: dict[str, Any] = {"ledger": str(file), "fits": plans, "under_way": len(held) > 0}
    if plans:
        promised = found.guarantee()
        fields |= {"epsilon": promised.epsilon, "delta": promised.delta}
        screen.say(
            f"Spent: epsilon = {at_most(promised.epsilon, 4)} at delta = {promised.delta:g}, {promised.unit}", "bold"
        )
    else:
        screen.say("Nothing is spent.", "bold")
    if any(plan["state"].startswith("stream") for plan in plans):
        screen.say("A stream was paid in full when it began: its further releases cost nothing.")
    if found.total is None:
        screen.say("No total was set, so nothing is refused: --total-epsilon with the next release sets one.")
    else:
        epsilon, delta = found.total
        left = epsilon_of(fitting_mu(found, found.total, held), delta)
        fields |= {"total": {"epsilon": epsilon, "delta": delta}, "fits_epsilon": left}
        screen.say(f"Total: epsilon = {epsilon:g} at delta = {delta:g}. {_left(left, delta)}")
        if left:
            screen.say(f"  lowkey ledger plan {file} divides it among several.")
    screen.result({**fields, "head": found.fingerprint})


@ledger.command()
def plan(
    file: File,
    releases: Annotated[str, typer.Option(help="How many further releases, with commas between.")] = "1,2,4,12,52",
    delta: Annotated[
        float | None, typer.Option(help="Of each release \\[default: as the total].", show_default=False)
    ] = None,
    as_json: o.Json = False,
) -> None:
    """Divide what a ledger has left among further releases: the epsilon of each, and what a stream of them would be worth.

    Example: lowkey ledger plan people.jsonl --releases 1,12
    """
    from lowkey.methods.registry import private_methods
    from lowkey.privacy.book import epsilon_of, fitting_mu
    from lowkey.privacy.gaussian import gaussian_epsilon
    from lowkey.privacy.stream import Schedule

    counts = _counts(releases)
    found = _opened(file)
    if found.total is None:
        refuse("ledger plan", got="a ledger without a total", needed="one, to divide what is left of it",
               try_="--total-epsilon with the next release, or lowkey plan")  # fmt: skip
    given = found.total[1] if delta is None else delta
    if not 0.0 < given < 1.0:
        refuse("--delta", got=f"{given:g}", needed="a number between 0 and 1", try_="leaving it out")
    mu = fitting_mu(found, found.total, found.held())
    rows: list[dict[str, Any]] = []
    for count in counts:
        noise = Schedule.optimal("planned", count).noise[-1] if mu and count <= MOST_RELEASES else None
        worth = None if noise is None else gaussian_epsilon(mu / float(noise), given)
        rows.append({"releases": count, "epsilon_each": epsilon_of(mu / count**0.5, given), "stream_worth": worth})
    screen = Screen(as_json=as_json)
    screen.say(_left(epsilon_of(mu, given), given), "bold")
    if mu:
        shown = [
            [f"  {row['releases']}", f"{row['epsilon_each']:g}" if row["epsilon_each"] else "too little",
             "-" if row["stream_worth"] is None else f"{row['stream_worth']:.4g}"]
            for row in rows
        ]  # fmt: skip
        screen.table("", ["  releases", "epsilon of each", "as one stream, the last is worth"], shown)
        names = ", ".join(sorted(private_methods()))
        screen.say(f"  The same for every method ({names}): they differ in what they make of an epsilon, not in its price.")
    screen.result({"ledger": str(file), "delta": given, "fits_epsilon": epsilon_of(mu, given), "divided": rows})


@ledger.command()
def head(
    file: File,
    to: Annotated[
        Path | None, typer.Option(help="Write it to this anchor file, outside the ledger's folder.", show_default=False)
    ] = None,
    expect_head: o.ExpectHead = None,
    as_json: o.Json = False,
) -> None:
    """Print the head of a ledger: the number and the hash of its last line, which stand for all of it.

    Keep it where the ledger is not. `--expect-head` then refuses an old copy of the ledger, whose budget is spent already.

    Example: lowkey ledger head people.jsonl
    """
    from lowkey.privacy.chain import Anchor

    found = _opened(file, expect_head)
    last = found.records[-1]
    if to is not None:
        anchor = Anchor(to, file)
        if to.exists():
            anchor.check(found.records)  # never back to an older ledger
        anchor.move(last)
    screen = Screen(as_json=as_json)
    screen.say(found.fingerprint)
    screen.result({"ledger": str(file), "seq": last["seq"], "hash": last["hash"]})


def _opened(place: Path, expect_head: str | None = None) -> Ledger:
    """A ledger with its chain checked; the one in a release is a copy, which nobody writes to."""
    from lowkey.privacy.chain import LEDGER
    from lowkey.privacy.ledger import Ledger
    from lowkey.release.folder import MANIFEST

    file = place / LEDGER if place.is_dir() else place
    if not file.is_file():
        refuse("the ledger", got=f"no file {file}", needed="an existing ledger", try_="the path given to --ledger")
    if (file.parent / MANIFEST).exists() and file.name == LEDGER and expect_head is None:
        return Ledger.loads(file.read_bytes())
    return Ledger(file, expect_head=expect_head)


def _plans(found: Ledger) -> list[dict[str, Any]]:
    """Every fit that was announced: its price by itself, and how far it came."""
    from lowkey.privacy.parts import Parts
    from lowkey.privacy.plan import Plan

    plans: list[dict[str, Any]] = []
    for record in [record for record in found.records if record["kind"] == "plan"]:
        plan = Plan.from_json(record["plan"])
        if plan.schedule is not None:
            made = Parts.of(found.records, plan.schedule.name).complete
            state = f"stream, {made} of {plan.schedule.horizon} made"
        else:
            own = [r for r in found.records if r["kind"] == "reserve" and r.get("plan") == record["seq"]]
            planned = sum(line.times for line in plan.lines)
            state = f"{len(own)} of {planned} posts, not done" if len(own) < planned else f"done, {planned} posts"
        plans.append({"method": plan.method, "epsilon": plan.price.epsilon, "delta": plan.delta, "state": state})
    return plans


def _left(epsilon: float, delta: float) -> str:
    if not epsilon:
        return "Nothing more fits. What was released may be used for ever; what has been spent can't be bought back."
    return f"What fits: one more release of epsilon = {epsilon:g} at delta = {delta:g}, or less."


def _counts(text: str) -> list[int]:
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if any(not 1 <= number <= 100_000 for number in numbers):
        refuse("--releases", got=repr(text), needed="whole numbers from 1 to 100000, with commas between",
               try_="--releases 1,12")  # fmt: skip
    return sorted(set(numbers))
