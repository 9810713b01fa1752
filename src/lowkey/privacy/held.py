"""Gate room: what plans that are still under way have announced and not yet posted: nobody else may spend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from lowkey.privacy.chain import Record
from lowkey.privacy.plan import Line, Plan


def held_lines(records: Sequence[Record], is_held: Callable[[int], bool]) -> list[Line]:
    """Of every plan whose line is held: its posts that are still to come, and what it holds for the plan after it."""
    posted: Counter[tuple[int, str]] = Counter()
    for record in records:
        if record["kind"] == "reserve" and "plan" in record:
            posted[record["plan"], record["line"]["name"]] += record["line"]["times"]
    held: list[Line] = []
    for record in records:
        if record["kind"] != "plan" or not is_held(record["seq"]):
            continue
        for line in Plan.from_json(record["plan"]).lines:
            left = line.times - posted[record["seq"], line.name]
            held += [replace(line, times=left)] if left > 0 else []
        held += map(Line.from_json, record.get("then", []))
    return held
