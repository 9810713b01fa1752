"""Public room: the public rule that chooses a method for a domain and a budget."""

from __future__ import annotations

import math

from lowkey.data.domain import Domain
from lowkey.methods.crowd import CATALOGUE_FOR_MOMENTS, CROWD_FOR_FACTORS, CROWD_FOR_MOMENTS
from lowkey.privacy.gaussian import gaussian_mu

GOALS = ("lists", "ratings")


def default_method(domain: Domain, epsilon: float, delta: float, goal: str = "lists") -> str:
    """The method for a domain, a budget and a goal, from public facts alone.

    Lists: ``lists``, which shrinks into popularity by itself. Ratings: factors in rounds, but moments where the
    catalogue is small and the crowd is not, and means where there is hardly a crowd.
    """
    if goal == "lists" or domain.kind == "binary":
        return "lists"
    crowd = domain.expected_users * gaussian_mu(epsilon, delta) if domain.expected_users else math.inf
    enough = crowd >= CROWD_FOR_MOMENTS[domain.kind]
    if enough and domain.n_items <= CATALOGUE_FOR_MOMENTS:
        return "moments"
    return "factors" if crowd >= CROWD_FOR_FACTORS else "bias"
