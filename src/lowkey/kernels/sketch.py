"""Kernel room: the second moments of users' rows seen through a public basis, where n_items^2 numbers do not fit.

| letter | meaning | our word |
|---|---|---|
| x | a user's bounded row over the head | as in ``kernels/moments.py`` |
| Q | a public matrix with orthonormal columns, (n_head, width) | ``basis`` |
| z | Q^T x, what the basis sees of the row | |

The sum is that of (x x^T - diag(x^2)) Q: the diagonal, an item with itself, would drown what items have in common.
Paper: ours (docs/moments.md), after Hardt and Price 2014, noisy power iteration.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import fits, shrink_factor, to_units
from lowkey.kernels.gram import users_by_item
from lowkey.kernels.moments import BITS, RatingMoments
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

VIEW_BITS = 30


@dataclass(frozen=True, eq=False)
class GramView(Sweep):
    """(x x^T - diag(x^2)) Q over users, for the rows x of ``moments``; row j is x_j (z - x_j q_j).

    The whole matrix of one user is clipped to Frobenius norm ``view_bound``, then truncated entry by entry. Two users
    may point against each other, so replace-one doubles.
    """

    moments: RatingMoments
    basis: NDArray[np.float64]  # (n_head, width)
    view_bound: float
    name: str

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity.of_vectors(self.view_bound)
        return (Statistic(self.name, self.basis.shape, Grid.for_bound(self.view_bound, VIEW_BITS), bound, 1),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        offsets, slots, x = self.moments.rows(block)[:3]
        x = x * Grid.for_bound(self.moments.residual_bound, BITS).step
        step = Grid.for_bound(self.view_bound, VIEW_BITS).step
        z, scale = _views(offsets, slots, x, self.basis, self.view_bound, step)
        _add_views(offsets, slots, x, z, scale, self.basis, step, sums[self.name])
        return None


@njit(cache=True, error_model="numpy", parallel=True)
def _views(offsets, slots, x, basis, view_bound, step):
    """z of every user, and the factor that brings the user's matrix inside the bound; each from the own row alone."""
    n_users, width = len(offsets) - 1, basis.shape[1]
    views, scales = np.zeros((n_users, width)), np.zeros(n_users)
    for u in prange(n_users):
        z = np.zeros(width)
        for p in range(offsets[u], offsets[u + 1]):
            for k in range(width):
                z[k] += x[p] * basis[slots[p], k]
        squared_norm = 0.0
        for p in range(offsets[u], offsets[u + 1]):
            for k in range(width):
                squared_norm += (x[p] * (z[k] - x[p] * basis[slots[p], k])) ** 2
        scale, squares = shrink_factor(squared_norm, view_bound), np.zeros(width)
        for p in range(offsets[u], offsets[u + 1]):
            for k in range(width):
                units = scale * x[p] * (z[k] - x[p] * basis[slots[p], k]) / step  # what _add_views truncates
                squares[k] += units * units
        views[u] = z
        scales[u] = scale if fits(squares.sum(), view_bound, step) else 0.0
    return views, scales


@njit(cache=True, error_model="numpy", parallel=True)
def _add_views(offsets, slots, x, z, scale, basis, step, total):
    owner = np.empty(len(slots), np.int64)
    for u in range(len(offsets) - 1):
        owner[offsets[u] : offsets[u + 1]] = u
    starts, position, _ = users_by_item(offsets, slots, total.shape[0])
    for j in prange(total.shape[0]):
        for at in range(starts[j], starts[j + 1]):
            p = position[at]
            u = owner[p]
            for k in range(total.shape[1]):
                total[j, k] += to_units(scale[u] * x[p] * (z[u, k] - x[p] * basis[j, k]), step)
