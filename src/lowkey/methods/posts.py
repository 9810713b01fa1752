"""Public room: posts that several methods make alike: all sums of one pass, and the item means that most begin with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.sweep import Sweep
from lowkey.methods.moments.factor_fit import item_effects
from lowkey.privacy.billboard import Billboard

COUNT_WEIGHT = 0.5  # counts get a fifth of the price of sums and counts together
SUM_BOUND = 0.22  # of the rating range: a user's own standard deviation
PRIOR_STD = 0.1  # of the rating range: how far item means are apart

Array = NDArray[np.float64]


def post_all(
    sweep: Sweep, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
) -> tuple[dict[str, Array], dict[str, float]]:
    """One pass: everything that it sums, posted, and how much noise each post holds."""
    sums, _ = engine.sweep(sweep, ratings, public=public)
    stds = {statistic.name: billboard.noise_std(statistic) for statistic in sweep.statistics(public)}
    return {name: billboard.post(unreleased) for name, unreleased in sums.items()}, stds


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


def post_item_means(ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]) -> PostedMeans:
    """The line ``item_means`` of a plan; ``public`` has the centre of the range."""
    assert ratings.domain.rating_range is not None
    low, high = ratings.domain.rating_range
    unit = SUM_BOUND * (high - low)
    around = {**public, "item_bias": np.zeros(ratings.domain.n_items)}
    posted, stds = post_all(ItemMeans(unit, 0.0, COUNT_WEIGHT), ratings, engine, billboard, around)
    (sums, counts), std = posted["item_means"], stds["item_means"]
    return PostedMeans(unit * sums, counts / COUNT_WEIGHT, unit * std, std / COUNT_WEIGHT, PRIOR_STD * (high - low))
