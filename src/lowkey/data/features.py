"""Vault room: features of items as columns of numbers. They are public, and about no person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowkey.errors import refuse

Array = NDArray[np.float64]
Table = Mapping[str, Sequence[Any]]  # by column, one entry per item; None where nothing is known
BINS = 10  # that a number is told by, too: what depends on it need not be a straight line
FEWEST = 3  # items that a category or tag has at least
MOST_LEVELS = 500  # of a column: the most frequent ones


@dataclass(frozen=True)
class Column:
    """One feature: a number, a category, a list of tags, or a vector of numbers."""

    name: str
    kind: str
    levels: tuple[Any, ...] = ()  # categories or tags; for a number the edges of its bins; for a vector its length
    scale: tuple[float, float] = (0.0, 1.0)  # of a number: mean and standard deviation

    @property
    def width(self) -> int:
        if self.kind == "vector":
            return int(self.levels[0])
        return len(self.levels) + (2 if self.kind == "number" else 0)

    def encode(self, values: Sequence[Any]) -> Array:
        """(n_items, width), and not a number where nothing is known."""
        found = np.full((len(values), self.width), np.nan)
        places = {level: k for k, level in enumerate(self.levels)}
        for row, value in zip(found, values, strict=True):
            if value is None:
                continue
            if self.kind == "number":
                at = float(value)
                row[0] = (at - self.scale[0]) / self.scale[1] / 2.0  # about as large as a tag of half of the items
                row[1:] = 0.0
                row[1 + int(np.searchsorted(np.asarray(self.levels, np.float64), at, side="right")) :][:1] = 1.0
            elif self.kind == "vector":
                row[:] = _vector(self.name, value, self.width) / self.scale[1]
            else:
                row[:] = 0.0
                for level in [value] if self.kind == "category" else value:
                    if level in places:
                        row[places[level]] = 1.0
        return found


@dataclass(frozen=True)
class FeatureMap:
    """From a table of features to columns of numbers: what is missing is as the average item."""

    columns: tuple[Column, ...]
    means: tuple[float, ...]

    @classmethod
    def of(cls, table: Table) -> FeatureMap:
        columns = tuple(found for name, values in table.items() if (found := _column(name, values)) is not None)
        if not columns:
            refuse("item features", got="no column that tells items apart", needed="numbers, categories, lists of tags or "
                   "vectors", try_="other columns")  # fmt: skip
        raw = np.column_stack([column.encode(table[column.name]) for column in columns])
        known = np.isfinite(raw)
        means = np.where(known, raw, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return cls(columns, tuple(means.tolist()))

    def encode(self, table: Table) -> Array:
        """(n_items, width), each column around its mean over the items that the map was made from."""
        n_items = len(next(iter(table.values()))) if table else 0
        nothing = [None] * n_items
        raw = np.column_stack([column.encode(table.get(column.name, nothing)) for column in self.columns])
        return np.where(np.isfinite(raw), raw - np.array(self.means), 0.0)

    def to_json(self) -> dict[str, Any]:
        columns = [[c.name, c.kind, list(c.levels), list(c.scale)] for c in self.columns]
        return {"columns": columns, "means": list(self.means)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> FeatureMap:
        columns = tuple(Column(str(n), str(k), tuple(levels), (s[0], s[1])) for n, k, levels, s in fields["columns"])
        return cls(columns, tuple(map(float, fields["means"])))


def as_table(columns: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Plain Python values by column; a number that is not finite is missing."""
    found = {}
    for name, column in columns.items():
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else pa.array(column)
        values = array.to_pylist()
        found[name] = [None if isinstance(v, float) and not np.isfinite(v) else v for v in values]
    return found


def _column(name: str, values: Sequence[Any]) -> Column | None:
    """What kind of feature it is, by its values; None if it tells no items apart (a title, a constant)."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], bool | str):
        levels = _frequent(known)
        return Column(name, "category", levels) if levels else None
    if isinstance(known[0], int | float):
        numbers = np.array(known, np.float64)
        edges = np.unique(np.quantile(numbers, np.arange(1, BINS) / BINS))
        spread = float(numbers.std())
        return Column(name, "number", tuple(edges.tolist()), (float(numbers.mean()), spread)) if spread > 0.0 else None
    if isinstance(known[0], list | tuple | np.ndarray):
        inside = [entry for value in known for entry in value]
        if inside and isinstance(inside[0], int | float | np.number) and not isinstance(inside[0], bool):
            size = float(np.sqrt(np.mean(np.square(np.asarray(inside, np.float64))) * len(known[0])))
            return Column(name, "vector", (len(known[0]),), (0.0, max(size, 1e-300)))
        levels = _frequent(inside)
        return Column(name, "tags", levels) if levels else None
    return refuse(
        f"feature {name!r}",
        got="values of another kind",
        needed="numbers, text, lists of text or vectors",
        try_="dropping it",
    )


def _frequent(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(level for level, times in Counter(values).most_common(MOST_LEVELS) if times >= FEWEST)


def _vector(name: str, value: Any, width: int) -> Array:
    vector = np.asarray(value, np.float64)
    if vector.shape != (width,) or not np.isfinite(vector).all():
        got = "vectors of several lengths, or numbers that are not finite"
        refuse(f"feature {name!r}", got=got, needed=f"{width} numbers each", try_="the same embedding for all items")
    return vector
