"""Kernel room: the users' half of what comes before item means: the level of all ratings, and how far they spread.

| letter | meaning |
|---|---|
| m | a user's number of ratings |
| v = m/(m + PULL) | the weight of a user's own mean: one rating says little of it; in [0, 1) |
| c = (m - 1)/m | the weight of a user's own variance; in [0, 1) |
| z | how far a rating lies from the center, in units of ``reach``, clipped to [-1, 1] |

Paper: McSherry and Mironov 2009, section 4 (a global mean first). Deviates: users weigh alike, whatever their number of
ratings; how far they spread in all, and how alike a user's own ratings are (Henderson 1953, method 1), is posted too.
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
from lowkey.privacy.sums import HAIR, Grid, Sensitivity, Statistic

BITS = 26
PULL = 4.0  # ratings that a user's own mean is damped by
HALF = 0.5  # of all that is known of a user's spread but what the own ratings have in common: that is the least
GRID = Grid.for_bound(1.0, BITS)


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
    """(c q p, c q/2, c/2, 1/2): q is the mean of a user's z^2, p the mean of z z' over all pairs of two ratings, over q.

    So q holds all of the variance, and q p what a user's ratings have in common. Of (a, b, d) = (c q p, c q, c) it is
    known that |a| <= b <= d < 1. Add/remove: sqrt(1 + 3/4). Replace-one: the last one cancels, (a - a')^2 <= (b + b')^2,
    and (b + b')^2 + (b - b')^2/4 + (d - d')^2/4 is convex, so largest where all of them are 1: at most 4, so 2. On the
    grid: both hold for all whole numbers a, b/2, d/2 of that order, and who is not among them adds nothing.
    """

    center: float
    reach: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity(math.sqrt(1.0 + 3.0 * HALF**2), 2.0)
        return (Statistic("spread", (4,), GRID, bound, 1 << BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        _add_spread(block.offsets, block.values, self.center, self.reach, GRID.step, sums["spread"])
        return None


@njit(cache=True, nogil=True)
def within_cone(height, width, most):
    """Whether 0 <= ``height`` <= ``most`` and |``width``| <= ``height``: the last word on a user's level."""
    return 0 <= height <= most and -height <= width <= height


@njit(cache=True, nogil=True)
def in_order(alike, square, weight, most):
    """Whether |``alike``| <= 2 ``square`` <= 2 ``weight`` <= ``most``: the last word on a user's spread."""
    return -2 * square <= alike <= 2 * square and square <= weight and 2 * weight <= most


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
def _add_spread(offsets, values, center, reach, step, spread):
    for u in range(len(offsets) - 1):
        m, total, squares, sound = float(offsets[u + 1] - offsets[u]), 0.0, 0.0, True
        for p in range(offsets[u], offsets[u + 1]):
            sound &= math.isfinite(values[p])
            z = clipped((values[p] - center) / reach, -1.0)
            total += z
            squares += z * z
        if m == 0.0 or not sound:
            continue
        weight = HALF * (m - 1.0) / m
        square = to_units(weight * squares / m, step)
        common = (total * total - squares) / ((m - 1.0) * squares)
        alike = np.int64(2.0 * square * clipped(common, -1.0))
        weight = to_units(weight, step)
        if in_order(alike, square, weight, np.int64(1.0 / step)):
            spread[0] += alike
            spread[1] += square
            spread[2] += weight
            spread[3] += to_units(HALF, step)
