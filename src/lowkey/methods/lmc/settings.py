"""Public room: the numbers of a ``DPLMC`` fit, where they were not given: from the rating range and the noise level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowkey.methods.rows import RowSettings

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
