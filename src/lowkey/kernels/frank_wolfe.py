"""Kernel room: the users' half of Frank-Wolfe: replay the billboard on one's own row, then show a bounded residual.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 lines 13-23 (local update). Deviates: no state is kept between
rounds, a user's row is replayed from the posted directions; the residual is clipped to its own bound, which may be
below the 2L of the paper; a row that was shrunk to norm L is scaled back when it is shown to its owner.

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
from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.kernels.gram import add_row_grams_by_piece
from lowkey.kernels.sweep import Local, Public, Sums, Sweep
from lowkey.privacy.grid import HAIR, Grid
from lowkey.privacy.sums import Sensitivity, Statistic, symmetric_shape

BITS = 19  # of a residual; its products take 38, and 2^25 users fill an int64
PRODUCT_BITS = 26


@dataclass(frozen=True)
class ResidualSweep(Sweep):
    """What the three statistics share: the user's residual x after replaying the billboard, of norm at most ``bound``.

    Targets have norm at most L, predictions on the user's entries too, so residuals have at most 2L (L in round 1, when
    nothing is predicted yet). They are clipped to ``residual_norm`` where that is less, and truncated to the grid.
    """

    round: int
    row_norm: float
    residual_norm: float
    offset_reg: float  # infinite: the user's own mean is not subtracted

    @property
    def bound(self) -> float:
        reachable = self.row_norm if self.round == 1 else 2.0 * self.row_norm
        return min(reachable, self.residual_norm)

    @property
    def grid(self) -> Grid:
        return Grid.for_bound(self.bound, BITS)

    def units(self, block: Block, public: Public) -> NDArray[np.int64]:
        """Every user's residual in grid units, entry by entry."""
        row = (public["center"], self.offset_reg, self.row_norm)
        billboard = (public["directions"], public["gains"], public["decays"])
        return _residual_units(block.offsets, block.items, block.values, *row, *billboard, self.bound, self.grid.step)


@dataclass(frozen=True)
class ResidualGram(ResidualSweep):
    """The sum of x x^T, a packed triangle. |x x^T|_F = |x|^2 <= bound^2, and x x^T is positive semidefinite."""

    def statistics(self, public: Public) -> tuple[Statistic, ...]:
        peak = self.grid.units(self.bound) ** 2
        bound = Sensitivity.of_acute_vectors(self.bound**2)
        shape = symmetric_shape(public["n_items"])
        return (Statistic(f"residual_gram_{self.round}", shape, self.grid.squared, bound, peak, "symmetric"),)

    def run(self, block: Block, local: Local, public: Public, sums: Sums) -> Local:
        triangle = sums[f"residual_gram_{self.round}"]
        add_row_grams_by_piece(block.offsets, block.items, self.units(block, public), public["n_items"], triangle)
        return None


@dataclass(frozen=True)
class ResidualProduct(ResidualSweep):
    """The sum of x (x . v) for a public unit vector v: one step of a power iteration, without the matrix.

    Add/remove: |x (x . v)| <= |x|^2 |v| <= bound^2. Replace-one: |(x x^T - y y^T) v| is at most the spectral norm of a
    difference of two positive semidefinite matrices, which is at most the larger one's: bound^2 again, not twice. Here
    truncation matters, as the product is truncated and not x alone: it moves each of two vectors by less than one step
    in each coordinate, together by less than 2 step sqrt(n_items), which is added.
    """

    step: int

    @property
    def name(self) -> str:
        return f"residual_product_{self.round}_{self.step}"

    @property
    def product_grid(self) -> Grid:
        return Grid.for_bound(self.bound**2, PRODUCT_BITS)

    def statistics(self, public: Public) -> tuple[Statistic, ...]:
        n_items, squared = public["n_items"], self.bound**2
        truncation = 2.0 * self.product_grid.step * math.sqrt(n_items)
        bound = Sensitivity(squared, squared + truncation)
        return (Statistic(self.name, (n_items,), self.product_grid, bound, self.product_grid.units(squared)),)

    def run(self, block: Block, local: Local, public: Public, sums: Sums) -> Local:
        direction, steps = _inside(public["direction"]), (self.grid.step, self.product_grid.step)
        _add_products(block.offsets, block.items, self.units(block, public), direction, *steps, sums[self.name])
        return None


@dataclass(frozen=True)
class ResidualEnergy(ResidualSweep):
    """The sum of (x . v)^2, the eigenvalue that belongs to a public unit vector v.

    One number in [0, bound^2] per user: bound^2 bounds both adding one and exchanging one for another.
    """

    @property
    def name(self) -> str:
        return f"residual_energy_{self.round}"

    def statistics(self, public: Public) -> tuple[Statistic, ...]:
        squared = self.bound**2
        grid = Grid.for_bound(squared, PRODUCT_BITS)
        return (Statistic(self.name, (1,), grid, Sensitivity(squared, squared), grid.units(squared)),)

    def run(self, block: Block, local: Local, public: Public, sums: Sums) -> Local:
        direction, grid = _inside(public["direction"]), Grid.for_bound(self.bound**2, PRODUCT_BITS)
        units = self.units(block, public)
        _add_energies(block.offsets, block.items, units, direction, self.grid.step, grid.step, sums[self.name])
        return None


