"""Public room: from posted moments to a released model; all of it post-processing.

Of ratings it is a factor model, fitted to the noisy second moments entry by entry, each with its own precision: they obey
S_ij = C_ij (w_i . w_j - c) + N(0, s^2 + kappa C_ij) for i < j, with s the known noise of the post. No entry is divided by
a noisy co-count: an entry that says little simply weighs little. Of what was taken it is EASE, or its low-rank form.
Paper: ours (docs/moments.md), after Steck 2019 (EASE).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from lowkey.linalg.packed import unpack
from lowkey.methods.base import Released
from lowkey.methods.counts import count_posterior
from lowkey.methods.leanings import BESIDE_FACTORS, posted_leanings, ranked
from lowkey.methods.moments.ease import clean_gram, ease_weights
from lowkey.methods.moments.posted import Moments

Matrix = NDArray[np.float64]
EASE_RIDGE = 1.3
RANKS = (10, 20, 40)  # tried on the moments themselves; one of them alone where the head is large
LARGE_HEAD, LARGE_HEAD_RANK = 1000, 20
SPIKES = 64  # eigenvalues looked for above the noise; far more than ever stand out


def model_of(moments: Moments, n_items: int, rank: int | None, reg: float) -> Released:
    """The rule, the arrays and the settings of a model. ``reg`` scales the ridge that follows from the moments."""
    if moments.feedback == "ratings":
        return _rating_model(moments, n_items, default_rank(moments) if rank is None else rank, reg)
    return _ease(moments, n_items, reg) if rank is None else _row_factors(moments, n_items, rank, reg)


def _rating_model(moments: Moments, n_items: int, rank: int, reg: float) -> Released:
    factors, variance = rating_factors(moments, n_items, rank)
    arrays, std = moments.arrays, moments.noise_std.get("item_counts", 0.0)
    counts, effects = count_posterior(np.asarray(arrays["item_counts"], np.float64), std), np.asarray(arrays["item_bias"])
    lean = BESIDE_FACTORS * math.sqrt(reg) * posted_leanings(effects, counts, variance)
    settings = {
        "center": moments.settings["center"],
        "rating_range": moments.settings["rating_range"],
        "offset_reg": variance / moments.settings["offset_variance"],
        "reg": reg * variance,
    }
    released = Released("factors", {"item_factors": np.hstack([factors, lean]), "item_bias": effects}, settings)
    return ranked(released, counts.means, variance)


def _ease(moments: Moments, n_items: int, reg: float) -> Released:
    arrays = moments.arrays
    clean = clean_gram(unpack(arrays["row_gram"]), moments.noise_std["row_gram"])
    released = {
        "head": np.asarray(arrays["head"]),
        "input_weights": np.asarray(arrays["head_weights"]),
        "item_weights": ease_weights(clean, EASE_RIDGE * reg),
        # Rows were weighted against popularity; half of it is given back to the scores.
        "output_weights": np.asarray(arrays["head_weights"]) ** -0.5,
        "tail_scores": _tail(arrays["item_counts"]),
    }
    return Released("item-weights", released, {})


def _row_factors(moments: Moments, n_items: int, rank: int, reg: float) -> Released:
    """The conditional mean of a Gaussian model of the weighted rows, as a ridge fold-in on factors."""
    arrays = moments.arrays
    clean = clean_gram(unpack(arrays["row_gram"]), moments.noise_std["row_gram"])
    factors = np.zeros((n_items, min(rank, len(clean.values))))
    kept = clean.vectors[:, :rank] * np.sqrt(clean.values[:rank])
    factors[arrays["head"]] = kept / np.sqrt(arrays["head_weights"])[:, None]
    settings = {"center": 0.0, "rating_range": None, "offset_reg": None, "reg": reg * clean.own}
    return Released("factors", {"item_factors": factors, "item_bias": np.zeros(n_items)}, settings)


def _tail(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Items outside the head follow after it, by their posted counts: scores in -2..-1 below the head's least."""
    return np.clip(counts / max(float(counts.max()), 1e-9), 0.0, 1.0) - 2.0


def default_rank(moments: Moments) -> int:
    """The rank that the moments themselves prefer, where trying is quick."""
    return LARGE_HEAD_RANK if len(moments.arrays["head"]) > LARGE_HEAD else best_rank(moments, RANKS)[0]


