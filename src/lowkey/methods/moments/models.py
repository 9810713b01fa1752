"""Public room: from posted moments to a released model; all of it post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.packed import unpack
from lowkey.methods.base import Released
from lowkey.methods.counts import count_posterior
from lowkey.methods.leanings import BESIDE_FACTORS, posted_leanings
from lowkey.methods.moments.ease import clean_gram, ease_weights
from lowkey.methods.moments.factor_fit import clean_cocounts, fit_factors
from lowkey.methods.moments.posted import Moments
from lowkey.methods.ranking import ranked

RANKS = (10, 20, 40)  # tried on the moments themselves; one of them alone where the head is large
LARGE_HEAD, LARGE_HEAD_RANK = 1000, 20
EASE_RIDGE = 1.3


def model_of(moments: Moments, n_items: int, rank: int | None, reg: float) -> Released:
    """The rule, the arrays and the settings of a model. ``reg`` scales the ridge that follows from the moments."""
    if moments.feedback == "ratings":
        return _rating_model(moments, n_items, default_rank(moments) if rank is None else rank, reg)
    return _ease(moments, n_items, reg) if rank is None else _row_factors(moments, n_items, rank, reg)


def default_rank(moments: Moments) -> int:
    """The rank that the moments themselves prefer, where trying is quick."""
    return LARGE_HEAD_RANK if len(moments.arrays["head"]) > LARGE_HEAD else best_rank(moments, RANKS)[0]


def ratings_per_user(moments: Moments) -> float:
    """(sum of sqrt(m) / number of users)^2 from posted sums: a typical number of ratings, within the head."""
    counts = moments.arrays["item_counts"][moments.arrays["head"]]
    users = np.trace(unpack(moments.arrays["rated_gram"]))
    return max(float(counts.sum() / max(users, 1.0)), 1.0) ** 2


def rating_factors(moments: Moments, n_items: int, rank: int) -> tuple[NDArray[np.float64], float]:
    """Factors of all items, 0 outside the head, and the variance of a rating around what they say."""
    std, arrays = moments.noise_std, moments.arrays
    cocounts = clean_cocounts(unpack(arrays["rated_gram"]), std["rated_gram"])
    fit = fit_factors(unpack(arrays["residual_gram"]), cocounts, ratings_per_user(moments), std["residual_gram"], rank)
    factors = np.zeros((n_items, fit.factors.shape[1]))
    factors[arrays["head"]] = fit.factors
    return factors, fit.residual_variance


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


Matrix = NDArray[np.float64]


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
