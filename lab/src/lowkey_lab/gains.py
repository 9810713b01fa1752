"""Lab room: how much of what there is to gain a private method keeps: a line per data set, measure and epsilon.

The gain is from the simplest model (*trivial* of ratings, *Popularity* of lists) to the best of the tuned models without
noise. A data set of ratings has a line for its lists, too. Every number comes from rows of ``lowkey bench``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lowkey.methods.registry import PRIVATE
from lowkey_lab.tables import Cell, Lines, is_better

Row = dict[str, Any]
RATINGS, LISTS = ("trivial", "two ridges", "ALS"), ("Popularity", "EASE", "ALS")  # the simplest, then the tuned ones
BOUNDS = tuple(dict.fromkeys((*RATINGS, *LISTS)))
LEAST_GAIN = 0.005  # below, a share of it says nothing


def lines(rows: Sequence[Row]) -> Lines:
    """The first line is the header. The share kept is that of the best private method, which it names."""
    methods = list(dict.fromkeys(row["method"] for row in rows if row["method"] in PRIVATE))
    found = [["data", "measure", "epsilon", "simplest", *methods, "tuned, no noise", "gain kept"]]
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == data]
        for measure in _measures(here):
            found += _lines_of(here, data, measure, methods)
    return found


def _measures(rows: Sequence[Row]) -> list[str]:
    held = {name for row in rows for name in row if "," not in name}
    return [name for name in sorted(held, reverse=True) if name == "rmse" or name.startswith("recall@")]


def _lines_of(rows: Sequence[Row], data: str, measure: str, methods: Sequence[str]) -> Iterator[list[str]]:
    def cell(method: str, epsilon: float | None) -> Cell:
        return Cell([row for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)], measure)

    def best(cells: dict[str, Cell]) -> str | None:
        name = None
        for other, found in cells.items():
            if found.draws and (name is None or is_better(measure, found.mean, cells[name].mean)):
                name = other
        return name

    first, *others = RATINGS if measure == "rmse" else LISTS
    simplest, tuned = cell(first, None), {name: cell(name, None) for name in others}
    ceiling = best(tuned)
    for epsilon in sorted({row["epsilon"] for row in rows if row["epsilon"] is not None}):
        cells = {method: cell(method, epsilon) for method in methods}
        private, kept = best(cells), ""
        if private and ceiling and simplest.draws:
            gain = tuned[ceiling].mean - simplest.mean
            if is_better(measure, tuned[ceiling].mean, simplest.mean) and abs(gain) > LEAST_GAIN:
                kept = f"{(cells[private].mean - simplest.mean) / gain:.0%} ({private})"
        bound = f"{tuned[ceiling].text()} ({ceiling})" if ceiling else "–"
        texts = [cells[method].text() for method in methods]
        yield [data, measure, f"{epsilon:g}", f"{simplest.text()} ({first.lower()})", *texts, bound, kept or "–"]
