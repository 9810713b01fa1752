"""Public room: the numbers of a ``DPFactors`` fit, where they were not given: from the noise level and public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowkey.data.domain import Domain
from lowkey.methods.base import Settings
from lowkey.methods.choice import CATALOGUE_FOR_MOMENTS, CROWD_FOR_MOMENTS, LEAST_SIGNAL, crowd_signal
from lowkey.methods.means import Means

LARGEST_RANK = 20
FEWEST_ROUNDS, USUAL_ROUNDS, MOST_ROUNDS = 4, 6, 8  # usual: where no number of users is expected
MANY_RATINGS = 30.0  # of a user: half of a taste is known then
LEAST_MEANS, USUAL_MEANS, MOST_MEANS = 0.1, 0.25, 0.8  # shares of mu^2 on means first
CROWD_FOR_FEW_MEANS = 700.0  # users times mu: there, half of the budget


@dataclass(frozen=True, kw_only=True)
class FactorsSettings(Settings):
    rank: int  # or what it is at most, if it follows
    follows: bool  # the rank follows the posted crowd, down to none at all
    n_iter: int
    start: str  # "random", "spectral" or "moments"
    start_share: float
    means_share: float  # of mu^2
    averaged: int = 4  # of the last rounds the model uses so many, each weighted by its precision
    weight_power: float = 0.1  # an item weighs count^-power within a user's row
    bias_weight: float = 6.0  # of a bias' standard errors: what it takes of a row
    falling_bound: bool = True  # the bound follows the posted residuals
    noise_aware: bool = True  # False: the items' side takes the posts for exact

    def told(self) -> dict[str, Any]:
        return {"rank": self.rank}


def rank_for(users: float, n_items: int, mu: float) -> int:
    """A tenth of the signal: the budget of a round is split among directions."""
    signal = mu * users / math.sqrt(n_items)
    return min(max(2, round(0.1 * min(signal, 1e6))), LARGEST_RANK, n_items)


def default_rank(domain: Domain, mu: float) -> int:
    """For the expected users, or the largest: the posts will say how many of it are worth their noise."""
    return rank_for(math.inf if domain.expected_users is None else domain.expected_users, domain.n_items, mu)


def worthwhile_rank(settings: FactorsSettings, means: Means) -> int:
    """What the crowd, as posted, can say through the noise; 0 where factors would cost more than they bring.

    A direction stands out of a round's noise by mu times users over sqrt(items); it has to be found in the users, who
    show m/(m + MANY_RATINGS) of their own place on it, and it is used by users who know as much of theirs. Who has m
    ratings has shown a place on m directions at most.
    """
    signal, ratings = settings.budget.signal, means.activity**2
    shown = ratings / (ratings + MANY_RATINGS)
    users = max(means.crowd.users - means.crowd.users_std, 1.0)  # factors for fewer than was posted do no harm
    if signal * users / math.sqrt(settings.n_items) * shown**2 < LEAST_SIGNAL:
        return 0
    return min(settings.rank, rank_for(users, settings.n_items, signal), max(round(ratings), 1))


def default_means_share(domain: Domain, mu: float) -> float:
    """A small crowd's budget goes to its means: half of it at ``CROWD_FOR_FEW_MEANS``."""
    if domain.expected_users is None:
        return USUAL_MEANS
    share = 1.0 / (1.0 + (mu * domain.expected_users / CROWD_FOR_FEW_MEANS) ** 2)
    return min(max(share, LEAST_MEANS), MOST_MEANS)


def default_rounds(domain: Domain, mu: float, start: str) -> int:
    """One for every doubling of the signal: more rounds than lift a direction out of the noise only add noise.

    A start that knows the directions saves those that would have looked for them.
    """
    signal = max(crowd_signal(domain, mu), 1.0)
    known = domain.expected_users is not None
    rounds = max(FEWEST_ROUNDS, min(math.floor(math.log2(signal)), MOST_ROUNDS)) if known else USUAL_ROUNDS
    return rounds if start == "random" else FEWEST_ROUNDS


def default_start(domain: Domain, mu: float) -> str:
    """Every pair of a small catalogue can be posted for a large crowd: then the moments' factors, else random ones.

    Without an expected number of users nothing is known of the crowd, and chance does no harm.
    """
    enough = domain.expected_users is not None and domain.expected_users * mu >= CROWD_FOR_MOMENTS["ratings"]
    return "moments" if enough and 1 < domain.n_items <= CATALOGUE_FOR_MOMENTS else "random"
