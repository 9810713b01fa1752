"""Kernel room: the users' half of what comes before item means: the level of all ratings, and how far they spread.

| letter | meaning |
|---|---|
| m | a user's number of ratings |
| v = m/(m + PULL) | the weight of a user's own mean: one rating says little of it; in [0, 1) |
| v1 = (m - 1)/m | the weight of a user's own variance; in [0, 1) |

Paper: McSherry and Mironov 2009, section 4 (a global mean first). Deviates: users weigh alike, whatever their number of
ratings; the spread within and between users (Henderson 1953, method 1) is posted too.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import to_units
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.grid import HAIR, Grid
from lowkey.privacy.sums import Sensitivity, Statistic

BITS = 26
PULL = 4.0  # ratings that a user's own mean is damped by
LEAST_SHARE = 1.0 / (1.0 + PULL)  # bounds v/m = 1/(m + PULL), as m is 1 or more
GRID = Grid.for_bound(1.0, BITS)
CELLS = (1.0, 1.0, 1.0, LEAST_SHARE, 1.0)  # the box that holds what a user adds to the spread


@dataclass(frozen=True)
class Level(Sweep):
    """(v t, v): t is how far a user's mean lies from ``middle``, in units of ``half`` the rating range, clipped to [-1, 1].

    Add/remove: |(v t, v)|^2 = v^2 (1 + t^2) <= 2, so sqrt(2). Replace-one, (v, t) by (w, s): as |v t - w s| <= v + w,
    the move is at most (v + w)^2 + (v - w)^2 = 2 v^2 + 2 w^2 <= 4, so 2. On the grid: both hold for all whole numbers
    (a, b) with |a| <= b <= 1/step, and whoever is not among them adds nothing.
    """

    middle: float
    half: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return (Statistic("level", (2,), GRID, Sensitivity(math.sqrt(2.0), 2.0), 1 << BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        _add_level(block.offsets, block.values, self.middle, self.half, GRID.step, sums["level"])
        return None


@dataclass(frozen=True)
class Spread(Sweep):
    """(v1 min(s^2/cap, 1), v1, v min(o^2/cap, 1), v/m, v): s^2 is the unbiased variance of a user's own ratings, o the
    distance of their mean from ``center``, ``cap`` a public bound on both.

    Every user adds a point of the box [0, 1] x [0, 1] x [0, 1] x [0, 1/5] x [0, 1] (``CELLS``). Neither a point of it nor
    the difference of two is longer than its diagonal: sqrt(4 + 1/25) under both adjacencies. On the grid: whoever's
    whole numbers lie outside adds nothing.
    """

    center: float
    cap: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        diagonal = math.sqrt(sum(cell * cell for cell in CELLS))
        return (Statistic("spread", (len(CELLS),), GRID, Sensitivity(diagonal, diagonal), 1 << BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        most = np.array([GRID.units(cell) for cell in CELLS])
        _add_spread(block.offsets, block.values, self.center, self.cap, GRID.step, most, sums["spread"])
        return None


@njit(cache=True, nogil=True)
def within_cone(height, width, most):
    """Whether 0 <= ``height`` <= ``most`` and |``width``| <= ``height``: the last word on a user's level."""
    return 0 <= height <= most and -height <= width <= height


@njit(cache=True, nogil=True)
def within_box(units, most):
    """Whether every whole number is between 0 and its ``most``: the last word on a user's spread."""
    inside = True
    for k in range(len(units)):
        inside &= 0 <= units[k] <= most[k]
    return inside


@njit(cache=True, error_model="numpy", nogil=True)
def own_mean(values, lo, hi, around):
    """Of the ratings ``lo`` to ``hi``, less ``around``."""
    total = 0.0
    for p in range(lo, hi):
        total += values[p] - around
    return total / (hi - lo)


@njit(cache=True, nogil=True)
def clipped(value, low):
    """Into [low, 1], a hair inside; no number at all becomes nothing."""
    if math.isnan(value):
        return 0.0
    return min(max(value, low), 1.0) * (1.0 - HAIR)


@njit(cache=True, error_model="numpy", nogil=True)
def _add_level(offsets, values, middle, half, step, level):
    for u in range(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        if hi == lo:
            continue
        mean = own_mean(values, lo, hi, middle) / half
        if not math.isfinite(mean):  # no rating of the domain: says nothing, so it does not count either
            continue
        weight = (hi - lo) / (hi - lo + PULL)
        height, width = to_units(weight, step), to_units(weight * clipped(mean, -1.0), step)
        if within_cone(height, width, np.int64(1.0 / step)):
            level[0] += width
            level[1] += height


@njit(cache=True, error_model="numpy", nogil=True)
def _add_spread(offsets, values, center, cap, step, most, spread):
    units = np.empty(5, np.int64)
    for u in range(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        if hi == lo:
            continue
        m = float(hi - lo)
        mean = own_mean(values, lo, hi, center)
        squares = 0.0
        for p in range(lo, hi):
            squares += (values[p] - center - mean) ** 2
        if not math.isfinite(squares + mean * mean):
            continue
        weight, own = m / (m + PULL), (m - 1.0) / m
        units[0] = to_units(own * clipped(squares / max(m - 1.0, 1.0) / cap, 0.0), step)
        units[1] = to_units(own, step)
        units[2] = to_units(weight * clipped(mean * mean / cap, 0.0), step)
        units[3] = to_units(weight / m, step)
        units[4] = to_units(weight, step)
        if within_box(units, most):
            for k in range(5):
                spread[k] += units[k]
