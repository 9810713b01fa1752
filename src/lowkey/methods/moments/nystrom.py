"""Public room: low-rank factors of a Gram matrix that was only seen through a basis, S Q + noise (Nystrom's method)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Matrix = NDArray[np.float64]


def random_basis(n: int, width: int, seed: int) -> Matrix:
    """A public (n, width) matrix with orthonormal columns."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, width)))[0]


def factors_from_view(view: Matrix, basis: Matrix, std: float) -> tuple[Matrix, Matrix]:
    """F (n, k) with F F^T close to S, from view = S Q + noise of standard deviation ``std``; and the noise std per column.

    S is about view (Q^T S Q)^-1 view^T. The small matrix is cleaned by the edge 2 std sqrt(width) of its noise; what
    does not stand above it is dropped. A column of F carries the noise of the view over the root of its eigenvalue.
    """
    small = basis.T @ view
    values, rotation = eigh((small + small.T) / 2.0)
    edge = 2.0 * std * np.sqrt(basis.shape[1])
    # Divided by a small eigenvalue the view would be all noise and error: those below a tenth of the largest are dropped.
    keep = values > max(edge, 0.1 * values.max(), 1e-12)
    if not keep.any():
        return np.zeros((len(view), 0)), np.zeros(0)
    clean = np.sqrt(values[keep] ** 2 - min(edge, 0.99 * values[keep].min()) ** 2)[::-1]
    return view @ rotation[:, keep][:, ::-1] / np.sqrt(clean), std / np.sqrt(clean)


def rescaled(factors: Matrix, column_std: Matrix, sizes: Matrix) -> Matrix:
    """w_i from F_i = sizes_i w_i + noise: posterior means under N(0, g_k), g by moments; rare items fall back to 0."""
    total = np.sum(sizes**2)
    prior = np.maximum(np.sum(factors**2 - column_std**2, axis=0) / total, 1e-12)
    return factors * sizes[:, None] / (sizes[:, None] ** 2 + column_std**2 / prior)