def _inside(direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """The direction with norm at most 1, whatever it was: the bounds above rest on it."""
    norm = math.sqrt(float(direction @ direction))
    return direction * ((1.0 - HAIR) / max(norm, 1.0))


@njit(cache=True, nogil=True)
def load_row(values, lo, hi, center, offset_reg, row_norm, target):
    """Fill ``target[lo:hi]`` with the user's centred row, of norm at most ``row_norm``; return its offset and scale."""
    offset = 0.0
    for p in range(lo, hi):
        offset += values[p] - center
    offset /= hi - lo + offset_reg
    squared_norm = 0.0
    for p in range(lo, hi):
        target[p] = values[p] - center - offset
        squared_norm += target[p] * target[p]
    scale = shrink_factor(squared_norm, row_norm)
    for p in range(lo, hi):
        target[p] *= scale
    return offset, scale


@njit(cache=True, nogil=True)
def replay_row(items, lo, hi, target, row_norm, directions, gains, decays, prediction, coefficients):
    """Walk one user through all posted rounds: Y <- decay Y - gain (A . v) v, then Y onto the ball of ``row_norm``.

    ``prediction[lo:hi]`` becomes Y on the user's own entries, ``coefficients`` Y as a combination of the directions.
    """
    for p in range(lo, hi):
        prediction[p] = 0.0
    for t in range(len(gains)):
        direction = directions[t]
        along = 0.0
        for p in range(lo, hi):
            along += (prediction[p] - target[p]) * direction[items[p]]
        stride = -gains[t] * along
        squared_norm = 0.0
        for p in range(lo, hi):
            prediction[p] = decays[t] * prediction[p] + stride * direction[items[p]]
            squared_norm += prediction[p] * prediction[p]
        shrink = shrink_factor(squared_norm, row_norm)
        if shrink < 1.0:
            for p in range(lo, hi):
                prediction[p] *= shrink
        for s in range(t):
            coefficients[s] *= decays[t] * shrink
        coefficients[t] = stride * shrink


@njit(cache=True, parallel=True)
def fold_in(offsets, items, values, center, offset_reg, row_norm, directions, gains, decays):
    """Per user (n_users, 1 + rounds): the offset, then the coefficients on the directions, in the user's own scale."""
    n_users = len(offsets) - 1
    factors = np.zeros((n_users, 1 + len(gains)))
    target, prediction = np.empty(len(items)), np.empty(len(items))
    for u in prange(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        if hi > lo:
            offset, scale = load_row(values, lo, hi, center, offset_reg, row_norm, target)
            replay_row(items, lo, hi, target, row_norm, directions, gains, decays, prediction, factors[u, 1:])
            factors[u, 0] = offset
            factors[u, 1:] /= scale
    return factors


@njit(cache=True, parallel=True)
def _residual_units(offsets, items, values, center, offset_reg, row_norm, directions, gains, decays, bound, step):
    units = np.empty(len(items), np.int64)
    target, prediction = np.empty(len(items)), np.empty(len(items))
    for u in prange(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        if hi > lo:
            load_row(values, lo, hi, center, offset_reg, row_norm, target)
            coefficients = np.empty(len(gains))
            replay_row(items, lo, hi, target, row_norm, directions, gains, decays, prediction, coefficients)
            squared_norm = 0.0
            for p in range(lo, hi):
                squared_norm += (prediction[p] - target[p]) ** 2
            shrink = shrink_factor(squared_norm, bound)
            for p in range(lo, hi):
                units[p] = to_units(shrink * (prediction[p] - target[p]), step)
    return units


@njit(cache=True, nogil=True)
def _along(items, lo, hi, units, direction, step):
    total = 0.0
    for p in range(lo, hi):
        total += units[p] * direction[items[p]]
    return total * step


@njit(cache=True, nogil=True)
def _add_products(offsets, items, units, direction, step, product_step, products):
    for u in range(len(offsets) - 1):
        along = _along(items, offsets[u], offsets[u + 1], units, direction, step)
        for p in range(offsets[u], offsets[u + 1]):
            products[items[p]] += to_units(units[p] * step * along, product_step)


@njit(cache=True, nogil=True)
def _add_energies(offsets, items, units, direction, step, energy_step, energies):
    for u in range(len(offsets) - 1):
        along = _along(items, offsets[u], offsets[u + 1], units, direction, step)
        energies[0] += to_units(along * along, energy_step)
