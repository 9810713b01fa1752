"""Public room: the n best columns of every row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numba import njit
from numpy.typing import NDArray

ROUNDING = 2.0**-23  # of a sum of single-precision products, per term


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


class ByNorm:
    """The best items for one user at a time, exactly, without a look at all of them.

    A score is base_i + v_i . u, which is at most base_i + |v_i - m| |u| + m . u for any m; here m is the mean item, so that
    what all items share is in no norm. Items stand in blocks, by falling norm. If what is left has a largest base b and a
    largest norm r, and b + r |u| + m . u is below the n-th best so far, none of it can be among the n best.
    """

    def __init__(self, vectors: NDArray[Any], base: NDArray[Any], block: int = 1 << 13) -> None:
        mean = vectors.mean(axis=0)
        centred = np.asarray(vectors - mean, np.float32)
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        self.order = np.argsort(-norms, kind="stable")
        self.mean, self.vectors = mean, centred[self.order]
        self.base = np.asarray(base, np.float32)[self.order]
        self.starts = range(0, len(norms), block)
        # of each block and all after it
        self.norms = norms[self.order][self.starts]
        self.bases = np.maximum.accumulate(np.maximum.reduceat(self.base, self.starts)[::-1])[::-1]
        self.block = block

    def best_of(
        self, users: NDArray[Any], n: int, seen: scipy.sparse.csr_array | None, barred: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """As ``best``, of every row: without what is ``seen`` in it, and what is barred to all."""
        found = []
        for u, user in enumerate(users):
            skipped = np.zeros(len(self.order), bool) if barred is None else barred.copy()
            if seen is not None:
                skipped[seen.indices[seen.indptr[u] : seen.indptr[u + 1]]] = True
            found.append(self.best(user, n, skipped))
        return np.array([positions for positions, _ in found]), np.array([scores for _, scores in found])

    def best(self, user: NDArray[Any], n: int, skipped: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Positions and scores of the n best that are not ``skipped``, best first, ties by position."""
        shared, reach = float(self.mean @ user), float(np.linalg.norm(user)) * (1.0 + ROUNDING * len(user))
        own = np.asarray(user, np.float32)
        positions, best = np.full(n, len(self.order), np.int64), np.full(n, -np.inf, np.float32)
        for at, start in enumerate(self.starts):
            part = slice(start, start + self.block)
            if self.bases[at] + self.norms[at] * reach + abs(self.bases[at]) * ROUNDING < best[-1]:
                break
            _merge(self.vectors[part] @ own + self.base[part], self.order[part], skipped, positions, best)
        return positions, best + np.float32(shared)


@njit(cache=True, nogil=True)
def _merge(scores: Any, order: Any, skipped: Any, positions: Any, best: Any) -> None:
    """The n best so far, and what a block adds to them."""
    n = len(best)
    for at in range(len(scores)):
        score, item = scores[at], order[at]
        if score < best[n - 1] or skipped[item] or (score == best[n - 1] and item > positions[n - 1]):
            continue
        place = n - 1
        while place > 0 and (score > best[place - 1] or (score == best[place - 1] and item < positions[place - 1])):
            best[place], positions[place] = best[place - 1], positions[place - 1]
            place -= 1
        best[place], positions[place] = score, item
