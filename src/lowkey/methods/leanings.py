"""Public room: what users lean to, each by a different degree, and is known of the items before any factor.

rating = level + item effect + offset + lean_j . x + ..., x ~ N(0, 1) a user's own, solved from the own ratings as the
offset is. lean_j has how much everybody likes item j and how often it is taken, both from the posts of means, and its
features, where they foretold its effect. So it costs nothing, and nobody's x is ever posted. Where noise drowns effects and
counts, they fall into one another, and what they lend to a lean falls to 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowkey.methods.counts import Counts
from lowkey.methods.effects import trend_of
from lowkey.methods.knowledge import Knowledge
from lowkey.methods.means import Means

LIKED = 0.3  # how much more, or less, of an effect a user sees than the average one: a standard deviation
OFTEN = 0.1  # of a rating's own standard deviation, for e times as many ratings
FEATURED = 0.2  # of a rating's own standard deviation, over all features
BESIDE_FACTORS = 0.35  # of the first two: factors find most of them

Array = NDArray[np.float64]


def posted_leanings(effects: Array, counts: Counts, variance: float) -> Array:
    """(n_items, 2): what is liked, and what is taken often, around their means over ratings; for a ridge ``variance``."""
    liked = effects - np.average(effects, weights=counts.means + 1e-30)
    return np.column_stack([LIKED * liked, OFTEN * math.sqrt(variance) * trend_of(counts)])


def leanings(means: Means, knowledge: Knowledge, beside: float = 1.0) -> Array:
    """(n_items, 2 + k), for a user's ridge of ``means.residual_variance``; the first two times ``beside``."""
    columns = [beside * posted_leanings(means.effects, means.counts, means.residual_variance)]
    if means.features_trusted and knowledge.features is not None:
        columns.append(FEATURED * math.sqrt(means.residual_variance) * knowledge.features)
    return np.hstack(columns)
