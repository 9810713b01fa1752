"""Public room: the n best columns of every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray


def top_n(
    scores: NDArray[Any], n: int, excluded: scipy.sparse.csr_array | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Positions and scores of the n largest entries per row, best first, ties by position. Overwrites ``scores``."""
    if excluded is not None:
        rows = np.repeat(np.arange(scores.shape[0]), np.diff(excluded.indptr))
        scores[rows, excluded.indices] = -np.inf
    positions = np.empty((scores.shape[0], n), np.int64)
    best = np.empty((scores.shape[0], n), scores.dtype)
    _scan(scores, positions, best)
    return positions, best


@njit(cache=True, nogil=True)
def _scan(scores: Any, positions: Any, best: Any) -> None:
    """One pass over a row, with the n best so far kept in order: all but a few entries end at the first comparison."""
    n = best.shape[1]
    for row in range(scores.shape[0]):
        filled = 0
        for column in range(scores.shape[1]):
            score = scores[row, column]
            if filled == n and not score > best[row, n - 1]:
                continue
            place = min(filled, n - 1)
            while place > 0 and score > best[row, place - 1]:
                best[row, place] = best[row, place - 1]
                positions[row, place] = positions[row, place - 1]
                place -= 1
            best[row, place] = score
            positions[row, place] = column
            filled = min(filled + 1, n)
