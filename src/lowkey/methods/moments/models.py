"""Public room: from posted moments to a released model; all of it post-processing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.packed import unpack
from lowkey.methods.base import Released
from lowkey.methods.counts import count_posterior
from lowkey.methods.leanings import BESIDE_FACTORS, posted_leanings, ranked
from lowkey.methods.moments.ease import clean_gram, ease_weights
from lowkey.methods.moments.factor_fit import default_rank, rating_factors
from lowkey.methods.moments.posted import Moments

EASE_RIDGE = 1.3


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
