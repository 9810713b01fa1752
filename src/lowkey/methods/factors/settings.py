"""Public room: the numbers of a ``DPFactors`` fit, where they were not given: from the noise level and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowkey.data.domain import Domain
from lowkey.methods.base import Settings
from lowkey.methods.crowd import CATALOGUE_FOR_MOMENTS, CROWD_FOR_MOMENTS, crowd_signal

USUAL_RANK = 8  # where the domain does not say how many users are expected
LARGEST_RANK = 20
FEWEST_ROUNDS, MOST_ROUNDS = 4, 8


@dataclass(frozen=True, kw_only=True)
class FactorsSettings(Settings):
    rank: int
    n_iter: int
    start: str  # "random", "spectral" or "moments"
    start_share: float
    means_share: float = 0.1  # of mu^2, on the item means first
    averaged: int = 3  # of the last rounds the model uses so many, each weighted by its precision
    weight_power: float = 0.1  # an item weighs count^-power within a user's row
    bias_power: float = 0.35  # and its bias alone count^-power
    falling_bound: bool = True  # the bound follows the posted residuals
    noise_aware: bool = True  # False: the items' side takes the posts for exact

    def told(self) -> dict[str, Any]:
        return {"rank": self.rank}


def default_rank(domain: Domain, mu: float) -> int:
    """0.36 signal^(3/4): the budget of a round is split among directions, but a few too many find the right ones sooner."""
    signal = crowd_signal(domain, mu)
    if signal == math.inf:
        return min(USUAL_RANK, domain.n_items)
    return max(2, min(round(0.36 * signal**0.75), LARGEST_RANK, domain.n_items))


def default_rounds(domain: Domain, mu: float, start: str) -> int:
    """One for every doubling of the signal: more rounds than lift a direction out of the noise only add noise.

    A start that knows the directions saves those that would have looked for them.
    """
    signal = max(crowd_signal(domain, mu), 1.0)
    rounds = MOST_ROUNDS if signal == math.inf else max(FEWEST_ROUNDS, min(math.floor(math.log2(signal)), MOST_ROUNDS))
    return rounds if start == "random" else FEWEST_ROUNDS


def default_start(domain: Domain, mu: float) -> str:
    """Every pair of a small catalogue can be posted for a large crowd: then the moments' factors, else random ones.

    Without an expected number of users nothing is known of the crowd, and chance does no harm.
    """
    enough = domain.expected_users is not None and domain.expected_users * mu >= CROWD_FOR_MOMENTS["ratings"]
    return "moments" if enough and domain.n_items <= CATALOGUE_FOR_MOMENTS else "random"
