"""Lab room: a factorisation by DP-SGD, the comparator of DPALS: user-level clipped gradients, full batch, exact accounting.

Each round a user solves for the own row u given the item factors V (local, free) and shows the gradient of the own squared
errors in V, the matrix e u^T with e the errors on the own items, scaled to Frobenius norm ``gradient_norm`` at most. The
curator posts the sum with noise; V moves against it. One user moves the sum by ``gradient_norm``, or by twice that when
replaced, so T rounds with noise sigma * gradient_norm cost mu = sqrt(T)/sigma: Gaussian releases, composed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.privacy.accounting import gaussian_mu
from lowkey_lab.printed import dpals

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """``noise_multiplier`` is sigma; ``step`` is per expected user. Without noise it is 0."""

    rank: int
    n_iter: int
    step: float
    ridge: float
    gradient_norm: float
    noise_multiplier: float
    expected_users: int


def noise_multiplier(epsilon: float, delta: float, n_iter: int) -> float:
    """Add/remove: mu^2 = T/sigma^2."""
    return math.sqrt(n_iter) / gaussian_mu(epsilon, delta)


def gradient(items: Array, rows: Any, s: Settings) -> Array:
    """Sum over users of e u^T, each scaled to ``gradient_norm``: |e u^T| = |e| |u|, so no user's matrix is formed."""
    users = own_rows(items, rows, s)
    where = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    errors = np.einsum("nr,nr->n", users[where], items[rows.indices]) - rows.data
    norms = np.sqrt(np.bincount(where, errors**2, rows.shape[0])) * np.linalg.norm(users, axis=1)
    scale = np.minimum(1.0, s.gradient_norm / np.maximum(norms, 1e-300))
    return np.asarray(dpals.with_values(rows, errors * scale[where]).T @ users)


def own_rows(items: Array, rows: Any, s: Settings) -> Array:
    """The ridge regression of each user on the own ratings."""
    solve = dpals.Settings(s.rank, s.n_iter, rows.shape[1], s.ridge, 0.0, 0.0)
    return dpals.user_factors(items, rows, solve, 1.0)


def fit(rows: Any, s: Settings, rng: np.random.Generator) -> Array:
    """The item factors after ``n_iter`` steps from a random start."""
    items = rng.standard_normal((rows.shape[1], s.rank)) / math.sqrt(s.rank)
    for _ in range(s.n_iter):
        noise = s.noise_multiplier * s.gradient_norm * rng.standard_normal(items.shape)
        items = items - s.step / s.expected_users * rows.shape[1] * (gradient(items, rows, s) + noise)
    return items


def predict(items: Array, histories: Any, s: Settings) -> Array:
    return own_rows(items, histories, s) @ items.T
