"""Kernel room: the users' half of private SVD: rows of bounded norm, how dense they are, and cleansed moments.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 3 line 1; McSherry and Mironov 2009, section 4 (cleansing). Deviates:
the density of the ratings, which the paper takes from the data, is a sum with a bound; McSherry and Mironov's weights
1/count on covariances are kept, as weights 1/sqrt(count) on rows.
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
from lowkey.kernels.frank_wolfe import BITS
from lowkey.kernels.gram import add_row_grams
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape

DENSITY_BITS = 26


@dataclass(frozen=True)
class RatingDensity(Sweep):
    """The sum of (count / n_items, 1) over users: the ratio of the two is |Omega| / (n_users n_items).

    An item stands in a row at most once, so the first number is at most 1: add/remove moves the vector by at most
    sqrt(2), and replacing a user by another moves the first number alone, by at most 1.
    """

    n_items: int

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        grid = Grid.for_bound(1.0, DENSITY_BITS)
        return (Statistic("rating_density", (2,), grid, Sensitivity(math.sqrt(2.0), 1.0), 1 << DENSITY_BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        _add_densities(block.offsets, self.n_items, Grid.for_bound(1.0, DENSITY_BITS).step, sums["rating_density"])
        return None


@dataclass(frozen=True, eq=False)
class CleansedMoments(Sweep):
    """The sums of x x^T and of o o^T over users, x being cleansed residuals and o the indicator of what is rated.

    A user with m ratings has weight w = 1/sqrt(m). x_j = w clamp(r_j - prior_j - offset) / residual_bound, the
    clamp to +-residual_bound, so |x|^2 <= w^2 m = 1; o_j = w, so |o| = 1. Both outer products are positive semidefinite.
    """

    prior: NDArray[np.float64]  # what is expected of each item
    residual_bound: float
    offset_reg: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        grid, bound = Grid.for_bound(1.0, BITS), Sensitivity.of_acute_vectors(1.0)
        shape = symmetric_shape(len(self.prior))
        names = ("cleansed_covariance", "co_ratings")
        first, second = (Statistic(name, shape, grid.squared, bound, 1 << 2 * BITS, "symmetric") for name in names)
        return first, second

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        step = Grid.for_bound(1.0, BITS).step
        rows = (block.offsets, block.items)
        residuals, weights = _cleansed_units(*rows, block.values, self.prior, self.residual_bound, self.offset_reg, step)
        add_row_grams(*rows, residuals, len(self.prior), sums["cleansed_covariance"])
        add_row_grams(*rows, weights, len(self.prior), sums["co_ratings"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def _add_densities(offsets, n_items, step, densities):
    for u in range(len(offsets) - 1):
        densities[0] += to_units(min((offsets[u + 1] - offsets[u]) / n_items, 1.0), step)
        densities[1] += to_units(1.0, step)


@njit(cache=True, error_model="numpy", parallel=True)
def _cleansed_units(offsets, items, values, prior, residual_bound, offset_reg, step):
    residuals, weights = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
    for u in prange(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        if hi > lo:
            weight = shrink_factor(float(hi - lo), 1.0)  # 1/sqrt(m), a hair inside
            offset = 0.0
            for p in range(lo, hi):
                offset += values[p] - prior[items[p]]
            offset /= hi - lo + offset_reg
            for p in range(lo, hi):
                residual = (values[p] - prior[items[p]] - offset) / residual_bound
                residuals[p] = to_units(weight * min(max(residual, -1.0), 1.0), step)
                weights[p] = to_units(weight, step)
            drop_beyond(residuals[lo:hi], 1.0, step)
            drop_beyond(weights[lo:hi], 1.0, step)
    return residuals, weights
