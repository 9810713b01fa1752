"""Public room: item effects and factors of people whose ratings are public: no noise, no budget, nothing to tune.

Paper: Lim and Teh 2007 (variational Bayes for matrix factorisation). Deviates: items and users have a bias, too.

rating = center + b_j + o_u + v_j . u_u + N(0, s^2), with (b_j, v_j) ~ N(0, diag P), (o_u, u_u) ~ N(0, diag(t^2, 1, ...)).
Users' and items' posteriors in turns, each with the other's uncertainty; P, t^2 and s^2 by the same likelihood.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
RANK, TURNS = 10, 25
LEAST = 1e-4  # of a variance of the ratings


class OpenFit(NamedTuple):
    center: float
    means: Array  # (n_items, 1 + rank): effect, then factor for which a user's ridge is ``variance``
    precisions: Array  # of the same by the ratings alone, without the prior, (n_items, 1 + rank, 1 + rank)
    prior: Array  # variances of both over items, (1 + rank,)
    variance: float  # of a rating around the model
    offset_variance: float


def open_fit(rows: Any, rank: int = RANK, seed: int = 0) -> OpenFit:
    """Of CSR rows (n_users, n_items) that are public. Items that nobody rated have effect and factor 0."""
    n_items = rows.shape[1]
    center = float(np.average(rows.data))  # of public people: nothing here is protected
    by_user = (rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data - center)
    turned = rows.T.tocsr()
    by_item = (turned.indptr.astype(np.int64), turned.indices.astype(np.int64), turned.data - center)
    spread = float(by_user[2].var())
    size = 1 + rank
    items = 0.1 * math.sqrt(spread) * np.random.default_rng(seed).standard_normal((n_items, size))
    items[:, 0] = 0.0
    item_covariance, user_prior = np.zeros((n_items, size, size)), np.append(0.2 * spread, np.ones(rank))
    item_prior, variance = np.append(0.2 * spread, np.full(rank, 0.05 * spread)), 0.7 * spread
    rated, used = np.diff(by_item[0]) > 0, item_prior
    for _ in range(TURNS):
        users, user_covariance, _ = _side(*by_user, items, item_covariance, user_prior, variance, False)
        items, item_covariance, misfit = _side(*by_item, users, user_covariance, item_prior, variance, True)
        used = item_prior
        squares = items[rated] ** 2 + np.diagonal(item_covariance[rated], axis1=1, axis2=2)
        item_prior = np.maximum(squares.mean(axis=0), LEAST * spread)
        user_prior[0] = max(float((users[:, 0] ** 2 + user_covariance[:, 0, 0]).mean()), LEAST * spread)
        variance = max(misfit / len(by_user[2]), LEAST * spread)
    precisions = np.asarray(np.linalg.inv(item_covariance) - np.diag(1.0 / used), np.float64)
    precisions[~rated] = 0.0
    return OpenFit(center, items, precisions, used, variance, float(user_prior[0]))


@njit(cache=True, nogil=True)
def _side(offsets, others, values, means, covariance, prior, variance, measured):
    """Posterior means and covariances of one side given the other; if ``measured``, the expected squared misfit.

    The first coordinate of either side is its bias: it meets a 1 on the other.
    """
    n, size = len(offsets) - 1, means.shape[1]
    found, spread = np.zeros((n, size)), np.zeros((n, size, size))
    misfit = 0.0
    design = np.empty(size)
    for i in range(n):
        precision, target = np.diag(1.0 / prior), np.zeros(size)
        for p in range(offsets[i], offsets[i + 1]):
            j = others[p]
            design[:] = means[j]
            design[0] = 1.0
            rest = values[p] - means[j, 0]
            for a in range(size):
                # E[design (value - other bias)]: the other's bias and factor are correlated
                tied = covariance[j, 0, a] if a > 0 else 0.0
                target[a] += (design[a] * rest - tied) / variance
                for b in range(size):
                    own = covariance[j, a, b] if a > 0 and b > 0 else 0.0
                    precision[a, b] += (design[a] * design[b] + own) / variance
        inverse = np.linalg.inv(precision)
        found[i] = inverse @ target
        spread[i] = inverse
        for p in range(offsets[i], offsets[i + 1] if measured else offsets[i]):
            j = others[p]
            design[:] = means[j]
            design[0] = 1.0
            rest = values[p] - means[j, 0] - design @ found[i]
            misfit += rest * rest + covariance[j, 0, 0]
            for a in range(size):
                tied = covariance[j, 0, a] if a > 0 else 0.0
                misfit += 2.0 * tied * found[i, a]
                for b in range(size):
                    own = covariance[j, a, b] if a > 0 and b > 0 else 0.0
                    misfit += (design[a] * design[b] + own) * inverse[a, b] + own * found[i, a] * found[i, b]
    return found, spread, misfit
