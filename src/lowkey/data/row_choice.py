"""Vault room: which rows of a table count, and in which order: gaps, flags and times.

Each row is judged by itself, and a row is one user's: what is left out or moved depends on nobody else's rows.
"""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.ids import is_text, plain_values
from lowkey.errors import InputError, without_values


def without_gaps(table: dict[str, Any]) -> None:
    """Leave out every row in which a cell is missing, or an id is nothing but white space."""
    keep: Any = None
    for column in table.values():
        there = pc.is_valid(column)
        if is_text(plain_values(column.type)):
            text = column.cast(pa.large_string())
            there = pc.and_(there, pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(text), ""), False))
        keep = there if keep is None else pc.and_(keep, there)
    _filter(table, keep)


def flagged_only(table: dict[str, Any], flag: str) -> None:
    """Binary feedback with a column of truth values: where it says no, nothing was taken. Other kinds are not looked at."""
    column = table.pop(flag)
    if pa.types.is_boolean(column.type):
        _filter(table, column)


def in_order_of(table: dict[str, Any], time: str) -> None:
    """The rows from the earliest to the latest; those of one moment stay in the order they came in."""
    order = pa.array(np.argsort(whole_seconds(table.pop(time), time), kind="stable"))
    for name, column in table.items():
        table[name] = column.take(order)


def whole_seconds(column: pa.ChunkedArray, name: str) -> npt.NDArray[np.int64]:
    """Times as numbers that rise with them: whole numbers as they are, dates in their own unit."""
    bad = InputError(
        what=f"time column {name!r}", got="something else", needed="whole numbers or dates, without gaps", try_="seconds"
    )
    if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_temporal(column.type)):
        raise bad

    def whole() -> npt.NDArray[np.int64]:
        seconds = column
        if pa.types.is_temporal(column.type):
            seconds = column.cast(pa.timestamp("s"), safe=False)
        return np.array(seconds.cast(pa.int64()).to_numpy(), np.int64)

    return without_values(whole, bad)


def _filter(table: dict[str, Any], keep: Any) -> None:
    for name, column in table.items():
        table[name] = column.filter(keep)
