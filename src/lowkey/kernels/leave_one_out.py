"""Kernel room: how well item effects and offsets predict ratings that they have not seen; for the baseline ``Bias``.

Paper: ours. Leaving out one rating needs no second fit: an item's total and a user's sum are sums over ratings.
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
        _add_errors(block.offsets, block.items, block.values, *known, Grid.for_bound(1.0, BITS).step, sums["left_out"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def _add_errors(offsets, items, values, center, totals, counts, prior, offset_reg, ridges, cap, step, errors):
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
            units = to_units(wrong / len(totals), step)
            if 0 <= units <= np.int64(1.0 / step):
                errors[k] += units
