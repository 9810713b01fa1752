"""Lab room: what a round like those of ``DPFactors`` could reach at best on made-up ratings, all else given away.

Every user solves for the own factor with the **true** item factors and biases, and knows the own true offset; items' Gram
matrices and all variances are known; one round gets the whole budget, and its noise is all that stands between the true
items and those served. NOT PRIVATE, and out of any fit's reach: a target for a fit must lie above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split
from lowkey.kernels.gram import users_by_item
from lowkey.methods.factors.bounds import BOUND_SHARE
from lowkey.model import Model
from lowkey.privacy.accounting import gaussian_mu
from lowkey.privacy.ledger import Ledger

Array = NDArray[Any]
WEIGHT_POWERS = (0.0, 0.25, 0.5)


def ceilings(split: Split, truth: dict[str, Any], epsilons: Sequence[float], delta: float) -> list[float]:
    """RMSE at every epsilon, for ratings drawn from ``truth``, each with the best of ``WEIGHT_POWERS``."""
    rows: Any = split.train._open_csr()
    items = truth["item_factors"].astype(np.float64)
    user = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    y = rows.data - (truth["mean"] + truth["user_bias"][user] + truth["item_bias"][rows.indices])
    taste = np.einsum("nk,nk->n", truth["user_factors"][user], truth["item_factors"][rows.indices])
    variance = float(np.mean((y - taste) ** 2))  # of a rating around the true model
    factors, residuals = _left_out(rows, y, items, variance)
    rng = np.random.default_rng(0)

    def rmse(epsilon: float, power: float) -> float:
        found = _solved(rows, user, items, factors, residuals, variance, gaussian_mu(epsilon, delta), power, rng)
        return _rmse(split, truth, variance, found)

    return [min(rmse(epsilon, power) for power in WEIGHT_POWERS) for epsilon in epsilons]


def _left_out(rows: Any, y: Array, items: Array, variance: float) -> tuple[Array, Array]:
    """For every rating the user's factor by the true items without that one, and what it leaves of the rating."""
    rank = items.shape[1]
    factors, residuals = np.empty((len(y), rank), np.float32), np.empty(len(y))
    for u in range(rows.shape[0]):
        own = slice(*rows.indptr[u : u + 2])
        v = items[rows.indices[own]]
        gains = v @ np.linalg.inv(v.T @ v + variance * np.eye(rank))
        solution = y[own] @ gains
        residuals[own] = (y[own] - v @ solution) / (1.0 - np.einsum("nk,nk->n", v, gains))
        factors[own] = solution - residuals[own][:, None] * gains
    return factors, residuals


def _solved(
    rows: Any,
    user: Array,
    items: Array,
    factors: Array,
    residuals: Array,
    variance: float,
    mu: float,
    power: float,
    rng: Any,
) -> Array:
    """Posterior means of the item factors after one round of a user's rows w e p/N, clipped as a whole."""
    n_users, n_items = rows.shape
    rank, item = items.shape[1], rows.indices
    weights = (np.bincount(item, minlength=n_items).clip(1) ** -power)[item]
    weights /= np.sqrt(np.bincount(user, weights**2, n_users))[user]
    lengths = (factors.astype(np.float64) ** 2).sum(axis=1)
    # Who has one rating has no factor without it, and adds nothing.
    squares = np.bincount(user, weights * lengths, n_users) / np.bincount(user, weights, n_users).clip(1e-9) + 1e-9
    norms = np.sqrt(np.bincount(user, (weights * residuals) ** 2 * lengths, n_users) / squares)
    bound = BOUND_SHARE * np.sqrt(variance)
    weights *= (np.minimum(1.0, bound / norms.clip(1e-9)) / np.sqrt(squares))[user]
    starts, position, _ = users_by_item(rows.indptr, item, n_items)
    found, prior = np.empty(items.shape), np.eye(rank) / float(items.var())
    for j in range(n_items):
        own = position[starts[j] : starts[j + 1]]
        p, w = factors[own].astype(np.float64), weights[own]
        gram = p.T @ (w[:, None] * p)
        noise = (bound / mu) ** 2 * np.eye(rank) + variance * p.T @ (w[:, None] ** 2 * p)
        posted = gram @ items[j] + (w * residuals[own]) @ p + bound / mu * rng.standard_normal(rank)
        seen = np.linalg.solve(noise, gram).T
        found[j] = np.linalg.solve(seen @ gram + prior, seen @ posted)
    return found


def _rmse(split: Split, truth: dict[str, Any], variance: float, factors: Array) -> float:
    settings = {
        "center": truth["mean"],
        "rating_range": list(split.train.domain.rating_range or ()),
        "offset_reg": variance / float(truth["user_bias"].var()),
        "reg": variance,
    }
    arrays = {"item_bias": truth["item_bias"].astype(np.float64), "item_factors": factors}
    model = Model("ceiling", "factors", arrays, settings, split.train.domain, Ledger())
    return evaluate(model, split.histories, split.held_out)["rmse"]
