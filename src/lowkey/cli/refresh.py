"""Public room: `lowkey refresh`: the next release of a stream, from one file of ratings with times.

The first call makes the stream and notes its options beside it; later calls need the file and ``--out`` alone. A call
that was cut off is run again as it was: what it had posted is used, and nothing is drawn twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.cli.table import catalogue, check_file
from lowkey.errors import LowkeyError

NOTES = "stream.json"
DAY = 86_400
EXAMPLE = (
    "--stream people.stream --user user --item item --time time --binary --items 1..1682 --first 1767225600 "
    "--releases 52 --total-epsilon 4 --delta 1e-6 --out releases/week-1"
)


def refresh(
    file: o.Ratings,
    stream: Annotated[Path | None, typer.Option(help="The folder of the stream.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="The release folder to write.", show_default=False)] = None,
    user: o.User = None,
    item: o.Item = None,
    rating: o.Rating = None,
    time: Annotated[str | None, typer.Option(help="The column with the times.", show_default=False)] = None,
    scale: o.Scale = None,
    binary: o.Binary = False,
    items: o.Items = None,
    items_column: o.ItemsColumn = None,
    releases: Annotated[int | None, typer.Option(help="How many there will be.", show_default=False)] = None,
    total_epsilon: Annotated[float | None, typer.Option(help="Of all of them together.", show_default=False)] = None,
    delta: o.Delta = None,
    first: Annotated[int | None, typer.Option(help="The time of the first one, in seconds.", show_default=False)] = None,
    every: Annotated[float, typer.Option(help="Days between them.")] = 7.0,
    half_life: Annotated[float | None, typer.Option(help="Releases after which a row counts half.")] = None,
    again: Annotated[int, typer.Option(help="Releases after which people speak again; 0: never.")] = 0,
    method: Annotated[str | None, typer.Option(help="bias, lists or moments.", show_default=False)] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="The private state is lost: make it from the times.")] = False,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
) -> None:
    """Make the next release of a stream: many releases at the price of one.

    Example: lowkey refresh ratings.parquet --stream people.stream --out releases/2026-W12
    """
    o.require("refresh", {"--stream": stream, "--out": out}, f"lowkey refresh {file} {EXAMPLE}")
    check_file(file)
    assert stream is not None and out is not None  # noqa: PT018
    given = {
        "--user": user, "--item": item, "--rating": rating, "--time": time, "--scale": list(scale) if scale else None,
        "--binary": binary, "--items": items, "--items-column": items_column, "--releases": releases,
        "--total-epsilon": total_epsilon, "--delta": delta, "--first": first, "--every": every, "--half-life": half_life,
        "--method": method, "--again": again,
    }  # fmt: skip
    notes = _notes(stream, given, file)
    screen = Screen(quiet, as_json)
    from lowkey.release import check_destination

    check_destination(out)
    with _told_if_cut_off(stream, screen), screen.working("Making the release"):
        found = _open(stream, notes)
        number = notes["written"] + 1
        found.schedule.check_release(number)
        made = found.release(_read(file, notes, found.domain), number, rebuild=rebuild)
        folder = made.release(out)
    _write(stream, {**notes, "written": number})
    guarantee, horizon = made.guarantee, found.schedule.horizon
    screen.say(f"Released {number} of {horizon} to {folder}/, with {found.schedule.noise[number - 1]:.2f} times", "bold")
    screen.say("  the noise of a single release. All of them together:")
    screen.say(f"  epsilon = {guarantee.epsilon:.6g}, delta = {guarantee.delta:g}, {guarantee.unit}")
    fields = {"release": str(folder), "number": number, "of": horizon, "stream": found.schedule.name}
    screen.result({**fields, "epsilon": guarantee.epsilon, "delta": guarantee.delta})


@contextmanager
def _told_if_cut_off(stream: Path, screen: Screen) -> Generator[None]:
    """Whatever ends a release early, its owner is told what was spent: the whole stream, when it was booked."""
    try:
        yield
    except LowkeyError:
        raise
    except BaseException:
        from lowkey.privacy.chain import LEDGER
        from lowkey.privacy.ledger import Ledger

        if (stream / LEDGER).exists():
            spent = Ledger(stream / LEDGER)
            if spent.plans():
                from lowkey.privacy.price import at_most

                told = f"the stream was booked in full before, for epsilon = {at_most(spent.guarantee().epsilon, 4)}"
                again = "the same command again goes on with it and costs nothing more"
                screen.err.print(f"lowkey: {told}: {again}.", markup=False, soft_wrap=True)
        raise


def _notes(stream: Path, given: dict[str, Any], file: str) -> dict[str, Any]:
    """What the first call said. Later ones may leave it out, and may not say something else."""
    place = stream / NOTES
    if not place.exists():
        optional = ("--rating", "--scale", "--binary", "--half-life", "--items-column", "--method")
        needed = {name: value for name, value in given.items() if name not in optional}
        needed["--scale or --binary"] = given["--scale"] or given["--binary"]
        o.require("a new stream", needed, f"lowkey refresh {file} {EXAMPLE}")
        stream.mkdir(parents=True, exist_ok=True)
        return {"options": given, "written": 0}
    notes = json.loads(place.read_text("utf-8"))
    defaults = {"--every": 7.0, "--binary": False, "--again": 0}
    for name, value in given.items():
        if value not in (None, defaults.get(name)) and value != notes["options"][name]:
            o.refuse(name, got="another value than the stream began with", needed="the same", try_="leaving it out")
    return notes


def _open(stream: Path, notes: dict[str, Any]) -> Any:
    import lowkey as lk
    from lowkey.methods.registry import estimator
    from lowkey.methods.running import default_form

    said = notes["options"]
    ids = catalogue(said["--items"], said["--items-column"] or said["--item"])
    domain = lk.Domain(ids, tuple(said["--scale"])) if said["--scale"] else lk.Domain(ids, feedback="binary")
    make: Any = estimator(said["--method"]) if said["--method"] else default_form(domain)
    method = make(epsilon=said["--total-epsilon"], delta=said["--delta"])
    every = round(said["--every"] * DAY)
    calendar = lk.Calendar(said["--first"], every, wait=every, patience=4 * every, again=said["--again"])
    opened = lk.Stream(stream, method, domain, calendar, said["--releases"], half_life=said["--half-life"])
    _write(stream, notes)
    return opened


def _read(file: str, notes: dict[str, Any], domain: Any) -> Any:
    from lowkey.data.timed import TimedRatings

    said = notes["options"]
    columns = {name[2:]: said[name] for name in ("--user", "--item", "--rating", "--time")}
    return TimedRatings.from_file(file, domain, **columns)


def _write(stream: Path, notes: dict[str, Any]) -> None:
    draft = stream / f".{NOTES}.incomplete"
    draft.write_text(json.dumps(notes, indent=1), "utf-8")
    os.replace(draft, stream / NOTES)
