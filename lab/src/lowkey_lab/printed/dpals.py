"""Lab room: DPALS as printed: Algorithms 1, 2 and 3 and the loss (35), line by line.

Paper: Chien et al. 2021. Letters: U, V factors, M ratings, Omega cells, k ``max_ratings``, T ``n_iter``, lambda
``ridge``, Gamma_u ``factor_norm``, Gamma_M ``entry_bound``, mu and nu ``item_exponent`` and ``user_exponent``, lambda_0
``unobserved``, beta ``frequent``. Deviates: V^(T+1), which nobody returns, is not computed; ``clip`` uses min; lists
(lambda_0 > 0, all entries 1) are not centred, and off the frequent items their score is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.privacy.accounting import rdp_epsilon
from lowkey_lab.printed.held import Held, gaussian_held

Array = NDArray[np.float64]
Rows = Any  # a scipy CSR array, users x items
BLOCK = 4096  # users whose outer products are held at once


@dataclass(frozen=True)
class Settings:
    """Algorithm 1 by default; Algorithm 3 goes before it where ``sigma_pre`` is given, as in Table 4.

    ``orthonormal`` is line 12. ``resampled`` are lines 6 and 13 in every round; the paper's experiments sample once and
    use all of a user's ratings for the user's own solve.
    """

    rank: int
    n_iter: int
    max_ratings: int
    ridge: float
    sigma_gram: float
    sigma_rhs: float
    factor_norm: float = 1.0
    entry_bound: float = 1.0
    orthonormal: bool = True
    resampled: bool = False
    item_exponent: float = 0.0
    user_exponent: float = 0.0
    unobserved: float = 0.0
    sigma_unobserved: float = 0.0  # the paper states none
    sigma_pre: float | None = None
    frequent: float = 1.0
    adaptive: bool = True  # False: line 5 takes any k of a user's frequent items, as Figure 5 has it beside
    projected: bool = True  # False: line 10 left out, likewise
    ridge_last: bool = False  # True: lambda is added after line 10, as the authors' public code has it
    copies: float = 1.0  # every row stands for so many users with the same ratings: a crowd that need not be stored


class Fitted(NamedTuple):
    """The item side, which is what would be published, and what a user needs for the own solve."""

    items: Array
    mean: float
    frequent: NDArray[np.bool_]
    user_scale: float  # Z of loss (35)
    settings: Settings


def fit(ratings: Rows, s: Settings, rng: np.random.Generator, start: Array | None = None) -> Fitted:
    """Algorithm 1, after Algorithm 3 if the settings have its noise."""
    n_items = ratings.shape[1]
    rows = with_values(ratings, np.clip(ratings.data, -s.entry_bound, s.entry_bound))  # 1
    mean, frequent, weight = 0.0, np.ones(n_items, bool), np.ones(n_items)
    if s.sigma_pre is not None:
        rows, mean, frequent, counts = preprocessed(rows, s, rng)
        powers = np.maximum(counts, 1.0) ** s.item_exponent
        weight = powers / powers.mean()
    lengths = np.diff(rows.indptr).astype(float)
    scale = float(np.mean(np.maximum(lengths, 1.0) ** s.user_exponent))  # Z: of exact counts
    v = rng.standard_normal((n_items, s.rank)) if start is None else start  # V^0
    v = orthonormalised(v) if s.orthonormal else v
    v = v * frequent[:, None]
    sampled = rows if s.sigma_pre is not None else sample(rows, s.max_ratings, rng)  # 6, once
    for _ in range(s.n_iter):  # 2
        own = sample(rows, np.ceil(lengths / s.n_iter).astype(int), rng) if s.resampled else rows  # 13
        u = clip(user_factors(v, own, s, scale), s.factor_norm)  # 3, 14, 15
        sampled = sample(rows, s.max_ratings, rng) if s.resampled else sampled  # 6
        v = item_factors(u, sampled, s, weight, rng)  # 4
        v[~frequent] = 0.0
        v = orthonormalised(v) if s.orthonormal else v  # 12
    return Fitted(v, mean, frequent, scale, s)  # 5


def item_factors(u: Array, rows: Rows, s: Settings, weight: Array, rng: np.random.Generator) -> Array:
    """A_item, lines 7 to 11."""
    n_items, r = rows.shape[1], s.rank
    gram, rhs = np.zeros((n_items, r * r)), np.asarray(rows.T @ u)
    for low in range(0, len(u), BLOCK):
        block = slice(low, low + BLOCK)
        gram += pattern(rows[block]).T @ outer(u[block])
    ridge = s.ridge * weight[:, None]
    gram, rhs = s.copies * gram.reshape(n_items, r, r), s.copies * rhs
    gram = gram if s.ridge_last else gram + ridge[..., None] * np.eye(r)
    gram += s.factor_norm**2 * s.sigma_gram * symmetric_noise(n_items, r, rng)  # 7, 9
    if s.unobserved:
        noise = s.sigma_unobserved * symmetric_noise(1, r, rng)[0]
        gram += s.unobserved * (s.copies * u.T @ u + s.factor_norm**2 * noise)
    rhs += s.factor_norm * s.entry_bound * s.sigma_rhs * rng.standard_normal((n_items, r))  # 8
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0) + ridge if s.ridge_last else values
    size = values if s.projected else np.abs(values)
    keep = size > 1e-12 * np.abs(values).max(axis=1, keepdims=True)
    inverse = np.where(keep, 1.0 / np.where(keep, values, 1.0), 0.0)  # 10, 11: (Pi_PSD X)^+
    return np.einsum("jab,jb,jcb,jc->ja", vectors, inverse, vectors, rhs, optimize=True)


def user_factors(v: Array, rows: Rows, s: Settings, scale: float) -> Array:
    """A_user, line 14, with the weights and the global term of loss (35)."""
    r, lengths = s.rank, np.diff(rows.indptr)
    shared, products = s.unobserved * (v.T @ v), outer(v)
    u = np.empty((rows.shape[0], r))
    for low in range(0, len(u), BLOCK):
        block = slice(low, low + BLOCK)
        ridge = s.ridge * np.maximum(lengths[block], 1.0) ** s.user_exponent / scale
        gram = np.asarray(pattern(rows[block]) @ products).reshape(-1, r, r)
        gram = gram + shared + ridge[:, None, None] * np.eye(r)
        u[block] = np.linalg.solve(gram, np.asarray(rows[block] @ v)[..., None])[..., 0]
    return u


def preprocessed(rows: Rows, s: Settings, rng: np.random.Generator) -> tuple[Rows, float, NDArray[np.bool_], Array]:
    """Algorithm 3: private counts, frequent items, each user's rarest, a recount and the private mean."""
    assert s.sigma_pre is not None
    n_items, sigma = rows.shape[1], s.sigma_pre
    count = lambda cells: s.copies * np.bincount(cells.indices, minlength=n_items)
    noisy = lambda cells: count(cells) + sigma * rng.standard_normal(n_items)
    counts = noisy(sample(rows, s.max_ratings, rng))  # 2, 3
    frequent = np.zeros(n_items, bool)
    frequent[np.argsort(-counts, kind="stable")[: math.ceil(s.frequent * n_items)]] = True  # 4
    rank = counts[rows.indices] if s.adaptive else rng.random(rows.nnz)
    order = np.where(frequent[rows.indices], rank, np.inf)
    rows = smallest(rows, order, s.max_ratings)  # 5
    counts = noisy(rows)  # 6
    if s.unobserved:  # all entries are 1: centred, nothing would be left
        return rows, 0.0, frequent, counts
    root = math.sqrt(s.max_ratings) * sigma
    total = s.copies * rows.data.sum() + s.entry_bound * root * rng.standard_normal()
    mean = total / (s.copies * rows.nnz + root * rng.standard_normal())  # 7
    return with_values(rows, rows.data - mean), float(mean), frequent, counts


