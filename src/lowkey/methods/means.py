"""Public room: item means, which most methods begin with: how they are asked for, and what noise leaves of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.bias import ItemMeans
from lowkey.methods.base import Settings
from lowkey.methods.curator import Curator

COUNT_WEIGHT = 0.5  # counts get a fifth of the price of sums and counts together
SUM_BOUND = 0.22  # of the rating range: a user's own standard deviation
PRIOR_STD = 0.1  # of the rating range: how far item means are apart

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PostedMeans:
    """Each item's noisy sum of ratings (less the centre of the range) and noisy count, with their noise."""

    sums: Array
    counts: Array
    sum_std: float
    count_std: float
    prior_std: float

    def effects(self, least: float | None = None) -> Array:
        """What each item's ratings are above the centre, shrunk by the known noise; counts are at ``least`` that."""
        counts = self.counts if least is None else np.maximum(self.counts, least)
        return item_effects(self.sums, counts, self.sum_std, self.prior_std)


def ask_item_means(settings: Settings, curator: Curator) -> PostedMeans:
    """The line ``item_means`` of a plan: 2 n_items numbers."""
    unit = SUM_BOUND * settings.spread
    posts = curator.ask(ItemMeans(np.full(settings.n_items, settings.center), unit, 0.0, COUNT_WEIGHT))
    (sums, counts), std = posts["item_means"], posts.stds["item_means"]
    return PostedMeans(unit * sums, counts / COUNT_WEIGHT, unit * std, std / COUNT_WEIGHT, PRIOR_STD * settings.spread)


def item_effects(sums: Array, counts: Array, sum_std: float, prior_std: float) -> Array:
    """Posterior means of effects with prior N(0, prior_std^2) from sum = count * effect + noise: rare items stay near 0."""
    counts = np.maximum(counts, 0.0)
    precision = counts**2 + (sum_std / prior_std) ** 2
    known = precision > 0.0  # without noise, an item that nobody rated has nothing but its prior
    return np.divide(sums * counts, precision, out=np.zeros_like(precision), where=known)


def damped_means(sums: Array, counts: Array, sum_std: float, count_std: float, residual_variance: float) -> Array:
    """Empirical-Bayes means: each noisy mean is pulled to zero as far as its own uncertainty says.

    With count c, the mean y = sum/c has variance v = residual_variance/c + sum_std^2/c^2 around a true mean of variance
    t^2, so its best linear estimate is y t^2/(t^2 + v). t^2 is estimated from the same noisy numbers, by E y^2 = t^2 + v,
    on the items whose count stands clear of the noise. The others get almost nothing.
    """
    clear = np.maximum(counts, max(3.0 * count_std, 1.0))
    means = sums / clear
    variances = residual_variance / clear + (sum_std / clear) ** 2
    weights = 1.0 / (variances + residual_variance / 10.0) ** 2
    prior = np.sum(weights * (means**2 - variances)) / np.sum(weights)
    # Means vary at least a little: a floor keeps a lucky negative estimate from erasing everything.
    prior = max(float(prior), 1e-3 * residual_variance)
    return means * prior / (prior + variances)
