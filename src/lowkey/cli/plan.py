"""Public room: `lowkey plan`: what each of many releases on the same people may cost."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse

DAYS = {"d": 1.0, "w": 7.0, "m": 365.25 / 12.0, "y": 365.25}


def plan(
    every: Annotated[str | None, typer.Option(help="How often, such as 7d, 2w, 1m.", show_default=False)] = None,
    span: Annotated[str | None, typer.Option("--for", help="For how long, such as 1y.", show_default=False)] = None,
    total_epsilon: Annotated[
        float | None, typer.Option(help="What all releases may cost together.", show_default=False)
    ] = None,
    delta: o.Delta = None,
    expected_users: o.ExpectedUsers = None,
    half_life: Annotated[float | None, typer.Option(help="Of a stream: releases after which a row counts half.")] = None,
    again: Annotated[int, typer.Option(help="Of a stream: releases after which people speak again; 0: never.")] = 0,
    items: o.Items = None,
    items_column: o.ItemsColumn = None,
    as_json: o.Json = False,
) -> None:
    """Divide one budget among the releases of a year, or any other time.

    Each release gets the same noise. The costs of releases add up by their squares, not by their epsilons, so each may be
    larger than total/number. A stream, in which everybody speaks once, gives each release far more for the same total.
    With --items and --expected-users it says what lists of one such release will be worth.

    Example: lowkey plan --every 7d --for 1y --total-epsilon 4 --delta 1e-6 --items 1..1682 --expected-users 5000
    """
    o.require(
        "plan",
        {
            "--every": every,
            "--for": span,
            "--total-epsilon": total_epsilon,
            "--delta or --expected-users": expected_users if delta is None else delta,
        },
        "lowkey plan --every 7d --for 1y --total-epsilon 4 --delta 1e-6",
    )
    assert every is not None and span is not None and total_epsilon is not None  # noqa: PT018
    count = _count(every, span)
    screen = Screen(as_json=as_json)
    with screen.working("Starting"):
        from lowkey.privacy.gaussian import gaussian_epsilon, gaussian_mu
        from lowkey.privacy.guarantee import verdict
        from lowkey.privacy.plan import check_epsilon_delta

    chosen = o.delta_for(delta, expected_users) or 0.0
    check_epsilon_delta(total_epsilon, chosen)
    mu = gaussian_mu(total_epsilon, chosen)
    # A little inside: each release also books the resolution of its sampler.
    each = gaussian_epsilon(mu / count**0.5, chosen) * (1.0 - 1e-4)
    expected = _expectation(items, items_column, expected_users, each, chosen)
    after = [(k, gaussian_epsilon(mu * (k / count) ** 0.5, chosen)) for k in _milestones(count)]
    together = f"epsilon = {total_epsilon:g} together at delta = {chosen:g}"
    screen.say(f"{count} releases (every {every} for {span}), {together}", "bold")
    naive = f"total/number would be {total_epsilon / count:.4g}"
    screen.say(f"  each release:  epsilon = {each:.6g}  (mu = {mu / count**0.5:.6g}); {naive}")
    screen.say(f"  {verdict(total_epsilon, chosen, expected_users).text}")
    screen.table("", ["  spent after", "epsilon"], [[f"  {k} release{'s' if k > 1 else ''}", f"{e:.4g}"] for k, e in after])
    screen.say(f"  Lists of each release: {expected}")
    same = f"--epsilon {each:.6g} --delta {chosen:g} --ledger people.jsonl --total-epsilon {total_epsilon:g}"
    screen.say(f"  Use the same ledger each time, and it will keep count:\n    lowkey release … {same}")
    stream = _stream(screen, count, mu, chosen, half_life, again) if count <= 400 else None
    fields = {"releases": count, "epsilon_each": each, "delta": chosen, "spent_after": dict(after), "lists": expected}
    screen.result({**fields, "epsilon_in_a_stream": stream})


def _expectation(items: str | None, column: str | None, expected_users: int | None, epsilon: float, delta: float) -> str:
    """What `lowkey release` says of one of these releases."""
    if items is None or expected_users is None:
        return "how good they can be depends on how many users and items there are: --expected-users and --items tell."
    from lowkey.cli.table import catalogue
    from lowkey.data.domain import Domain
    from lowkey.methods.feasibility import expectation

    domain = Domain(catalogue(items, column or ""), feedback="binary", expected_users=expected_users)
    return expectation(domain, epsilon, delta)


def _count(every: str, span: str) -> int:
    count = int(_days("--for", span) / _days("--every", every) + 1e-9)
    if not 1 <= count <= 100_000:
        refuse("--every", got=f"{every} for {span}", needed="1 to 100000 releases", try_="--every 7d --for 1y")
    return count


def _stream(screen: Screen, count: int, mu: float, delta: float, half_life: float | None, again: int) -> dict[int, float]:
    """What releases are worth in a stream: the epsilon of a single release with as much noise."""
    from lowkey.privacy.gaussian import gaussian_epsilon
    from lowkey.privacy.stream import Schedule

    noise = Schedule.optimal("planned", count, half_life, None, again).noise
    worth = {t: gaussian_epsilon(mu / float(noise[t - 1]), delta) for t in _milestones(count)}
    who = f"everybody speaks every {again} releases" if again else "everybody speaks once"
    screen.say(f"  As a stream (lowkey refresh), in which {who}, for the same total:")
    rows = [[f"  {t}", f"{noise[t - 1]:.3f}", f"{e:.4g}"] for t, e in worth.items()]
    screen.table("", ["  release", "noise of a single one, times", "worth epsilon"], rows)
    return worth


def _days(name: str, text: str) -> float:
    written = re.fullmatch(r"(\d+(?:\.\d+)?)([dwmy])", text.strip())
    if not written or float(written[1]) <= 0.0:
        refuse(
            name, got=repr(text), needed="a number and d, w, m or y", try_=f"{name} {'7d' if name == '--every' else '1y'}"
        )
    return float(written[1]) * DAYS[written[2]]


def _milestones(count: int) -> list[int]:
    return sorted({1, *(max(1, round(count * part)) for part in (0.25, 0.5, 0.75)), count})
