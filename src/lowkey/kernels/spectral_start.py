"""Kernel room: the users' half of a private spectral start: the Gram matrix of their centred, weighted, bounded rows.

Paper: DPLMC (Wang, Zhao and Kolar 2023), Algorithm 2 lines 1-4. Deviates: rows are centred and may be weighted; the
scaling tau^2/p^2 is left to the public side, as it takes a public or posted p; ``per_rating`` is ours.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import drop_beyond, shrink_factor, to_units
from lowkey.kernels.gram import add_row_grams
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape

BITS = 19  # of a coordinate; products take 38, and 2^25 users fill an int64


@dataclass(frozen=True, eq=False)
class StartGram(Sweep):
    """The sum of y y^T, a packed triangle, over users' rows y_j = w_j (rating - prior_j - own offset).

    y is clipped to norm ``row_norm`` and truncated, then multiplied exactly: |y y^T|_F = |y|^2 <= row_norm^2. Two such
    matrices are positive semidefinite, so replace-one moves the sum by sqrt(2) row_norm^2; the paper books 2 of them.
    With ``per_rating`` a row of m ratings is divided by sqrt(m) first, and ``row_norm`` bounds its root mean square.
    """

    prior: NDArray[np.float64]  # what is expected of each item
    item_weights: NDArray[np.float64]  # w
    row_norm: float
    offset_reg: float  # infinite: no offset of the user's own
    per_rating: bool = False

    @property
    def grid(self) -> Grid:
        return Grid.for_bound(self.row_norm, BITS)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity.of_acute_vectors(self.row_norm**2)
        shape = symmetric_shape(len(self.prior))
        peak = self.grid.units(self.row_norm) ** 2
        return (Statistic("start_gram", shape, self.grid.squared, bound, peak, "symmetric"),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        rows = (block.offsets, block.items)
        weights = np.ascontiguousarray(self.item_weights, np.float64)
        bounds = (self.offset_reg, self.row_norm, self.per_rating, self.grid.step)
        units = _row_units(*rows, block.values, self.prior, weights, *bounds)
        add_row_grams(*rows, units, len(self.prior), sums["start_gram"])
        return None


@njit(cache=True, error_model="numpy", nogil=True, inline="always")
def own_offset(items, values, prior, lo, hi, offset_reg):
    """A user's own damped mean: 0 for an empty row, and for an infinite ``offset_reg``."""
    total = 0.0
    for p in range(lo, hi):
        total += values[p] - prior[items[p]]
    return total / (hi - lo + offset_reg) if hi > lo and offset_reg < math.inf else 0.0


@njit(cache=True, error_model="numpy", parallel=True)
def _row_units(offsets, items, values, prior, weights, offset_reg, row_norm, per_rating, step):
    units = np.empty(len(items), np.int64)
    for u in prange(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        offset = own_offset(items, values, prior, lo, hi, offset_reg)
        scale = 1.0 / math.sqrt(hi - lo) if per_rating and hi > lo else 1.0
        squared_norm = 0.0
        for p in range(lo, hi):
            squared_norm += (scale * weights[items[p]] * (values[p] - prior[items[p]] - offset)) ** 2
        scale *= shrink_factor(squared_norm, row_norm)
        for p in range(lo, hi):
            units[p] = to_units(scale * weights[items[p]] * (values[p] - prior[items[p]] - offset), step)
        drop_beyond(units[lo:hi], row_norm, step)
    return units
