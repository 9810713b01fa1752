"""Public room: the numbers of a ``DPLMC`` fit that were not given: from rating range, noise and posted crowd."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.svd import RatingDensity
from lowkey.methods.curator import Curator
from lowkey.methods.rows import RowSettings
from lowkey.methods.starts import observed_shares

SIGNAL_STD = 0.1  # of the rating range: how far users' tastes move a rating
LENGTHS = 2.0  # bounds on rows, in units of a typical row's length
USUAL_RANK = 8  # where no number of users is expected
SPECTRAL_ITEMS = 1000  # "auto" takes the private start up to here: its noise grows with the catalogue


@dataclass(frozen=True, kw_only=True)
class LMCSettings(RowSettings):
    rank: int
    n_iter: int
    step: float
    user_norm: float
    item_norm: float
    residual_norm: float | None  # None: follows the posted density
    private_start: bool
    density: float | None  # None: posted
    reg: float
    start_share: float = 0.3
    balance_share: float = 0.05  # of the rounds' budget, for the users' Gram matrix
    bias_share: float = 0.2  # of what the start leaves, for item means and counts
    weighting: str = "counts"  # items and users by how often they occur; "uniform": all cells are seen alike
    weight_exponent: float = 0.25
    offset_reg: float | None = 5.0
    averaged: float = 0.3  # the model is the mean of this share of the rounds, the last ones; 0: of the last alone
    item_reg: float = 4.0  # a ridge on the items' side, in units of what the known noise calls for

    def told(self) -> dict[str, Any]:
        return {"rank": self.rank, "n_iter": self.n_iter, "user_norm": self.user_norm}


def usual_norm(spread: float, rank: int) -> float:
    """A bound on rows: ratings that tastes move by s need rows of length sqrt(s sqrt(rank))."""
    return LENGTHS * math.sqrt(SIGNAL_STD * spread * math.sqrt(rank))


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