def power_start(rows: Rows, n_iter: int, coherence: float, sigma: float, rng: np.random.Generator) -> Array | None:
    """Algorithm 2, rank one; ``None`` is its report of a failure (line 2). ``retried`` draws another start then."""
    w = rng.standard_normal(rows.shape[1])
    w /= np.linalg.norm(w)  # 1
    for _ in range(n_iter):
        if np.abs(w).max() > coherence / math.sqrt(len(w)):
            return None  # 2
        z = np.asarray(rows.T @ (rows @ w)) + sigma * rng.standard_normal(len(w))  # 3
        w = z / np.linalg.norm(z)  # 4
    return w


def retried(rows: Rows, n_iter: int, coherence: float, sigma: float, rng: np.random.Generator, tries: int = 10) -> Array:
    """Algorithm 2 until it does not fail. Each try reads the data again: the printed price is that of one try."""
    for _ in range(tries):
        w = power_start(rows, n_iter, coherence, sigma, rng)
        if w is not None:
            return w
    raise ArithmeticError(f"no start within {tries} tries is {coherence:g}-incoherent")


def predict(model: Fitted, histories: Rows) -> Array:
    """Users' ratings of all items by the own solve without clipping (appendix D.1); the own mean off the frequent items."""
    s = model.settings
    clipped = np.clip(histories.data, -s.entry_bound, s.entry_bound)
    rows = with_values(histories, clipped - model.mean)
    u = user_factors(model.items, masked(rows, model.frequent), s, model.user_scale)
    scores = u @ model.items.T + model.mean
    if not model.frequent.all() and not s.unobserved:  # of lists, what is not frequent has score 0
        lengths = np.maximum(np.diff(histories.indptr), 1)
        own = np.asarray(with_values(histories, clipped).sum(axis=1)).ravel() / lengths
        scores[:, ~model.frequent] = own[:, None]
    return scores


