"""Lab room: measures of quality. They look at single users' data, so their values are not private.

Lists of recommendations are (n_users, k) positions, best first, -1 where a list is short. What is relevant to a user
is the set of stored entries in that user's row of a CSR array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.integer[Any]]


def rmse(predicted: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean(np.square(_errors(predicted, actual)))))


def mae(predicted: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """Mean absolute error."""
    return float(np.mean(np.abs(_errors(predicted, actual))))


def recall_at_k(recommended: Positions, relevant: Any) -> float:
    """Hits among the k recommended / min(k, number of relevant items), averaged over users who have a relevant item.

    The definition of the DPALS paper (Chien et al. 2021, section 5.1): a perfect list scores 1, whatever k is.
    """
    hits, counts = _hits(recommended, relevant)
    possible = np.minimum(recommended.shape[1], counts)
    has_any = counts > 0
    return float(np.mean(hits[has_any].sum(axis=1) / possible[has_any])) if has_any.any() else float("nan")


def ndcg_at_k(recommended: Positions, relevant: Any) -> float:
    """Discounted hits, 1/log2(place + 1), over those of a perfect list; averaged over users who have a relevant item."""
    hits, counts = _hits(recommended, relevant)
    k = recommended.shape[1]
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    best = np.concatenate([[0.0], np.cumsum(discounts)])[np.minimum(k, counts)]
    has_any = counts > 0
    return float(np.mean(hits[has_any] @ discounts / best[has_any])) if has_any.any() else float("nan")


def better_of_two(scores: npt.ArrayLike, actual: Any) -> float:
    """Of two held-out items that a user rated differently, how often the better one scores higher (ties: half).

    ``scores`` belong to the stored entries of ``actual``. Averaged over users who have such a pair; a coin gets 0.5. It
    compares models that predict ratings with those that only rank.
    """
    scores, found = np.asarray(scores, np.float64), []
    for start, stop in zip(actual.indptr[:-1], actual.indptr[1:], strict=True):
        better = actual.data[start:stop, None] > actual.data[None, start:stop]
        if better.any():
            ahead = np.sign(scores[start:stop, None] - scores[None, start:stop])[better]
            found.append(float(np.mean(ahead + 1.0)) / 2.0)
    return float(np.mean(found)) if found else float("nan")


def coverage(recommended: Positions, n_items: int) -> float:
    """The share of the catalogue that is in somebody's list."""
    return len(np.unique(recommended[recommended >= 0])) / n_items


def _errors(predicted: npt.ArrayLike, actual: npt.ArrayLike) -> npt.NDArray[np.float64]:
    return np.asarray(predicted, np.float64) - np.asarray(actual, np.float64)


def _hits(recommended: Positions, relevant: Any) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which places of each list are relevant, and how many items are relevant to each user."""
    n_users, n_items = relevant.shape
    rows = np.repeat(np.arange(n_users, dtype=np.int64), np.diff(relevant.indptr))
    wanted = np.sort(rows * n_items + relevant.indices)  # user and item in one number
    listed = np.arange(n_users, dtype=np.int64)[:, None] * n_items + recommended
    place = np.minimum(np.searchsorted(wanted, listed), max(len(wanted) - 1, 0))
    hits = (wanted[place] == listed) & (recommended >= 0) if len(wanted) else np.zeros(listed.shape, np.bool_)
    return hits, np.diff(relevant.indptr).astype(np.int64)
