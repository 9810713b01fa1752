"""Public room: how much a crowd can say through the noise, from public facts alone; defaults follow from it."""

from __future__ import annotations

import math

from lowkey.data.domain import Domain


def crowd_signal(domain: Domain, mu: float) -> float:
    """How far a direction that all users share stands out of a round's noise: mu times users over sqrt(items).

    The largest singular value of the noise grows like sqrt(n_items)/mu. Infinite where no number of users is expected.
    """
    return math.inf if domain.expected_users is None else mu * domain.expected_users / math.sqrt(domain.n_items)
