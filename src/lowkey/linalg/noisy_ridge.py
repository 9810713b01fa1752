"""Public room: how much ridge a noisy least-squares problem deserves, from its known noise and its own posted numbers.

Item j has A_j v = b_j with noise of variance s^2 on b_j and of variance q^2 on A_j. If factors have variance t^2 per
coordinate, errors A_j^-1 (noise of b_j - noise of A_j v) have variance (s^2 + rank t^2 q^2)/a_j^2 for A_j about a_j I,
and the best linear estimate has the ridge (s^2 + rank t^2 q^2)/(t^2 a_j).
t^2 follows from E|b_j|^2 = rank (a_j^2 t^2 + s^2).
Paper: ours; best linear unbiased prediction (Henderson 1975), with an empirical prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.packed import packed_order

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Equations:
    """Posted normal equations: packed Gram matrices, right-hand sides, and the noise on each (off the diagonal)."""

    gram: Array
    rhs: Array
    gram_std: float
    rhs_std: float
    shared: Array | None = None  # a matrix added to every Gram matrix, times the item's weight
    shared_weights: Array | None = None

    def traces(self) -> Array:
        order = packed_order(self.gram.shape[-1])
        diagonal = np.array([i * order - i * (i - 1) // 2 for i in range(order)])
        return self.gram[:, diagonal].sum(axis=1)

    def curvatures(self) -> Array:
        """a_j: the mean eigenvalue of each Gram matrix, never below what the noise alone makes of an empty one."""
        rank = self.rhs.shape[1]
        curvatures = self.traces() / rank
        positive = curvatures[curvatures > 0.0]
        typical = float(positive.mean()) if len(positive) else 1.0
        curvatures = np.maximum(curvatures, max(0.02 * typical, 0.3 * self.gram_std))
        if self.shared is not None and self.shared_weights is not None:
            curvatures = curvatures + np.trace(self.shared) / rank * self.shared_weights
        return curvatures


def noise_aware_ridge(equations: Equations, reg: float | Array, strength: float = 1.0) -> Array:
    """``reg`` plus ``strength`` times the best ridge for the noise; ``reg`` alone where there is none."""
    curvatures = equations.curvatures()
    ridge = np.broadcast_to(reg, curvatures.shape).astype(np.float64)
    if equations.rhs_std == 0.0:
        return ridge
    rank, energy = equations.rhs.shape[1], float(np.sum(equations.rhs**2))
    signal = max(energy - equations.rhs.size * equations.rhs_std**2, 0.02 * energy)
    prior = signal / (rank * float(np.sum(curvatures**2)))
    noise = equations.rhs_std**2 + rank * prior * equations.gram_std**2
    return ridge + strength * noise / (prior * curvatures)
