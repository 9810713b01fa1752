"""Public room: leading eigenpairs of a noisy symmetric matrix, and how far the noise can have lowered an eigenvalue."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray


def leading_eigenpairs(matrix: NDArray[np.float64], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ``rank`` algebraically largest eigenvalues, falling, and their vectors as columns."""
    order = len(matrix)
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[order - rank, order - 1], check_finite=False)
    return values[::-1], vectors[:, ::-1]


def energy_margin(noise_std: float, deviations: float = 3.0) -> float:
    """What to add to a noisy leading eigenvalue so that it is an upper bound on the true energy along its vector.

    Let W = G + N with leading pair (y, w), and v the leading vector of G. w maximises w^T W w and v maximises v^T G v,
    so w^T N w >= v^T N v, and the true energy is w^T G w = y - w^T N w <= y - v^T N v. v does not depend on the noise:
    v^T N v is Gaussian with standard deviation sqrt(2) noise_std (variance noise_std^2 off the diagonal, twice on it).
    """
    return deviations * math.sqrt(2.0) * noise_std


def published_energy(value: float, noise_std: float, order: int, failure: float = 1.0 / 3.0) -> float:
    """The square of Algorithm 1's biased singular value, line 6; its sigma is that of noise before symmetrising."""
    margin = math.sqrt(math.sqrt(2.0) * noise_std * math.log(order / failure)) * order**0.25
    return (math.sqrt(max(value, 0.0)) + margin) ** 2
