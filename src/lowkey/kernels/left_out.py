"""Kernel room: how well effects, or users' own fits on given factors, predict ratings that they have not seen; and a sweep
over a part of the users. For the baselines ``Bias`` and ``ALS``, which try on some what they learnt of the others.

Paper: ours. Leaving out one rating needs no second fit. Of effects: an item's total and a user's sum are sums over ratings.
Of a ridge regression: the error is that of the whole fit over 1 - h, h its leverage. With an offset of ridge c beside the
factors, the fit on m ratings is S/(m + c) + Z (D + reg)^-1 Z^T y: Z D Z^T are factors less their own damped mean, turned to
their own axes, so that every ridge has the same axes.
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

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Block
from lowkey.kernels.bounding import to_units
from lowkey.kernels.level import clipped
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

BITS = 44  # a rating has 1/n_items of the whole


@dataclass(frozen=True, eq=False)
class LeaveOneOut(Sweep):
    """For every pair of ridges the sum of squared errors, each in units of ``cap`` and at most 1, over n_items.

    A user's offset and the effects of the user's items are computed without the rating in question. A user has at most
    n_items ratings, so every user adds a point of the box [0, 1]^k: sqrt(k) under both adjacencies. On the grid:
    whoever's whole numbers lie outside adds nothing.
    """

    center: float
    totals: NDArray[np.float64]  # per item, of ratings less the center and the users' offsets
    counts: NDArray[np.float64]
    prior: NDArray[np.float64]  # around which, and with which damping, offsets were when the totals were made
    offset_reg: float
    ridges: NDArray[np.float64]  # (k, 2): of items, of offsets
    cap: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        diagonal = math.sqrt(len(self.ridges))
        grid = Grid.for_bound(1.0, BITS)
        return (Statistic("left_out", (len(self.ridges),), grid, Sensitivity(diagonal, diagonal), 1),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        known = (self.center, self.totals, self.counts, self.prior, self.offset_reg, self.ridges, self.cap)
        _add_of_effects(block.offsets, block.items, block.values, *known, Grid.for_bound(1.0, BITS).step, sums["left_out"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def _add_of_effects(offsets, items, values, center, totals, counts, prior, offset_reg, ridges, cap, step, errors):
    longest = 0
    for u in range(len(offsets) - 1):
        longest = max(longest, offsets[u + 1] - offsets[u])
    rest = np.empty(longest)
    for u in range(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        own = 0.0
        for p in range(lo, hi):
            own += values[p] - prior[items[p]]
        own /= hi - lo + offset_reg
        for k in range(len(ridges)):
            for_items, for_offset = ridges[k]
            total = 0.0
            for p in range(lo, hi):
                j = items[p]
                left = totals[j] - (values[p] - center - own)  # the item's total without this user
                rest[p - lo] = values[p] - center - left / (max(counts[j] - 1.0, 0.0) + for_items)
                total += rest[p - lo]
            wrong = 0.0
            for p in range(hi - lo):
                offset = (total - rest[p]) / (hi - lo - 1.0 + for_offset)
                wrong += clipped((rest[p] - offset) ** 2 / cap, 0.0)
            errors[k] += _looked_at(to_units(wrong / len(totals), step), step)


@njit(cache=True, nogil=True)
def _looked_at(units, step):
    """A second look, on whole numbers: what lies outside the box counts as nothing."""
    return units if 0 <= units <= np.int64(1.0 / step) else np.int64(0)


@dataclass(frozen=True, eq=False)
class LeftOutRows(Sweep):
    """For every ridge the sum of squared errors, each in units of ``cap`` and at most 1, over n_items.

    As in ``LeaveOneOut``: every user adds a point of the box [0, 1]^k, sqrt(k) under both adjacencies, and whoever's whole
    numbers lie outside adds nothing. Item factors are taken to be others': users' own are not taken out of them.
    """

    prior: NDArray[np.float64]  # per item, what is expected of it
    item_factors: NDArray[np.float64]
    offset_reg: float
    ridges: NDArray[np.float64]  # (k,): of factors
    cap: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        diagonal = math.sqrt(len(self.ridges))
        grid = Grid.for_bound(1.0, BITS)
        return (Statistic("left_out_rows", (len(self.ridges),), grid, Sensitivity(diagonal, diagonal), 1),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        known = (self.prior, np.ascontiguousarray(self.item_factors), self.offset_reg, self.ridges, self.cap)
        step = Grid.for_bound(1.0, BITS).step
        _add_of_rows(block.offsets, block.items, block.values, *known, step, sums["left_out_rows"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def _add_of_rows(offsets, items, values, prior, factors, offset_reg, ridges, cap, step, errors):
    rank = factors.shape[1]
    for u in range(len(offsets) - 1):
        lo, m = offsets[u], offsets[u + 1] - offsets[u]
        if m == 0:
            continue
        y, own = np.empty(m), np.empty((m, rank))
        for p in range(m):
            y[p] = values[lo + p] - prior[items[lo + p]]
            own[p] = factors[items[lo + p]]
        totals = own.sum(axis=0)
        gram = own.T @ own - np.outer(totals, totals) / (m + offset_reg)
        if not np.isfinite(gram).all():
            continue
        squares, axes = np.linalg.eigh(gram)
        own = (own - totals / (m + offset_reg)) @ axes
        along = own.T @ y
        level = y.sum() / (m + offset_reg)
        for k in range(len(ridges)):
            wrong = 0.0
            for p in range(m):
                fit, leverage = level, 1.0 / (m + offset_reg)
                for a in range(rank):
                    part = own[p, a] / (max(squares[a], 0.0) + ridges[k])
                    fit += part * along[a]
                    leverage += part * own[p, a]
                wrong += clipped(((y[p] - fit) / (1.0 - leverage)) ** 2 / cap, 0.0)
            errors[k] += _looked_at(to_units(wrong / len(prior), step), step)


@dataclass(frozen=True, eq=False)
class OfSome(Sweep):
    """``sweep`` over the users whose key falls into one of ``parts`` of ``of`` equal parts; the others add nothing.

    Who adds something adds what the sweep says, and its bounds hold: nothing is no further from it than it is from nothing.
    """

    sweep: Sweep
    parts: tuple[int, ...]
    of: int

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return self.sweep.statistics

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        chosen = np.isin(splitmix64(block.keys) % np.uint64(self.of), np.array(self.parts, np.uint64))
        lengths = np.diff(block.offsets)
        entries = np.repeat(chosen, lengths)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[chosen])])
        part = block._replace(
            offsets=offsets, items=block.items[entries], values=block.values[entries], keys=block.keys[chosen]
        )
        return self.sweep.run(part, local, sums)