def held(s: Settings, delta: float) -> Held:
    """Add/remove. Theorem 1 books one of two releases; Algorithm 3 a scalar sum at sqrt(k) where it moves by k."""
    k, rounds = s.max_ratings, s.n_iter
    mu_squared = k * rounds * (1.0 / s.sigma_gram**2 + 1.0 / s.sigma_rhs**2)
    booked = k * rounds / (2.0 * s.sigma_gram**2) + k * rounds / (2.0 * s.sigma_rhs**2)
    reasons = ["both releases of a round are priced, as in Table 4 and not as in Theorem 1"]
    if s.sigma_pre is not None:
        mu_squared += (2.0 if s.unobserved else 4.0) * k / s.sigma_pre**2
        booked += (k + 1.0) / s.sigma_pre**2
        if not s.unobserved:
            reasons.append("one user moves the scalar sum of the private mean by k, not by sqrt(k)")
    if s.unobserved:
        mu_squared += rounds / s.sigma_unobserved**2 if s.sigma_unobserved else math.inf
        reasons.append("no noise is stated for the users' Gram matrix")
    claimed = rdp_epsilon(booked, delta)
    leak = s.user_exponent != 0.0 or math.isinf(mu_squared)
    if s.user_exponent:
        reasons.append("Z is made of exact user counts: one more user moves everybody's right-hand side")
    return gaussian_held(math.sqrt(mu_squared), delta, claimed, tuple(reasons), "refuted" if leak else "proven")


# Pieces -----------------------------------------------------------------------------------------------------------------
def clip(u: Array, bound: float) -> Array:
    norms = np.linalg.norm(u, axis=1, keepdims=True)
    return u * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def orthonormalised(v: Array) -> Array:
    """V (V^T V)^(-1/2), line 12."""
    left, _, right = np.linalg.svd(v, full_matrices=False)
    return left @ right


def symmetric_noise(count: int, r: int, rng: np.random.Generator) -> Array:
    """N_sym(0, 1): the upper triangle independent, the lower its mirror."""
    noise = np.triu(rng.standard_normal((count, r, r)))
    return noise + np.triu(noise, 1).transpose(0, 2, 1)


def outer(rows: Array) -> Array:
    return (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def with_values(rows: Rows, values: Array) -> Rows:
    return scipy.sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)


def pattern(rows: Rows) -> Rows:
    return with_values(rows, np.ones(rows.nnz))


def masked(rows: Rows, keep: NDArray[np.bool_]) -> Rows:
    return chosen(rows, keep[rows.indices])


def chosen(rows: Rows, keep: NDArray[np.bool_]) -> Rows:
    lengths = np.add.reduceat(np.append(keep, False).astype(np.int64), rows.indptr[:-1]) * (np.diff(rows.indptr) > 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return scipy.sparse.csr_array((rows.data[keep], rows.indices[keep], offsets), shape=rows.shape)


def sample(rows: Rows, most: int | NDArray[np.int64], rng: np.random.Generator) -> Rows:
    """Up to ``most`` cells of every user, all alike likely."""
    return smallest(rows, rng.random(rows.nnz), most)


def smallest(rows: Rows, order: Array, most: int | NDArray[np.int64]) -> Rows:
    """Of every user the cells with the smallest finite ``order``, at most ``most`` of them."""
    user = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    ranked = np.lexsort((order, user))  # CSR keeps a user's cells together, so places within a user follow
    place = np.empty(rows.nnz, np.int64)
    place[ranked] = np.arange(rows.nnz) - rows.indptr[user]
    limit = np.broadcast_to(most, rows.shape[0])[user]
    return chosen(rows, (place < limit) & np.isfinite(order))