def best_rank(moments: Moments, ranks: Sequence[int], seed: int = 0) -> tuple[int, dict[int, float]]:
    """The smallest rank whose fit to one half of the posted moments explains the other half nearly best, and all misfits.

    Nearly: within a tenth. The halves share their people, so the sampling error of few people speaks for larger ranks.
    """
    std, arrays = moments.noise_std, moments.arrays
    cocounts = clean_cocounts(unpack(arrays["rated_gram"]), std["rated_gram"])
    (fitted, fitted_std), (held_out, held_out_std) = split_noise(
        unpack(arrays["residual_gram"]), std["residual_gram"], seed=seed
    )
    per_user = ratings_per_user(moments)
    fits = {rank: fit_factors(fitted, cocounts, per_user, fitted_std, rank) for rank in ranks}
    # One yardstick for all: a fit's own sampling variance would excuse what it does not explain.
    variances = held_out_std**2 + min(fit.sampling for fit in fits.values()) * cocounts
    misfits = {rank: fit.misfit(held_out, cocounts, variances) for rank, fit in fits.items()}
    return min(rank for rank in ranks if misfits[rank] <= 1.1 * min(misfits.values())), misfits


def rating_factors(moments: Moments, n_items: int, rank: int) -> tuple[NDArray[np.float64], float]:
    """Factors of all items, 0 outside the head, and the variance of a rating around what they say."""
    std, arrays = moments.noise_std, moments.arrays
    cocounts = clean_cocounts(unpack(arrays["rated_gram"]), std["rated_gram"])
    fit = fit_factors(unpack(arrays["residual_gram"]), cocounts, ratings_per_user(moments), std["residual_gram"], rank)
    factors = np.zeros((n_items, fit.factors.shape[1]))
    factors[arrays["head"]] = fit.factors
    return factors, fit.residual_variance


def ratings_per_user(moments: Moments) -> float:
    """(sum of sqrt(m) / number of users)^2 from posted sums: a typical number of ratings, within the head."""
    counts = moments.arrays["item_counts"][moments.arrays["head"]]
    users = np.trace(unpack(moments.arrays["rated_gram"]))
    return max(float(counts.sum() / max(users, 1.0)), 1.0) ** 2


def split_noise(
    matrix: Matrix, std: float, gamma: float = 0.5, seed: int = 0
) -> tuple[tuple[Matrix, float], tuple[Matrix, float]]:
    """matrix = signal + symmetric noise of known ``std`` (sqrt(2) std on the diagonal): two matrices and their stds.

    M + gamma Z and M - Z/gamma, for fresh Z of the same law, have noises of covariance std^2 - std^2 = 0, so they are
    independent; together they hold no more than M does. Z is public randomness on a public matrix.
    """
    z = np.random.default_rng(seed).standard_normal(matrix.shape)
    z = (z + z.T) * (std / np.sqrt(2.0))
    first = (matrix + gamma * z, std * np.sqrt(1.0 + gamma**2))
    return first, (matrix - z / gamma, std * np.sqrt(1.0 + gamma**-2))


@dataclass(frozen=True)
class FactorFit:
    factors: Matrix  # (n, rank)
    residual_variance: float
    shift: float  # c
    sampling: float  # kappa

    def misfit(self, moments: Matrix, cocounts: Matrix, variances: Matrix) -> float:
        """How badly this fit explains other moments of the given ``variances``: mean squared error in their units."""
        errors = (moments - cocounts * (self.factors @ self.factors.T - self.shift)) ** 2 / variances
        np.fill_diagonal(errors, 0.0)
        return float(errors.sum() / (errors.size - len(errors)))


def clean_cocounts(cocounts: Matrix, std: float) -> Matrix:
    """Noisy co-counts shrunk towards independence: a rank-one profile, plus what of the rest stands above the noise."""
    n = len(cocounts)
    hollow = cocounts.copy()
    profile = np.zeros(n)
    for _ in range(20):  # the diagonal is not a co-count: it is filled in from the profile, until both agree
        np.fill_diagonal(hollow, profile**2)
        value, vector = _leading(hollow, 1)
        profile = np.abs(vector[:, 0]) * np.sqrt(max(value[0], 0.0))
    independent = np.outer(profile, profile)
    rest = cocounts - independent
    np.fill_diagonal(rest, 0.0)
    values, vectors = _leading(rest, SPIKES)
    shrunk = np.sign(values) * np.sqrt(np.maximum(values**2 - 4.0 * std**2 * n, 0.0))
    clean = np.maximum(independent + (vectors * shrunk) @ vectors.T, 0.1 * independent) + 1e-9
    np.fill_diagonal(clean, np.maximum(np.diag(cocounts), 1.0))
    return clean


