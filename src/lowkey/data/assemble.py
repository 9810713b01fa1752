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

Ints32 = npt.NDArray[np.int32]
Ints64 = npt.NDArray[np.int64]
Floats32 = npt.NDArray[np.float32]


def check_duplicates_word(duplicates: str) -> None:
    if duplicates not in DUPLICATES:
        refuse("duplicates", got="another word", needed="'error', 'last', 'mean' or 'sum'", try_="duplicates='last'")


def check_values(values: Floats32, scale: Scale, what: str) -> None:
    """Refuse what is not a rating of this scale. Changes `values` in place by at most one float32 step.

    The check is against the range rounded to float32 (a stored 0.1f is a 0.1), and what lies that one step
    outside is moved in, so that float64(value) is inside the range for sure: sensitivities rely on it.
    """
    trouble = _check_finite(values)
    if trouble:
        refuse(what, got="ratings that are missing or not finite", needed="a number everywhere", try_="dropping those rows")
    if scale.rating_range is None:
        return
    low, high = scale.rating_range
    low32, high32 = scale.float32_bounds()
    if _check_range(values, np.float32(low), np.float32(high), low32, high32):
        refuse(
            what,
            got="ratings outside the range",
            needed=f"{low:g} to {high:g}, the rating_range of the domain",
            try_="the range of your scale, or check that the right column is named",
        )


def group_by_user(
    users: Ints32, items: Ints32, values: Floats32 | None, n_users: int
) -> tuple[Ints64, Ints32, Floats32 | None]:
    """Rows of (user, item, value) as (offsets, items, values); rows with item -1 are left out."""
    weighted = values is not None
    given = values if weighted else np.empty(0, np.float32)
    offsets, out_items, out_values = _group(users, items, given, n_users, weighted)
    return offsets, out_items, out_values if weighted else None


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
            try_="duplicates='last', 'mean' or 'sum'",
        )
    if length < len(items):
        items, given = items[:length].copy(), given[:length].copy()
    return offsets, items, given if weighted else None


def _compiled(function: Any) -> Any:
    # nogil: reading may go on in another thread; cache: the next process starts at once
    return numba.njit(cache=True, nogil=True)(function)


@_compiled
def _check_finite(values):  # pyright: ignore
    for value in values:
        if not np.isfinite(value):
            return True
    return False


@_compiled
def _check_range(values, low_rounded, high_rounded, low, high):  # pyright: ignore
    for at in range(values.size):
        value = values[at]
        if value < low_rounded or value > high_rounded:
            return True
        if value < low:
            values[at] = low
        elif value > high:
            values[at] = high
    return False


@_compiled
def _group(users, items, values, n_users, weighted):  # pyright: ignore
    offsets = np.zeros(n_users + 1, np.int64)
    for row in range(users.size):
        if items[row] >= 0:
            offsets[users[row] + 1] += 1
    for user in range(n_users):
        offsets[user + 1] += offsets[user]
    free = offsets[:-1].copy()  # the next free place of each user
    out_items = np.empty(offsets[-1], np.int32)
    out_values = np.empty(offsets[-1] if weighted else 0, np.float32)
    for row in range(users.size):
        if items[row] >= 0:
            place = free[users[row]]
            free[users[row]] += 1
            out_items[place] = items[row]
            if weighted:
                out_values[place] = values[row]
    return offsets, out_items, out_values


@_compiled
def _tidy(offsets, items, values, policy, weighted):  # pyright: ignore
    """Returns the new number of entries, or -1 for a duplicate that is an error."""
    longest = 0
    for user in range(offsets.size - 1):
        longest = max(longest, offsets[user + 1] - offsets[user])
    order = np.empty(longest, np.int64)  # item and place in one number, so that sorting is stable
    row_values = np.empty(longest if weighted else 0, np.float32)
    written = np.int64(0)
    start = offsets[0]
    for user in range(offsets.size - 1):
        stop = offsets[user + 1]
        size = stop - start
        rising = True
        for at in range(start + 1, stop):
            if items[at] <= items[at - 1]:
                rising = False
                break
        if not rising:
            for at in range(size):
                order[at] = (np.int64(items[start + at]) << 32) | at
                if weighted:
                    row_values[at] = values[start + at]
            order[:size].sort()
            for at in range(size):
                items[start + at] = np.int32(order[at] >> 32)
                if weighted:
                    values[start + at] = row_values[order[at] & 0xFFFFFFFF]
        if rising and written == start:  # nothing to move: the usual case of a clean, sorted file
            written = stop
        else:
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
        offsets[user + 1] = written
        start = stop
    return written
