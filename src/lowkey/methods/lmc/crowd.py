"""Public room: what ``DPLMC`` knows of its crowd: how many users there are, and how often items are rated."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.svd import RatingDensity
from lowkey.methods.curator import Curator
from lowkey.methods.lmc.settings import LMCSettings
from lowkey.methods.starts import observed_shares

Array = NDArray[np.float64]


class Crowd(NamedTuple):
    """Public or posted: how many users there are, what they show of the catalogue, and what items weigh."""

    n_users: float
    density: float  # p: the share of all cells that is rated
    shares: Array  # how often each item is rated, in units of the average item; 1 in the paper
    item_weights: Array  # w_j; 1 in the paper

    @property
    def observed(self) -> Array:
        """w_j times the share of users who show item j: what the sum over users is divided by; p in the paper."""
        return self.density * observed_shares(self.item_weights, self.shares)

    @property
    def weighted_ratings(self) -> float:
        """Of a typical user; p n_items in the paper."""
        return self.density * float((self.item_weights * self.shares).sum())

    @property
    def row_scale(self) -> float:
        """The norm of a typical user's weighted row of ones."""
        return math.sqrt(self.density * float((self.item_weights**2 * self.shares).sum()))


def ask_crowd(settings: LMCSettings, counts: Array | None, curator: Curator) -> Crowd:
    """The density as given, or posted with the number of users; weights by posted ``counts``."""
    n_items = settings.n_items
    if settings.density is None:
        cells, users = curator.ask(RatingDensity(n_items))["rating_density"]
        n_users = max(float(users), 1.0)
        # A user has one rating at the least; a density outside 1/n_items..1 is noise.
        density = float(np.clip(cells / n_users, 1.0 / n_items, 1.0))
    else:
        assert settings.domain.expected_users is not None
        n_users, density = float(settings.domain.expected_users), settings.density
    if settings.weighting == "uniform" or counts is None:
        return Crowd(n_users, density, np.ones(n_items), np.ones(n_items))
    shares = counts / counts.mean()
    return Crowd(n_users, density, shares, shares**-settings.weight_exponent)
