"""Public room: what lists make of the cleaned moments of tastes: item-item weights, how much of them, and what is usual.

Paper: Steck 2019 (EASE). Deviates: the ridge of an item follows its popularity and the known noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import inv
from scipy.special import expit

from lowkey.kernels.lists import expected_takes
from lowkey.methods.moments.ease import CleanGram
from lowkey.serving.rules import rungs

OWN_RIDGE = 0.4  # of what an item shares with itself alone: it grows with the crowd, so little of it
CHANCE_RIDGE, NOISE_RIDGE = 1.0, 0.45  # of where chance's spectrum ends, and of the noise's sqrt(n_head)
PERSONAL = 1.15  # what they count beside popularity, in slopes of takes on predictions: popularity errs, too
TO_RARE = 0.1  # and for rare items a little more: an item's share to this power less
USUAL_SLOPE, SLOPE_STD, MOST_SLOPE = 1.0, 0.5, 1.5  # what is believed of that slope before it is posted; and its limit

Array = NDArray[np.float64]


def ridged_inverse(clean: CleanGram, shares: Array, noise_std: float, crowd: float, reg: float) -> Array:
    """The inverse of the cleaned Gram matrix with a ridge per item.

    The ridge of an item is parts of what it shares with itself alone, of what users share by chance and of the noise,
    times the root of its share: frequent items are alone in more rows. ``crowd`` is the sum of the squared weights of rows
    of norm 1; what they share by chance has the variance crowd/n^2 per entry, so its spectrum ends at 2 sqrt(crowd/n).
    """
    n = len(shares)
    roots = np.sqrt(np.maximum(shares, 1e-12))
    chance = 2.0 * math.sqrt(max(crowd, 0.0) / n)
    level = OWN_RIDGE * clean.own + CHANCE_RIDGE * chance + NOISE_RIDGE * noise_std * math.sqrt(n)
    ridge = reg * roots / roots.mean() * level
    gram = (clean.vectors * clean.values) @ clean.vectors.T
    gram[np.diag_indices_from(gram)] += ridge
    return inv(gram, overwrite_a=True)


def ease_weights(inverse: Array) -> Array:
    """EASE's item-item weights B. What was taken less what anybody takes, 1_S - e_k, goes into B as it is, so k items of a
    history add the sum of their rows of B less e_k B. With much noise B, and with it all of this, vanishes."""
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


def beside_popularity(weights: Array, shares: Array) -> Array:
    """The weights as they are added to popularity; ``PERSONAL`` is the mean of what they count, by share."""
    rarity = np.maximum(shares, 1e-12) ** -TO_RARE
    return weights * (PERSONAL * rarity / (rarity @ shares) * shares.sum())


def usual_scores(popularity: Array, weights: Array) -> Array:
    """(n_head, rungs): e_k - e_k B, what a history of k items adds to the score whatever they are, for the k of `rungs`."""
    takes = expected_takes(popularity, rungs(len(popularity)))
    return np.ascontiguousarray((takes - takes @ weights).T)


def personal_share(fit: Array, std: float) -> float:
    """How much of the weights is used: as much as they foretell users that were left out.

    The slope of takes on predictions is the first over the second number of ``fit``, whose noise is ``std``; here its
    posterior mean, where it is 0 or N(USUAL_SLOPE, SLOPE_STD^2), either as likely as the other before the post. Where
    ridges are too small for the data it is below 1, and where the data hold nothing but popularity, popularity is left.
    """
    agreement, known, noise = float(fit[0]), max(float(fit[1]), 0.0), max(std, 1e-150) ** 2
    spread = (SLOPE_STD * known) ** 2
    slope = (USUAL_SLOPE * noise + SLOPE_STD**2 * agreement * known) / (noise + spread)
    odds = agreement**2 / noise - (agreement - USUAL_SLOPE * known) ** 2 / (noise + spread) - math.log1p(spread / noise)
    return float(np.clip(slope, 0.0, MOST_SLOPE) * expit(odds / 2.0))
