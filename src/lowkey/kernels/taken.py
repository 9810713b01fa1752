"""Kernel room: how people's tastes go with what they took, whatever they thought of it.

| letter | meaning | our word |
|---|---|---|
| u | own ridge solution on fixed item factors: the user's factors | |
| z | the sum of ``takes`` over the rated items, over m + PULL: what was taken, m the number of ratings | |

Paper: ours (docs/factors.md), after Koren 2008 (SVD++). Deviates: a regression on posted moments, not a gradient descent.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import drop_beyond, shrink_factor, to_units
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.kernels.user_solve import ridge_rows, taken_rows
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

BITS = 20  # of a coordinate: products have 40, and int64 holds the sum over 2^23 users


@dataclass(frozen=True, eq=False)
class TakenMoments(Sweep):
    """The sum of (u, z) z^T: z clipped to norm 1, (u, z) to ``bound``, each truncated, then multiplied exactly.

    The Frobenius norm of x z^T is |x| |z| <= bound: add/remove. Two such matrices may be opposite (u and -u, with equal
    z), so replace-one doubles.
    """

    prior: NDArray[np.float64]  # what is expected of each item
    item_factors: NDArray[np.float64]  # all columns that a user solves for; the first are the factors
    takes: NDArray[np.float64]  # (n_items, rank)
    bound: float
    reg: float
    offset_reg: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        rank = self.takes.shape[1]
        sensitivity = Sensitivity.of_vectors(self.bound)
        return (Statistic("taken", (2 * rank, rank), self._grid(BITS), sensitivity, 1 << 2 * BITS),)

    def _grid(self, more: int = 0) -> Grid:
        """Of (u, z); with z's own bits that of products."""
        return Grid(Grid.for_bound(self.bound, BITS).exponent - more)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        offsets, items = block.offsets, block.items
        design = np.column_stack([np.ones(len(self.prior)), self.item_factors])
        ridge = np.diag(np.append(self.offset_reg, np.full(design.shape[1] - 1, self.reg)))
        solved = ridge_rows(offsets, items, block.values - self.prior[items], design, ridge)
        shown = taken_rows(offsets, items, self.takes)
        _add_products(solved, shown, self.bound, self._grid().step, sums["taken"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def _add_products(solved, shown, bound, step, total):
    (n_users, rank), fine = shown.shape, 2.0**-BITS
    x, z = np.empty(2 * rank), np.empty(rank)
    for u in range(n_users):
        z[:] = shown[u]
        _clip(z, 1.0, fine)
        x[:rank] = solved[u, 1 : rank + 1]
        x[rank:] = z * fine
        _clip(x, bound, step)
        for a in range(2 * rank):
            for b in range(rank):
                total[a, b] += np.int64(x[a] * z[b])  # whole numbers up to 2^40, so exact


@njit(cache=True, error_model="numpy", nogil=True)
def _clip(x, bound, step):
    """In place, in grid units; a vector that is no number becomes 0."""
    squared = 0.0
    for k in range(len(x)):
        squared += x[k] * x[k]
    clip = shrink_factor(squared, bound) if squared < np.inf else 0.0
    for k in range(len(x)):
        x[k] = float(to_units(clip * x[k], step))
    drop_beyond(x, bound, step)
