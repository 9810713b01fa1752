"""Kernel room: the users' half of private item means.

Paper: McSherry and Mironov 2009, section 4, with a user's weight 1/sqrt(count) in place of a cap on the count.
Deviates: sums and counts are one vector with one bound; a user's own offset is local and never summed.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import drop_beyond, fits, shrink_factor, to_units
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

BITS = 26


@dataclass(frozen=True, eq=False)
class ItemMeans(Sweep):
    """Per item, the weighted sum of users' residuals (in units of ``residual_bound``) and the weighted count.

    A user with m ratings has weight w = 1/sqrt(max(m, least_ratings)), so that m w^2 <= 1; with ``least_ratings`` as large
    as the catalogue all ratings weigh alike. Residuals e_j = r_j - prior_j - offset, the offset being the user's
    own damped mean. Their part of the contribution is (w e_j / residual_bound)_j, clipped to norm 1; the counts' part is
    (count_weight w)_j, of norm c = count_weight. Together sqrt(1 + c^2); residuals alone replace at 2, counts
    (non-negative) at sqrt(2) c, so replace-one is sqrt(4 + 2 c^2).
    """

    prior: NDArray[np.float64]  # what is expected of each item
    residual_bound: float
    offset_reg: float
    count_weight: float = 1.0
    least_ratings: int = 1
    name: str = "item_means"

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        c2 = self.count_weight**2
        bound = Sensitivity(math.sqrt(1.0 + c2), math.sqrt(4.0 + 2.0 * c2))
        return (Statistic(self.name, (2, len(self.prior)), Grid.for_bound(1.0, BITS), bound, 1 << BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        bounds = (self.residual_bound, self.offset_reg, self.count_weight, self.least_ratings)
        bounds = (*bounds, Grid.for_bound(1.0, BITS).step)
        _add_means(block.offsets, block.items, block.values, self.prior, *bounds, sums[self.name])
        return None


@dataclass(frozen=True)
class ItemCounts(Sweep):
    """Per item, how many users have it, each with weight 1/sqrt(m) on m items: a non-negative vector of norm 1."""

    n_items: int

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity.of_acute_vectors(1.0)
        return (Statistic("item_counts", (self.n_items,), Grid.for_bound(1.0, BITS), bound, 1 << BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        add_counts(block.offsets, block.items, 1.0, Grid.for_bound(1.0, BITS).step, sums["item_counts"])
        return None


@njit(cache=True, nogil=True)
def add_counts(offsets, items, weight, step, counts):
    """weight/sqrt(m) for each of a user's m items: of norm ``weight``."""
    for u in range(len(offsets) - 1):
        m = offsets[u + 1] - offsets[u]
        if m > 0:
            units = to_units(weight * shrink_factor(float(m), 1.0), step)
            if fits(m * float(units) ** 2, weight, step):
                for p in range(offsets[u], offsets[u + 1]):
                    counts[items[p]] += units


@njit(cache=True, error_model="numpy", nogil=True)
def _add_means(offsets, items, values, prior, residual_bound, offset_reg, count_weight, least_ratings, step, means):
    longest = 0
    for u in range(len(offsets) - 1):
        longest = max(longest, offsets[u + 1] - offsets[u])
    units = np.empty(longest, np.int64)
    for u in range(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        if hi == lo:
            continue
        weight = shrink_factor(float(max(hi - lo, least_ratings)), 1.0)  # 1/sqrt(m), a hair inside
        offset = 0.0
        for p in range(lo, hi):
            offset += values[p] - prior[items[p]]
        offset /= hi - lo + offset_reg
        scale = weight / residual_bound
        squared_norm = 0.0
        for p in range(lo, hi):
            squared_norm += (scale * (values[p] - prior[items[p]] - offset)) ** 2
        scale *= shrink_factor(squared_norm, 1.0)
        for p in range(lo, hi):
            units[p - lo] = to_units(scale * (values[p] - prior[items[p]] - offset), step)
        drop_beyond(units[: hi - lo], 1.0, step)
        count = to_units(count_weight * weight, step)
        count = count if fits((hi - lo) * float(count) ** 2, abs(count_weight), step) else 0
        for p in range(lo, hi):
            means[0, items[p]] += units[p - lo]
            means[1, items[p]] += count
