"""Public room: how much a crowd can say through the noise, from public facts alone; defaults follow from it."""

from __future__ import annotations

import math

from lowkey.data.domain import Domain

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
