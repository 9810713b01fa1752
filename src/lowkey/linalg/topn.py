"""Public room: the n best columns of every row."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


def top_n(
    scores: NDArray[np.float64], n: int, excluded: scipy.sparse.csr_array | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Positions and scores of the n largest entries per row, best first, ties by position. Overwrites ``scores``."""
    if excluded is not None:
        rows = np.repeat(np.arange(scores.shape[0]), np.diff(excluded.indptr))
        scores[rows, excluded.indices] = -np.inf
    if n < scores.shape[1]:
        candidates = np.sort(np.argpartition(-scores, n - 1, axis=1)[:, :n], axis=1)
    else:
        candidates = np.broadcast_to(np.arange(n), scores.shape)
    values = np.take_along_axis(scores, candidates, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(values, order, axis=1)
