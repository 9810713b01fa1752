"""Kernel room: the users' half of Frank-Wolfe: replay the billboard on one's own row, then show a bounded residual.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 lines 13-23 (local update). Deviates: no state is kept between
rounds, a user's row is replayed from the posted directions; the residual is clipped to its own bound, which may be
below the 2L of the paper; a row that was shrunk to norm L is scaled back when it is shown to its owner; users may
refit their row on all directions instead of taking one step along the last.

letter | meaning                                              | our word
L      | bound on the norm of a user's observed row           | row_norm
v, u   | posted direction; the user's step along it           | directions, coefficients
A_i    | prediction less target on the user's own entries     | residual
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
from lowkey.kernels.walk import Walk, centered_rows, local_rows
from lowkey.privacy.sums import HAIR, Grid, Sensitivity, Statistic, symmetric_shape

BITS, PRODUCT_BITS = 19, 26  # of a residual; its products take 38, and 2^25 users fill an int64


@dataclass(frozen=True, eq=False)
class ResidualSweep(Sweep):
    """What the three statistics share: the user's residual x after replaying the billboard, of norm at most ``bound``.

    Targets have norm at most L, predictions on the user's entries too, so residuals have at most 2L (L in round 1, when
    nothing is predicted yet). They are clipped to ``residual_norm`` where that is less, and truncated to the grid.
    """

    round: int
    walk: Walk
    center: float
    row_norm: float
    residual_norm: float
    offset_reg: float  # infinite: the user's own mean is not subtracted

    @property
    def n_items(self) -> int:
        return self.walk.directions.shape[1]

    @property
    def bound(self) -> float:
        reachable = self.row_norm if self.round == 1 else 2.0 * self.row_norm
        return min(reachable, self.residual_norm)

    @property
    def grid(self) -> Grid:
        return Grid.for_bound(self.bound, BITS)

    def units(self, block: Block) -> NDArray[np.int64]:
        """Every user's residual in grid units, entry by entry."""
        rows = (block.offsets, block.items)
        targets, _ = centered_rows(*rows, block.values, self.center, self.offset_reg, self.row_norm)
        _, predictions = local_rows(*rows, targets, self.row_norm, self.walk)
        return _residual_units(block.offsets, targets, predictions, self.bound, self.grid.step)


@dataclass(frozen=True, eq=False)
class ResidualGram(ResidualSweep):
    """The sum of x x^T, a packed triangle. |x x^T|_F = |x|^2 <= bound^2, and x x^T is positive semidefinite."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        peak = self.grid.units(self.bound) ** 2
        bound = Sensitivity.of_acute_vectors(self.bound**2)
        shape = symmetric_shape(self.n_items)
        return (Statistic(f"residual_gram_{self.round}", shape, self.grid.squared, bound, peak, "symmetric"),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        triangle = sums[f"residual_gram_{self.round}"]
        add_row_grams(block.offsets, block.items, self.units(block), self.n_items, triangle)
        return None


@dataclass(frozen=True, eq=False)
class ResidualProduct(ResidualSweep):
    """The sum of x (x . v) for a public unit vector v: one step of a power iteration, without the matrix.

    Add/remove: |x (x . v)| <= |x|^2 |v| <= bound^2. Replace-one: |(x x^T - y y^T) v| is at most the spectral norm of a
    difference of two positive semidefinite matrices, which is at most the larger one's: bound^2 again, not twice. Here
    truncation matters, as the product is truncated and not x alone: it moves each of two vectors by less than one step
    in each coordinate, together by less than 2 step sqrt(n_items), which is added.
    """

    step: int
    direction: NDArray[np.float64]

    @property
    def name(self) -> str:
        return f"residual_product_{self.round}_{self.step}"

    @property
    def product_grid(self) -> Grid:
        return Grid.for_bound(self.bound**2, PRODUCT_BITS)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        n_items, squared = self.n_items, self.bound**2
        truncation = 2.0 * self.product_grid.step * math.sqrt(n_items)
        bound = Sensitivity(squared, squared + truncation)
        return (Statistic(self.name, (n_items,), self.product_grid, bound, self.product_grid.units(squared)),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        direction, steps = _inside(self.direction), (self.grid.step, self.product_grid.step)
        units = self.units(block)
        _add_products(block.offsets, block.items, units, direction, *steps, self.bound, sums[self.name])
        return None


@dataclass(frozen=True, eq=False)
class ResidualEnergy(ResidualSweep):
    """The sum of ((x . v)^2, |x|^2 / n_items): the eigenvalue of a public unit vector v, and the mean eigenvalue.

    Two non-negative numbers per user, at most bound^2 and bound^2 / n_items: both adding a user and exchanging one for
    another move each by at most that, together by bound^2 sqrt(1 + 1/n_items^2).
    """

    direction: NDArray[np.float64]

    @property
    def name(self) -> str:
        return f"residual_energy_{self.round}"

    @property
    def energy_grid(self) -> Grid:
        return Grid.for_bound(self.bound**2, PRODUCT_BITS)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        squared = self.bound**2
        moved = squared * math.sqrt(1.0 + 1.0 / self.n_items**2)
        return (Statistic(self.name, (2,), self.energy_grid, Sensitivity(moved, moved), self.energy_grid.units(squared)),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        direction, steps = _inside(self.direction), (self.grid.step, self.energy_grid.step)
        units = self.units(block)
        facts = (self.n_items, *steps, self.bound)
        _add_energies(block.offsets, block.items, units, direction, *facts, sums[self.name])
        return None


def _inside(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """The direction with norm at most 1, whatever it was: the bounds above rest on it."""
    norm = math.sqrt(float(direction @ direction))
    return direction * ((1.0 - HAIR) / max(norm, 1.0))


@njit(cache=True, error_model="numpy", parallel=True)
def _residual_units(offsets, targets, predictions, bound, step):
    units = np.empty(len(targets), np.int64)
    for u in prange(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        squared_norm = 0.0
        for p in range(lo, hi):
            squared_norm += (predictions[p] - targets[p]) ** 2
        shrink = shrink_factor(squared_norm, bound)
        for p in range(lo, hi):
            units[p] = to_units(shrink * (predictions[p] - targets[p]), step)
        drop_beyond(units[lo:hi], bound, step)
    return units


@njit(cache=True, error_model="numpy", nogil=True)
def _along(items, lo, hi, units, direction, step):
    total = 0.0
    for p in range(lo, hi):
        total += units[p] * direction[items[p]]
    return total * step


@njit(cache=True, error_model="numpy", nogil=True)
def _add_products(offsets, items, units, direction, step, product_step, bound, products):
    for u in range(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        along = _along(items, lo, hi, units, direction, step)
        if abs(along) <= bound:  # and x fits the bound: so does x (x . v) its square
            for p in range(lo, hi):
                products[items[p]] += to_units(units[p] * step * along, product_step)


@njit(cache=True, error_model="numpy", nogil=True)
def _add_energies(offsets, items, units, direction, n_items, step, energy_step, bound, energies):
    for u in range(len(offsets) - 1):
        along = _along(items, offsets[u], offsets[u + 1], units, direction, step)
        squared_norm = 0.0
        for p in range(offsets[u], offsets[u + 1]):
            squared_norm += (units[p] * step) ** 2
        if abs(along) <= bound:
            energies[0] += to_units(along * along, energy_step)
        energies[1] += to_units(squared_norm / n_items, energy_step)
