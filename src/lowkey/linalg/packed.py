"""Public room: symmetric matrices as packed upper triangles, row by row: entry (a, b), b >= a, follows (a, b - 1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray


def packed_length(order: int) -> int:
    """How many numbers a triangle of order n has."""
    return order * (order + 1) // 2


def packed_order(length: int) -> int:
    """The order n of a triangle of n (n + 1)/2 numbers."""
    return (math.isqrt(8 * length + 1) - 1) // 2


def diagonal_entries(order: int) -> NDArray[np.int64]:
    """Where the diagonal is in a packed triangle."""
    i = np.arange(order)
    return i * order - i * (i - 1) // 2


def unpack(packed: NDArray[Any], dtype: Any = np.float64) -> NDArray[Any]:
    """The full matrix, or the stack of full matrices, of packed triangles on the last axis."""
    order = packed_order(packed.shape[-1])
    full = np.empty((*packed.shape[:-1], order, order), dtype)
    _fill(np.ascontiguousarray(packed).reshape(-1, packed.shape[-1]), full.reshape(-1, order, order))
    return full


def pack(full: NDArray[Any]) -> NDArray[Any]:
    """The upper triangles of a matrix or of a stack of matrices."""
    rows, columns = np.triu_indices(full.shape[-1])
    return full[..., rows, columns]


def squared_norms(packed: NDArray[np.float64], doubled: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every row the sum of ``doubled`` times its squares."""
    found = np.empty(len(packed))
    _square_rows(packed, doubled, found)
    return found


@njit(cache=True, parallel=True, fastmath={"reassoc", "contract"})
def _square_rows(packed, doubled, found):
    for j in prange(len(packed)):
        total = 0.0
        for k in range(len(doubled)):
            total += doubled[k] * packed[j, k] * packed[j, k]
        found[j] = total


@njit(cache=True, nogil=True)
def _fill(packed, full):
    for s in range(packed.shape[0]):
        at = 0
        for a in range(full.shape[1]):
            for b in range(a, full.shape[1]):
                full[s, a, b] = packed[s, at]
                full[s, b, a] = packed[s, at]
                at += 1


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_squares(packed, factors, x):
    """packed_j (n, d (d + 1)/2) += factors_j x_j x_j^T for the rows of x (n, d)."""
    for j in range(len(x)):
        add_square(packed[j], factors[j], x[j])


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_square(packed, factor, x):
    """packed (d (d + 1)/2) += factor x x^T, in floats or in whole numbers."""
    at = 0
    for a in range(len(x)):
        left, rest, to = factor * x[a], x[a:], packed[at:]
        for b in range(len(rest)):
            to[b] += left * rest[b]
        at += len(rest)
