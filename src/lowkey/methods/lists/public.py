"""Public room: what public people say of the pairs of a head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lowkey.kernels.lists import TasteMoments
from lowkey.methods.knowledge import Knowledge
from lowkey.methods.moments.public_pairs import PublicPairs


def public_pairs(knowledge: Knowledge, sweep: TasteMoments, users: float) -> PublicPairs | None:
    """Every public person's z z^T has the trace 1, as every user's."""
    if knowledge.people is None:
        return None
    order = len(sweep.shares)
    sums = knowledge.halves(replace(sweep, gram_weight=1.0))
    one, other = (half["taste_moments"][: order**2].reshape(order, order) for half in sums)
    people = float(np.trace(one + other))
    return PublicPairs.of((one, other), users, people) if people > 0.0 else None
