"""Public room: what users lean to, each by a different degree, and is known of the items before any factor.

rating = level + item effect + offset + lean_j . x + ..., x ~ N(0, 1) a user's own, solved from the own ratings as the
offset is. lean_j has how much everybody likes item j and how often it is taken, both from the posts of means, and its
features, where they foretold its effect. So it costs nothing, and nobody's x is ever posted. Where noise drowns effects and
counts, they fall into one another, and what they lend to a lean falls to 0.

A release of ratings ranks by popularity, and by what a history says beyond it: who rates what is mostly popularity, and
ranked by expected ratings alone, lists are full of things that hardly anybody took.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowkey.methods.base import Released, Settings
from lowkey.methods.counts import TINY, Counts
from lowkey.methods.effects import trend_of
from lowkey.methods.knowledge import Knowledge
from lowkey.methods.means import Means

LIKED = 0.3  # how much more, or less, of an effect a user sees than the average one: a standard deviation
OFTEN = 0.12  # of a rating's own standard deviation, for what is taken more often by a standard deviation of log counts
NO_DIFFERENCE = 1e-3  # of log counts
FEATURED = 0.2  # of a rating's own standard deviation, over all features
BESIDE_FACTORS = 0.35  # of the first two: factors find most of them
TASTE_SHARE = 0.5  # of the slope below: a prediction errs, and twice as much loses on all data that was tried
LEAST_SLOPE = 0.2  # in standard deviations of a rating: among things taken alike, taste decides

Array = NDArray[np.float64]


def posted_leanings(effects: Array, counts: Counts, variance: float) -> Array:
    """(n_items, 2): what is liked, and what is taken often, around their means over ratings; for a ridge ``variance``."""
    weights = counts.means + 1e-30
    liked, often = effects - np.average(effects, weights=weights), trend_of(counts)
    unknown = np.log(np.maximum(counts.squares / np.maximum(counts.means, TINY) ** 2, 1.0))  # variances of log counts
    often /= math.hypot(NO_DIFFERENCE, math.sqrt(np.average(often**2 + unknown, weights=weights)))
    return np.column_stack([LIKED * liked, OFTEN * math.sqrt(variance) * often])


def leanings(means: Means, knowledge: Knowledge, beside: float = 1.0) -> Array:
    """(n_items, 2 + k), for a user's ridge of ``means.residual_variance``; the first two times ``beside``."""
    columns = [beside * posted_leanings(means.effects, means.counts, means.residual_variance)]
    if means.features_trusted and knowledge.features is not None:
        columns.append(FEATURED * math.sqrt(means.residual_variance) * knowledge.features)
    return np.hstack(columns)


def leaning(settings: Settings, means: Means, offset_reg: float) -> Released:
    """Item effects, a user's offset and what the user leans to."""
    lean, variance = leanings(means, settings.knowledge), means.residual_variance
    arrays = {"item_bias": means.effects, "item_factors": lean}
    told = settings.knowledge.item_map(np.column_stack([means.effects, lean]), means.counts.means)
    fitted = {"center": means.center, "offset_reg": offset_reg, "reg": variance, "rating_range": list(settings.limits)}
    return ranked(Released("factors", arrays, {**fitted, **told}), means.counts.means, variance)


def ranked(released: Released, counts: Array, variance: float) -> Released:
    """The release with what it ranks by: ranking_j + ranking_scale * score_j = log count_j + scale * personal part_j.

    The personal part is the score less the item's own effect. The scale is a half of how much more often is taken what is
    rated a star higher, the slope of log counts on effects, 1/sigma at most: all of it from posts. ``counts`` are expected
    ones, which fall into one another where noise drowns them, and ``variance`` is that of a rating around its prediction.
    """
    logs, center = np.log(np.maximum(counts, TINY)), float(released.settings["center"])
    effects = np.asarray(released.arrays.get("item_bias", np.zeros_like(logs)), np.float64)
    weights = counts + TINY
    middle = np.average(effects, weights=weights)
    spread = float(np.average((effects - middle) ** 2, weights=weights))
    slope = float(np.average(logs * (effects - middle), weights=weights)) / max(spread, TINY)
    sigma = math.sqrt(max(variance, TINY))
    scale = TASTE_SHARE * min(max(slope, LEAST_SLOPE / sigma), 1.0 / sigma)
    ranking = logs - scale * (center + effects)
    return released._replace(
        arrays={**released.arrays, "ranking": ranking}, settings={**released.settings, "ranking_scale": scale}
    )
