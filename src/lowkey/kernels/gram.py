"""Kernel room: sums of x x^T over users' sparse rows, exact, into a packed upper triangle.

Every coordinate of x is a whole number of grid units, so every product is exact and the order does not matter. The
triangle is filled row by row: for item a, all users who have a add x_a x_b for their b >= a. One row of the triangle
stays in the cache, rows are independent, and the threads share one triangle.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

PIECE_ENTRIES = 1 << 17  # 1.5 MB of rows


@njit(cache=True, nogil=True)
def users_by_item(offsets, items, n_items):
    """Where each item stands in the rows: starts (n_items + 1,), and per entry its position and the end of its row."""
    starts = np.zeros(n_items + 1, np.int64)
    for p in range(len(items)):
        starts[items[p] + 1] += 1
    for j in range(n_items):
        starts[j + 1] += starts[j]
    fill = starts[:-1].copy()
    position = np.empty(len(items), np.int64)
    row_end = np.empty(len(items), np.int64)
    for u in range(len(offsets) - 1):
        for p in range(offsets[u], offsets[u + 1]):
            at = fill[items[p]]
            position[at] = p
            row_end[at] = offsets[u + 1]
            fill[items[p]] = at + 1
    return starts, position, row_end


@njit(cache=True, parallel=True)
def _add_piece(offsets, items, units, n_items, triangle):
    starts, position, row_end = users_by_item(offsets, items, n_items)
    for a in prange(n_items):
        base = a * n_items - a * (a - 1) // 2 - a  # entry (a, b) stands at base + b
        for at in range(starts[a], starts[a + 1]):
            p = position[at]
            left = units[p]
            for q in range(p, row_end[at]):
                triangle[base + items[q]] += left * units[q]


def add_row_grams(
    offsets: NDArray[np.int64],
    items: NDArray[np.int32],
    units: NDArray[np.int64],
    n_items: int,
    triangle: NDArray[np.int64],
) -> None:
    """triangle += sum over users of x x^T, for rows x of ``units`` whose ``items`` rise within a user.

    Piece by piece, so that the rows of a piece stay in the cache: about four times faster than all at once.
    """
    first = 0
    while first < len(offsets) - 1:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + PIECE_ENTRIES)) - 1)
        lo, hi = offsets[first], offsets[last]
        _add_piece(offsets[first : last + 1] - lo, items[lo:hi], units[lo:hi], n_items, triangle)
        first = last
