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


def direction_ridge(
    energy: NDArray[np.float64], bulk: NDArray[np.float64], noise_edge: NDArray[np.float64], density: float
) -> NDArray[np.float64]:
    """The ridge of each posted direction, as residual variance over the variance of its coefficients: empirical Bayes.

    Round t saw the energy e_t along its direction among n_users N, of whom each shows a share p of the n_items, and the
    mean eigenvalue b_t. Residuals of variance s^2 that lie in no direction give N p s^2 everywhere: that is b_t, so
    s^2 = b/(N p), taken from the last round. A coefficient of variance c^2 adds N p^2 c^2 to e_t. The ratio s^2/c^2 =
    p b/(e_t - b_t) knows no N. Of e_t - b_t only what exceeds the edge of the posted noise's own spectrum is believed;
    where nothing does, the direction is noise and its ridge forbids it.
    """
    believed = np.sqrt(np.maximum((energy - bulk) ** 2 - noise_edge**2, 0.0)) * (energy > bulk)
    noise = max(float(bulk[-1]), 0.0)
    return density * noise / np.maximum(believed, 1e-9 * density * max(noise, 1e-300)) + 1e-9