def fit_factors(
    moments: Matrix, cocounts: Matrix, ratings_per_user: float, std: float, rank: int, sweeps: int = 60, temper: float = 0.7
) -> FactorFit:
    """Variational empirical Bayes: every item's factor has a posterior N(w_i, V_i) under the prior N(0, diag(g)).

    g is learnt, tempered: max(own, own^temper average^(1 - temper)). With the own size alone weak factors are pruned for
    good; without the max, dead factors drag the strong ones down when the noise dominates. c takes up the small negative
    shift of all pairs that centring on one's own mean leaves. kappa C is the sampling variance of the users themselves,
    by moments of the residual, within half and three times its theoretical value total^2 / ratings_per_user.
    """
    n = len(moments)
    rank = min(rank, n - 1)
    diagonal = np.arange(n)
    own_counts, own_moments = np.diag(cocounts), np.diag(moments)
    total = max(own_moments.sum() / own_counts.sum(), 1e-3)
    kappa = expected_kappa = total**2 / max(ratings_per_user, 1.0)
    w = _start(moments, cocounts, std, rank)  # (n, rank)
    posterior = np.zeros((n, rank, rank))
    g, c = (w * w).mean(0), 0.0
    pairs = n * (n - 1)
    all_counts = cocounts.sum() - own_counts.sum()
    for sweep in range(sweeps):
        per_moment = cocounts / (std**2 + kappa * cocounts)  # a: weight of S_ij in w_i's equations
        per_moment[diagonal, diagonal] = 0.0
        precision = per_moment * cocounts  # b: weight of w_j w_j^T
        second = (w[:, :, None] * w[:, None, :] + posterior).reshape(n, -1)
        posterior = np.linalg.inv((precision @ second).reshape(n, rank, rank) + np.diag(1.0 / g))
        target = (per_moment * moments) @ w + c * (precision @ w)
        w = 0.5 * w + 0.5 * np.einsum("ikl,il->ik", posterior, target)
        own = (w * w).mean(0) + np.einsum("ikk->k", posterior) / n
        g = np.maximum(own, own**temper * own.mean() ** (1.0 - temper)) + 1e-12
        misfit = moments - cocounts * (w @ w.T)
        c = float(np.clip(-np.sum(per_moment * misfit) / precision.sum(), 0.0, 0.05))
        if sweep >= 10:
            misfit += c * cocounts
            misfit[diagonal, diagonal] = 0.0
            seen_kappa = (np.sum(misfit**2) - pairs * std**2) / all_counts
            kappa = float(np.clip(seen_kappa, 0.5 * expected_kappa, 3.0 * expected_kappa))
    explained = np.sum(own_counts * (w * w).sum(1)) / own_counts.sum()
    return FactorFit(w, max(0.1 * total, total - explained), c, kappa)


def _start(moments: Matrix, cocounts: Matrix, std: float, rank: int) -> Matrix:
    """The leading eigenvectors of S/(t t^T), t the size of each item's co-counts, at no less than half the noise's edge."""
    n = len(moments)
    t = np.sqrt(np.sqrt((cocounts**2).mean(1)))
    values, vectors = _leading(moments / np.outer(t, t), rank, which="LA")
    lift = np.maximum(values, np.sqrt(n) * std / np.mean(t) ** 2)
    return vectors * np.sqrt(lift) / t[:, None]


def _leading(matrix: Matrix, k: int, which: str = "LM") -> tuple[Matrix, Matrix]:
    """The k leading eigenpairs, by a partial method where it pays."""
    n = len(matrix)
    if n <= 256 or k >= n // 4:
        values, vectors = eigh(matrix)
        order = np.argsort(-(np.abs(values) if which == "LM" else values))[:k]
        return values[order], vectors[:, order]
    values, vectors = eigsh(matrix, k=k, which=which, v0=np.ones(n))
    order = np.argsort(-values)
    return values[order], vectors[:, order]
