"""Vault room: from rows in any order to CSR by user, with compiled loops.

The steps are: check the values, group the rows by user (a counting sort, which keeps the order of a user's rows),
sort each user's row by item and settle duplicates. Time and memory are linear in the number of rows, but for the
sort inside a row. Loops report trouble as a small code; words are found by the caller, where no value is at hand.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lowkey.data.domain import Scale
from lowkey.errors import refuse

DUPLICATES = ("error", "last", "mean", "sum")
_ERROR, _LAST, _MEAN, _SUM = range(4)
SHORT_ROW = 40

Ints32 = npt.NDArray[np.int32]
Ints64 = npt.NDArray[np.int64]
Floats32 = npt.NDArray[np.float32]


def settled_duplicates(scale: Scale, duplicates: str | None) -> str:
    """What becomes of repeats: as asked; else an error, but in a log of clicks they are normal: once, or counted."""
    if duplicates is None:
        return {"ratings": "error", "binary": "mean", "counts": "sum"}[scale.feedback]
    if duplicates not in DUPLICATES:
        refuse("duplicates", got="another word", needed="'error', 'last', 'mean' or 'sum'", try_="duplicates='last'")
    return duplicates


def check_values(values: Floats32, scale: Scale, what: str) -> None:
    """Refuse what is not a rating of this scale. Changes `values` in place by at most one float32 step.

    The check is against the range rounded to float32 (a stored 0.1f is a 0.1), and what lies that one step
    outside is moved in, so that float64(value) is inside the range for sure: sensitivities rely on it.
    Of counts, only what is beyond the largest one that counts is moved there.
    """
    low, high = scale.rating_range or (1.0, 1.0)
    if scale.counted:
        np.minimum(values, scale.float32_bounds()[1], out=values)
    if not _all_in_range(values, np.float32(low), np.float32(high), *scale.float32_bounds()):
        if not np.isfinite(values).all():
            refuse(what, got="ratings that are not finite", needed="a number everywhere", try_="dropping those rows")
        refuse(
            what,
            got="ratings outside the range",
            needed=f"{low:g} to {high:g}, the rating_range of the domain",
            try_="the range of your scale, or check that the right column is named",
        )


def group_by_user(
    codes: Ints32, ranks: Ints32, items: Ints32, values: Floats32 | None, n_users: int
) -> tuple[Ints64, Ints32, Floats32 | None]:
    """Rows of (user, item, value) as (offsets, items, values), where row `r` is of user `ranks[codes[r]]`.

    Rows with item -1 are left out. Takes `items` and `values` over.
    """
    weighted = values is not None
    given = values if weighted else np.empty(0, np.float32)
    # all read-only, as Arrow's are: numba would compile the loop anew for each mixture
    columns = [read_only(array) for array in (codes, ranks, items, given)]
    offsets, in_order = _counted(*columns[:3], n_users)
    if in_order:  # an export by user has its rows in place already
        out_items = items if items.flags.writeable else items.copy()
        out_values = given if given.flags.writeable else given.copy()
    else:
        out_items, out_values = _group(*columns, offsets, weighted)
    return offsets, out_items, out_values if weighted else None


def read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def tidy_rows(
    offsets: Ints64, items: Ints32, values: Floats32 | None, duplicates: str, what: str
) -> tuple[Ints64, Ints32, Floats32 | None]:
    """Sort each row by item and settle repeated items. Works in place on the arrays it is given."""
    weighted = values is not None
    given = values if weighted else np.empty(0, np.float32)
    policy = DUPLICATES.index(duplicates)
    length = _tidy(offsets, items, given, policy, weighted)
    if length < 0:
        refuse(
            what,
            got="the same item more than once for one user",
            needed="each pair of user and item once",
            try_="duplicates='mean', 'sum' or 'last'",
        )
    if length < len(items):
        items, given = items[:length].copy(), given[:length].copy()
    return offsets, items, given if weighted else None


def settle(
    offsets: Ints64,
    items: Ints32,
    values: Floats32 | None,
    scale: Scale,
    duplicates: str,
    rating: str | None = None,
    rows: str = "ratings",
) -> tuple[Ints64, Ints32, Floats32 | None]:
    """Check the values, sort the rows, settle the duplicates: sums are checked when they are made.

    ``rating`` is the column of the values and ``rows`` where all is from, for words.
    """
    what = rows if rating is None else f"rating column {rating!r}"
    if duplicates != "sum" and values is not None:
        check_values(values, scale, what)
    offsets, items, values = tidy_rows(offsets, items, values, duplicates, rows)
    if duplicates == "sum" and values is not None:
        check_values(values, scale, f"sums of {what}")
    return offsets, items, values


def _compiled(function: Any) -> Any:
    # nogil: reading may go on in another thread; cache: the next process starts at once
    return numba.njit(cache=True, nogil=True)(function)


@_compiled
def _all_in_range(values, low_rounded, high_rounded, low, high):  # pyright: ignore
    for at in range(values.size):
        value = values[at]
        if not (low_rounded <= value <= high_rounded):  # so written, it is also true for nan
            return False
        if value < low:
            values[at] = low
        elif value > high:
            values[at] = high
    return True


@_compiled
def _counted(codes, ranks, items, n_users):  # pyright: ignore
    """Where each user's rows begin, and whether all rows stand there already."""
    offsets = np.zeros(n_users + 1, np.int64)
    before, in_order = -1, True
    for row in range(codes.size):
        user = ranks[codes[row]]
        in_order &= user >= before and items[row] >= 0
        before = user
        if items[row] >= 0:
            offsets[user + 1] += 1
    for user in range(n_users):
        offsets[user + 1] += offsets[user]
    return offsets, in_order


