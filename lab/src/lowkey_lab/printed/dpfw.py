"""Lab room: private Frank-Wolfe (Algorithm 1) and Private SVD (Algorithm 3) as printed, line by line.

Paper: Jain, Thakkar and Thakurta 2018. Letters: Y* ratings, Y completed rows, L ``row_norm``, k ``nuclear_norm``, T
``n_iter``, beta ``failure``, r ``rank``. Deviates: a row of Y is kept as its coefficients on the posted vectors. Where
W is not symmetric, "top right eigenvector" and "eigenvalue" are the right singular vector and the singular value, as in
the proof of Theorem 3.2; line 6 adds sqrt(sigma log(n/beta)) n^(1/4), as in Lemma C.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from lowkey_lab.printed.held import Held, gaussian_held

Array = NDArray[np.float64]
Rows = Any  # a scipy CSR array, users x items
BLOCK = 8192


@dataclass(frozen=True)
class Settings:
    """``sigma`` is the noise on W; ``printed_sigma`` is line 2 of both algorithms."""

    n_iter: int
    row_norm: float
    nuclear_norm: float
    sigma: float
    failure: float = 0.1


class Completed(NamedTuple):
    """Y^(T): each user's coefficients on the directions that were posted."""

    coefficients: Array
    directions: Array

    def rows(self, users: Any = slice(None)) -> Array:
        return self.coefficients[users] @ self.directions


def printed_sigma(epsilon: float, delta: float, row_norm: float, n_iter: int) -> float:
    """Line 2: L^2 sqrt(64 T log(1/delta))/epsilon; Algorithm 3 has T = 1."""
    return row_norm**2 * math.sqrt(64.0 * n_iter * math.log(1.0 / delta)) / epsilon  # 2


def frank_wolfe(ratings: Rows, s: Settings, rng: np.random.Generator) -> Completed:
    """Algorithm 1. Rows are projected to ``row_norm`` first: the paper assumes that they are within it."""
    (n_users, n_items), rounds = ratings.shape, s.n_iter
    user = np.repeat(np.arange(n_users), np.diff(ratings.indptr))
    target = ratings.data.astype(float)
    target = target * projection(target, user, n_users, s.row_norm)[user]
    seen = np.zeros(len(target))  # P_Omega(Y^(0)) = 0
    coefficients, directions = np.zeros((n_users, rounds)), np.zeros((rounds, n_items))
    v, value = np.zeros(n_items), 0.0  # 3
    for t in range(1, rounds + 1):  # 4
        biased = value + math.sqrt(s.sigma * math.log(n_items / s.failure)) * n_items**0.25  # 6
        along = v[ratings.indices]
        u = np.bincount(user, (seen - target) * along, n_users) / biased if biased else np.zeros(n_users)  # 14, 15
        seen = (1.0 - 1.0 / rounds) * seen - s.nuclear_norm / rounds * u[user] * along  # 17
        scale = projection(seen, user, n_users, s.row_norm)  # 16
        seen *= scale[user]
        coefficients *= (1.0 - 1.0 / rounds) * scale[:, None]
        coefficients[:, t - 1], directions[t - 1] = -s.nuclear_norm / rounds * u * scale, v
        if t < rounds:  # 19, 21 to 23
            w = gram(ratings, seen - target) + s.sigma * rng.standard_normal((n_items, n_items))  # 5, 7 to 10, 18
            v, value = leading(w)  # 11
    return Completed(coefficients, directions)  # 20


def private_svd(ratings: Rows, rank: int, row_norm: float, sigma: float, rng: np.random.Generator) -> Completed:
    """Algorithm 3."""
    n_users, n_items = ratings.shape
    user = np.repeat(np.arange(n_users), np.diff(ratings.indptr))
    values = ratings.data * projection(ratings.data, user, n_users, row_norm)[user]
    w = gram(ratings, values) + sigma * rng.standard_normal((n_items, n_items))  # 1
    basis = np.linalg.svd(w)[2][:rank]
    scale = n_users * n_items / ratings.nnz  # of the private |Omega|
    return Completed(scale * np.asarray(ratings @ basis.T), basis)  # 2


def frank_wolfe_mu(n_iter: int, row_norm: float, sigma: float) -> float:
    """Add/remove: T - 1 posts, the first of rows within L, the others of residuals within 2L."""
    return row_norm**2 / sigma * math.sqrt(1.0 + 16.0 * (n_iter - 2)) if n_iter > 1 else 0.0


def frank_wolfe_held(s: Settings, delta: float, claimed: float) -> Held:
    reasons = (
        "round 1 has rows within L and round T posts nothing: less is posted than is priced",
        "the Gram matrix moves by 4 L^2 when a user is added; by 4 sqrt(2) L^2 when one is replaced (Definition 2.2)",
    )
    return gaussian_held(frank_wolfe_mu(s.n_iter, s.row_norm, s.sigma), delta, claimed, reasons)


def private_svd_held(row_norm: float, sigma: float, delta: float, claimed: float) -> Held:
    """The scale m n/|Omega| is private; each user who applies it to the own row learns |Omega| exactly."""
    reason = ("|Omega| is handed to every user without noise",)
    return gaussian_held(row_norm**2 / sigma, delta, claimed, reason, "none proven")


def leading(w: Array) -> tuple[Array, float]:
    """The top right singular vector of W, and the root of its singular value."""
    last = [len(w) - 1] * 2
    values, vectors = scipy.linalg.eigh(w.T @ w, subset_by_index=last)
    return vectors[:, 0], float(max(values[0], 0.0) ** 0.25)


def projection(values: Array, user: NDArray[np.int64], n_users: int, bound: float) -> Array:
    """Pi_L: per user, the factor that brings the row on its cells to norm ``bound`` at most."""
    norms = np.sqrt(np.bincount(user, values**2, n_users))
    return np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def gram(rows: Rows, values: Array) -> Array:
    """Sum of A_i^T A_i, in dense blocks of users."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for low in range(0, rows.shape[0], BLOCK):
        ends = rows.indptr[low : low + BLOCK + 1]
        dense = np.zeros((len(ends) - 1, rows.shape[1]))
        cells = slice(ends[0], ends[-1])
        dense[np.repeat(np.arange(len(dense)), np.diff(ends)), rows.indices[cells]] = values[cells]
        total += dense.T @ dense
    return total
