"""Public room: how a release of ratings ranks: by popularity, and by what a history says beyond it.

Who rates what is mostly popularity: ranked by expected ratings alone, lists are full of things that hardly anybody took.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowkey.methods.base import Released
from lowkey.methods.counts import TINY

TASTE_SHARE = 0.5  # of the slope below: a prediction errs, and twice as much loses on all data that was tried
LEAST_SLOPE = 0.2  # in standard deviations of a rating: among things taken alike, taste decides

Array = NDArray[np.float64]


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
