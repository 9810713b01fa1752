"""Public room: the second moments of public people beside posted ones, each as precise as it is.

Added up as they are, a few people without noise drown in the noise that was made for many: in a sum they count as often as
they are, and not as exactly as they are known. Here the public matrix K' gets the weight of its precision.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.lists import TasteMoments
from lowkey.methods.knowledge import Knowledge

Array = NDArray[np.float64]
CLEAR = 3.0  # standard errors that the agreement of both matrices loses before it counts
FREQUENT = 10.0  # times the average: the sampling of the pairs that matter, which are those of frequent items


def with_public(gram: Array, noise_std: float, sweep: TasteMoments, knowledge: Knowledge) -> Array:
    """A posted Gram matrix K, whose noise is known, with that of the public people K' where the two agree.

    Off the diagonal K = b s K' + N(0, d^2) + N(0, noise^2) + sampling: s makes the traces the same, b is the slope (less
    ``CLEAR`` standard errors: without agreement nothing is added), and d^2 is what is left beyond the noise and the
    sampling. A user's z z^T has norm 1, so sampling has the variance n/order^2, and ``FREQUENT`` times
    that where it matters. By precision, b s K' gets the weight
    var(K)/(var(b s K') + d^2) beside K's 1; scores do not depend on the scale of the sum.
    """
    if knowledge.people is None:
        return gram
    order = len(gram)
    public = knowledge.ask(replace(sweep, gram_weight=1.0))["taste_moments"][: order**2].reshape(order, order)
    people, users = float(np.trace(public)), max(float(np.trace(gram)), 1.0)
    if people < 1.0:
        return gram
    public = public * (users / people)
    away = ~np.eye(order, dtype=bool)
    ours, theirs = gram[away], public[away]
    own = noise_std**2 + users / order**2
    sampling = FREQUENT * users**2 / people / order**2
    known = max(float(theirs @ theirs), 1e-300)
    slope = float(ours @ theirs) / known
    slope -= CLEAR * math.sqrt(2.0 * own / known)  # every pair stands there twice
    if slope <= 0.0:
        return gram
    slope = min(slope, 1.0)
    apart = max(float(np.mean((ours - slope * theirs) ** 2)) - own - slope**2 * sampling / FREQUENT, 0.0)
    return gram + own / (slope * sampling + apart / slope) * public
