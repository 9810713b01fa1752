"""Public room: how much a crowd can say through the noise, and the rule that chooses a method by it: public facts alone."""

from __future__ import annotations

import math

from lowkey.data.domain import Domain
from lowkey.privacy.gaussian import gaussian_mu

GOALS = ("lists", "ratings")
# Second moments have far more numbers than means, so they need a crowd. It is measured in users times mu (the signal of one
# user over the noise). Where methods break even was measured on public data: MovieLens 100K and 1M, Jester, the taste
# generator. For ratings the moments win only where the catalogue is small enough to post every pair once (Jester's 100
# items); with 400 items or more, or a small crowd, rounds do at least as well.
CROWD_FOR_MOMENTS = {"ratings": 3000.0, "binary": 800.0}
CATALOGUE_FOR_MOMENTS = 200  # ratings
LEAST_SIGNAL = 8.0  # of a crowd: below, what factors would find is less than what their noise costs the item effects


def crowd_signal(domain: Domain, mu: float) -> float:
    """How far a direction that all users share stands out of a round's noise: mu times users over sqrt(items).

    The largest singular value of the noise grows like sqrt(n_items)/mu. Infinite where no number of users is expected.
    """
    return math.inf if domain.expected_users is None else mu * domain.expected_users / math.sqrt(domain.n_items)


def default_method(domain: Domain, epsilon: float, delta: float, goal: str = "lists") -> str:
    """The method for a domain, a budget and a goal, from public facts alone.

    Lists: ``lists``, which shrinks into popularity by itself. Ratings: factors in rounds, which shrink into means where
    the posted crowd is small; but moments where the catalogue is small and the crowd is known not to be (Jester: level
    with factors, and a single pass), and means where the crowd is too small for any factor, however long its histories are.
    """
    if goal == "lists" or domain.kind == "binary":
        return "lists"
    if domain.expected_users is None:
        return "factors"
    mu = gaussian_mu(epsilon, delta)
    if domain.expected_users * mu >= CROWD_FOR_MOMENTS[domain.kind] and 1 < domain.n_items <= CATALOGUE_FOR_MOMENTS:
        return "moments"
    return "factors" if crowd_signal(domain, mu) >= LEAST_SIGNAL else "bias"
