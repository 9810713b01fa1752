"""Kernel room: the users' half of ``DPMoments``: second moments of bounded rows over the head of the catalogue.

| letter | meaning | our word |
|---|---|---|
| x | a user's residuals, scaled by 1/sqrt(count) | ``residual_gram`` is the sum of x x^T |
| o | a user's 0/1 row, scaled by 1/sqrt(count) | ``rated_gram`` is the sum of o o^T |
| y | a user's 0/1 row times public item weights, scaled to norm 1 | ``row_gram`` is the sum of y y^T |

A row is scaled by its own length, so no rating is thrown away and light users count as much as heavy ones.
``slots`` maps an item to its place in the head, -1 outside; places rise with items, so rows stay sorted.
Paper: ours (docs/moments.md), after McSherry and Mironov 2009.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import drop_beyond, shrink_factor, to_units
from lowkey.kernels.gram import add_row_grams
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape

BITS = 20  # of a coordinate; a product has twice as many, and int64 holds the sum over 2^23 users


def _gram(name: str, order: int, bound: float) -> Statistic:
    """The sum of x x^T for rows of norm at most ``bound``.

    |x x^T|_F = |x|^2 <= bound^2, and two such terms have inner product (x . x')^2 >= 0, so replace-one is sqrt(2) times
    add/remove. x is truncated to the grid first and multiplied exactly, which keeps each term positive semidefinite.
    Summed in int64 throughout, so a block may have any size (peak_units = 1).
    """
    grid = Grid.for_bound(bound, BITS)
    sensitivity = Sensitivity.of_acute_vectors(bound * bound)
    return Statistic(name, symmetric_shape(order), grid.squared, sensitivity, 1, "symmetric")


@dataclass(frozen=True, eq=False)
class RatingMoments(Sweep):
    """Residuals r_j - prior_j - offset, with the user's own damped offset over all of their ratings.

    On the user's h items of the head, x = residuals/sqrt(h), clipped to norm ``residual_bound`` (the root mean square of
    the user's residuals), and o = 1/sqrt(h), of norm 1.
    """

    prior: NDArray[np.float64]  # what is expected of each item
    slots: NDArray[np.int32]
    order: int  # of the head
    residual_bound: float
    offset_reg: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return _gram("residual_gram", self.order, self.residual_bound), _gram("rated_gram", self.order, 1.0)

    def rows(self, block: Block) -> tuple[Any, Any, Any, Any]:
        """offsets, places in the head, and the rows x and o in grid units."""
        x_step, o_step = Grid.for_bound(self.residual_bound, BITS).step, Grid.for_bound(1.0, BITS).step
        offsets, slots = head_rows(block.offsets, block.items, self.slots)
        bounds = (self.residual_bound, self.offset_reg, x_step, o_step)
        x, o = _residual_rows(block.offsets, block.items, block.values, self.prior, self.slots, offsets, *bounds)
        return offsets, slots, x, o

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        offsets, slots, x, o = self.rows(block)
        add_row_grams(offsets, slots, x, self.order, sums["residual_gram"])
        add_row_grams(offsets, slots, o, self.order, sums["rated_gram"])
        return None


@dataclass(frozen=True, eq=False)
class RowMoments(Sweep):
    """y = public item weights on the user's items of the head, scaled to norm 1; an empty row is 0."""

    slots: NDArray[np.int32]
    head_weights: NDArray[np.float64]

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return (_gram("row_gram", len(self.head_weights), 1.0),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        offsets, slots = head_rows(block.offsets, block.items, self.slots)
        y = _weighted_rows(offsets, slots, self.head_weights, Grid.for_bound(1.0, BITS).step)
        add_row_grams(offsets, slots, y, len(self.head_weights), sums["row_gram"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def head_rows(offsets, items, slots):
    """The rows cut down to the head: new offsets, and the places in the head."""
    kept = np.zeros(len(offsets), np.int64)
    for u in range(len(offsets) - 1):
        kept[u + 1] = kept[u]
        for p in range(offsets[u], offsets[u + 1]):
            if slots[items[p]] >= 0:
                kept[u + 1] += 1
    places = np.empty(kept[-1], np.int32)
    at = 0
    for p in range(offsets[-1]):
        if slots[items[p]] >= 0:
            places[at] = slots[items[p]]
            at += 1
    return kept, places


@njit(cache=True, error_model="numpy", nogil=True)
def _residual_rows(offsets, items, values, prior, slots, kept, residual_bound, offset_reg, x_step, o_step):
    x, o = np.empty(kept[-1], np.int64), np.empty(kept[-1], np.int64)
    for u in range(len(offsets) - 1):
        lo, hi, first = offsets[u], offsets[u + 1], kept[u]
        h = kept[u + 1] - first
        if h == 0:
            continue
        offset = 0.0
        for p in range(lo, hi):
            offset += values[p] - prior[items[p]]
        offset /= hi - lo + offset_reg
        weight = shrink_factor(float(h), 1.0)  # 1/sqrt(h), a hair inside
        squared_norm = 0.0
        for p in range(lo, hi):
            if slots[items[p]] >= 0:
                squared_norm += (weight * (values[p] - prior[items[p]] - offset)) ** 2
        scale = weight * shrink_factor(squared_norm, residual_bound)
        at = first
        for p in range(lo, hi):
            if slots[items[p]] >= 0:
                x[at] = to_units(scale * (values[p] - prior[items[p]] - offset), x_step)
                o[at] = to_units(weight, o_step)
                at += 1
        drop_beyond(x[first:at], residual_bound, x_step)
        drop_beyond(o[first:at], 1.0, o_step)
    return x, o


@njit(cache=True, error_model="numpy", nogil=True)
def _weighted_rows(offsets, slots, weights, step):
    y = np.empty(len(slots), np.int64)
    for u in range(len(offsets) - 1):
        squared_norm = 0.0
        for p in range(offsets[u], offsets[u + 1]):
            squared_norm += weights[slots[p]] ** 2
        scale = 0.0 if squared_norm == 0.0 else shrink_factor(1.0, 1.0) / np.sqrt(squared_norm)
        for p in range(offsets[u], offsets[u + 1]):
            y[p] = to_units(scale * weights[slots[p]], step)
        drop_beyond(y[offsets[u] : offsets[u + 1]], 1.0, step)
    return y
