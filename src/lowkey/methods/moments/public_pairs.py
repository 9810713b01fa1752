"""Public room: the second moments of public people beside posted ones, each as far as it can be told from its errors.

Added up as they are, a few people without noise drown in the noise that was made for many: in a sum they count as often as
they are, and not as exactly as they are known. Pair by pair they would be far more exact than the posts, but weights of
items are made of the leading directions of all pairs together, from which noise is cleaned out: it is the norms of the
errors, as matrices, that decide what can be told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

Array = NDArray[np.float64]
CLEAR = 3.0  # standard errors that the agreement of both matrices loses before it counts
HIDDEN = 3.0  # times the norm of the noise: as large may the error of the public part be, as it is cleaned out with it


@dataclass(frozen=True)
class PublicPairs:
    """K' of the public people, scaled to the size of the crowd, and the norm of its error."""

    gram: Array
    users: float  # of the crowd
    people: float
    error: float

    @classmethod
    def of(cls, halves: tuple[Array, Array], users: float, people: float) -> PublicPairs:
        """Two halves of the people differ as much as both together differ from what more people would say.

        No less than what one person adds: some may be there twice.
        """
        scale, (one, other) = users / people, halves
        error = max(_norm(one - other), float(np.trace(one + other)) / people)
        return cls(scale * (one + other), users, people, scale * error)

    def expected_weight(self, noise_std: float, taken: Array, counts: Array) -> float:
        """Before any pair is posted: as far as what these people took is what the crowd takes."""
        theirs = taken * (float(counts.sum()) / max(float(taken.sum()), 1e-300))
        alike = 1.0 - float(np.linalg.norm(counts - theirs) / max(float(np.linalg.norm(counts)), 1e-300))
        return max(alike, 0.0) * self.weight(noise_std)

    def weight(self, noise_std: float) -> float:
        """Beside a posted matrix: each person as one user, and as much more as the noise hides."""
        return self.people / self.users + HIDDEN * _noise_norm(noise_std, len(self.gram)) / max(self.error, 1e-300)

    def beside(self, gram: Array, noise_std: float) -> float:
        """The weight, given the posted matrix K: 0 where the two do not agree.

        Off the diagonal K is regressed on K': users' matrices have norms of about trace/users, so K varies by noise^2 +
        users (trace/users/order)^2. K' is heard as far as the slope goes, less ``CLEAR`` standard errors. How far the
        crowds are apart, in norm, is what K - K' has beyond the noise (a lone direction of size s is seen in noise of norm
        e as about sqrt(s^2 + e^2)).
        """
        order = len(gram)
        away = ~np.eye(order, dtype=bool)
        ours, theirs = gram[away], self.gram[away]
        own = noise_std**2 + (float(np.trace(gram)) / order) ** 2 / self.users
        known = max(float(theirs @ theirs), 1e-300)
        slope = float(ours @ theirs) / known - CLEAR * math.sqrt(2.0 * own / known)  # every pair stands there twice
        apart = max(_norm(gram - self.gram) ** 2 - _noise_norm(noise_std, order) ** 2, 0.0)
        error = max(self.error, math.sqrt(apart))
        return min(max(slope, 0.0), 1.0) * replace(self, error=error).weight(noise_std)


def _noise_norm(std: float, order: int) -> float:
    return 2.0 * std * math.sqrt(order)


def _norm(matrix: Array) -> float:
    """The largest eigenvalue by size, to a hundredth, of a symmetric matrix but for its diagonal."""
    hollow = matrix - np.diag(np.diag(matrix))
    if len(hollow) < 3 or not hollow.any():
        return float(np.linalg.norm(hollow))
    precise: Any = 0.01
    start = np.random.default_rng(0).standard_normal(len(hollow))
    found: Any = eigsh(hollow, 1, v0=start, return_eigenvectors=False, tol=precise)
    return abs(float(found[0]))
