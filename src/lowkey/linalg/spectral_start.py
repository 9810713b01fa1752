"""Public room: factors to start from, out of a noisy Gram matrix of rows of which only a part is observed.

Paper: DPLMC (Wang, Zhao and Kolar 2023), Algorithm 2 lines 5-10. Deviates: see ``balanced_start``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg
from numpy.typing import NDArray

from lowkey.linalg.leading import leading_eigenpairs

Array = NDArray[np.float64]
LANCZOS_ITEMS = 1000  # above, a few leading eigenpairs are found without the others


class Start(NamedTuple):
    """``item_factors`` V (n_items, rank); a user with the weighted row y starts at ``user_map``^T y."""

    item_factors: Array
    user_map: Array


def balanced_start(gram: Array, rank: int, n_users: float, observed: Array) -> Start:
    """The leading directions of X, from A = the sum of y y^T over ``n_users`` rows y of which item j shows ``observed_j``.

    With D = diag(observed), M = D^-1 A D^-1 / (n_users n_items) estimates X^T X / (n_users n_items), apart from its
    diagonal, which a missing entry inflates by 1/p and the ratings' own noise raises too. That adds about a multiple of
    the identity: what the eigenvalues beyond the ``rank`` leading ones average is subtracted. Eigenvalues at or below
    zero are dropped: their columns are zero. With M = Q s^2 Q^T, V = sqrt(n_items) Q sqrt(s), so that V^T V / n_items
    = s, and the users' U = Y D^-1 Q / sqrt(n_items s) has U^T U / n_users = s too. The paper takes s in place of sqrt(s)
    (its Sigma^1/2, Sigma being the singular values of A, not of X): the same product, but V holds all of the scale.
    """
    n_items = len(gram)
    inverse = 1.0 / np.maximum(observed, 1e-12)
    scaled = gram * inverse[:, None] * inverse[None, :] / (max(n_users, 1.0) * n_items)
    values, vectors = _leading(scaled, rank)
    rest = (float(np.trace(scaled)) - float(values.sum())) / max(n_items - rank, 1)
    squares = values - max(rest, 0.0)
    kept = squares > 1e-9 * max(float(values[0]), 1e-300)
    s = np.sqrt(np.where(kept, squares, 1.0))
    factors = math.sqrt(n_items) * vectors * np.where(kept, np.sqrt(s), 0.0)
    user_map = inverse[:, None] * vectors * np.where(kept, 1.0 / np.sqrt(n_items * s), 0.0)
    return Start(np.ascontiguousarray(factors), np.ascontiguousarray(user_map))


def _leading(matrix: Array, rank: int) -> tuple[Array, Array]:
    """The ``rank`` largest eigenvalues, falling, and their vectors; the same for the same matrix."""
    if len(matrix) <= max(LANCZOS_ITEMS, 4 * rank):
        return leading_eigenpairs(matrix, rank)
    values, vectors = scipy.sparse.linalg.eigsh(matrix, rank, which="LA", v0=np.ones(len(matrix)))
    order = np.argsort(-values)
    return values[order], vectors[:, order]
