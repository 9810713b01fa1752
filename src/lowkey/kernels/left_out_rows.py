"""Kernel room: how well users' own fits on given factors predict ratings that they have not seen; for the baseline ``ALS``.

Paper: ours. The rating left out of a ridge regression needs no second fit: its error is that of the whole fit over 1 - h,
h its leverage. With an offset of ridge c beside the factors, the fit on m ratings is S/(m + c) + Z (D + reg)^-1 Z^T y:
Z D Z^T are factors less their own damped mean, turned to their own axes, so that every ridge has the same axes.
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
from lowkey.kernels.leave_one_out import BITS
from lowkey.kernels.level import clipped
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic


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
        _add_errors(block.offsets, block.items, block.values, *known, step, sums["left_out_rows"])
        return None


@njit(cache=True, error_model="numpy", nogil=True)
def _add_errors(offsets, items, values, prior, factors, offset_reg, ridges, cap, step, errors):
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
            units = to_units(wrong / len(prior), step)
            if 0 <= units <= np.int64(1.0 / step):
                errors[k] += units
