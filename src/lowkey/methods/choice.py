"""Public room: the public rule that chooses a method for a domain and a budget."""

from __future__ import annotations

from lowkey.data.domain import Domain
from lowkey.methods.crowd import CATALOGUE_FOR_MOMENTS, CROWD_FOR_MOMENTS, LEAST_SIGNAL, crowd_signal
from lowkey.privacy.gaussian import gaussian_mu

GOALS = ("lists", "ratings")


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
    if domain.expected_users * mu >= CROWD_FOR_MOMENTS[domain.kind] and domain.n_items <= CATALOGUE_FOR_MOMENTS:
        return "moments"
    return "factors" if crowd_signal(domain, mu) >= LEAST_SIGNAL else "bias"