@_compiled
def _group(codes, ranks, items, values, offsets, weighted):  # pyright: ignore
    n_users = offsets.size - 1
    free = np.empty(n_users, np.int64)  # the next free place of each user
    for user in range(n_users):
        free[user] = offsets[user]
    out_items = np.empty(offsets[-1], np.int32)
    out_values = np.empty(offsets[-1] if weighted else 0, np.float32)
    for row in range(codes.size):
        if items[row] >= 0:
            user = ranks[codes[row]]
            place = free[user]
            free[user] += 1
            out_items[place] = items[row]
            if weighted:
                out_values[place] = values[row]
    return out_items, out_values


@_compiled
def _sort_row(items, values, spare_items, spare_values, weighted):  # pyright: ignore
    """Sort a row by item, keeping the order of equal items: insertion for short rows, else radix by bytes."""
    size = items.size
    if size <= SHORT_ROW:
        for at in range(1, size):
            item = items[at]
            value = values[at] if weighted else np.float32(0)
            to = at
            while to > 0 and items[to - 1] > item:
                items[to] = items[to - 1]
                if weighted:
                    values[to] = values[to - 1]
                to -= 1
            items[to] = item
            if weighted:
                values[to] = value
        return
    # plain loops throughout: array assignments would take numba seconds to compile
    highest = np.int32(0)
    for item in items:
        highest = max(highest, item)
    starts = np.empty(257, np.int64)
    shift = 0
    while (highest >> shift) > 0:
        for byte in range(257):
            starts[byte] = 0
        for at in range(size):
            starts[((items[at] >> shift) & 255) + 1] += 1
        for byte in range(255):
            starts[byte + 1] += starts[byte]
        for at in range(size):
            byte = (items[at] >> shift) & 255
            to = starts[byte]
            starts[byte] += 1
            spare_items[to] = items[at]
            if weighted:
                spare_values[to] = values[at]
        for at in range(size):
            items[at] = spare_items[at]
            if weighted:
                values[at] = spare_values[at]
        shift += 8


@_compiled
def _merge_row(items, values, start, stop, written, policy, weighted):  # pyright: ignore
    """Write a sorted row from `written` on, each item once. Returns the end, or -1 if a repeat is an error."""
    at = start
    while at < stop:
        item = items[at]
        total = np.float64(0)
        times = 0
        last = np.float32(0)
        while at < stop and items[at] == item:
            if weighted:
                last = values[at]
                total += last
            times += 1
            at += 1
        if times > 1 and policy == _ERROR:
            return np.int64(-1)
        items[written] = item
        if weighted:
            if policy == _MEAN:
                values[written] = total / times
            elif policy == _SUM:
                values[written] = total
            else:
                values[written] = last
        written += 1
    return written


@_compiled
def _rises(items):  # pyright: ignore
    for at in range(1, items.size):  # noqa: SIM110
        if items[at] <= items[at - 1]:
            return False
    return True


@_compiled
def _tidy(offsets, items, values, policy, weighted):  # pyright: ignore
    """Returns the new number of entries, or -1 for a repeat that is an error."""
    longest = 0
    for user in range(offsets.size - 1):
        longest = max(longest, offsets[user + 1] - offsets[user])
    spare_items = np.empty(longest, np.int32)
    spare_values = np.empty(longest if weighted else 0, np.float32)
    written = np.int64(0)
    start = offsets[0]
    for user in range(offsets.size - 1):
        stop = offsets[user + 1]
        row = items[start:stop]
        if not _rises(row):
            _sort_row(row, values[start:stop], spare_items, spare_values, weighted)
        if written == start and _rises(row):  # nothing to move: the usual case
            written = stop
        else:
            written = _merge_row(items, values, start, stop, written, policy, weighted)
            if written < 0:
                return written
        offsets[user + 1] = written
        start = stop
    return written
