"""Kernel room: what Frank-Wolfe has posted so far, walked through again on a user's own row; training and serving share it.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 lines 13-23 (local update). Deviates: as in ``kernels.frank_wolfe``.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.kernels.bounding import shrink_factor
from lowkey.kernels.threads import over_rows
from lowkey.kernels.user_solve import ridge_of_each


class Walk(NamedTuple):
    """What was posted so far, and how users move along it: refit with a ridge for each direction, or step by step."""

    directions: NDArray[np.float64]  # (rounds, n_items)
    ridge: NDArray[np.float64] | None = None
    gains: NDArray[np.float64] | None = None
    decays: NDArray[np.float64] | None = None

    @classmethod
    def nowhere(cls, n_items: int) -> Walk:
        """Before anything is posted: the residual is the row (with its sign changed)."""
        return cls(np.zeros((0, n_items)), None, np.zeros(0), np.zeros(0))


def local_rows(
    offsets: NDArray[np.int64], items: NDArray[np.int32], targets: NDArray[np.float64], row_norm: float, walk: Walk
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Every user's row after all posted rounds: its coefficients on the directions, and itself on the user's entries.

    Training and serving both come here. With a ``ridge`` for each direction the user refits all coefficients by a ridge
    regression (fully corrective Frank-Wolfe, Jaggi 2013 Algorithm 4, with a penalty for the constraint); without, the
    user repeats the steps one by one.
    """
    return over_rows(_rows_of_each, offsets, items, targets, row_norm, walk)


def _rows_of_each(offsets, items, targets, row_norm, walk):
    if walk.ridge is None:
        return _replay(offsets, items, targets, row_norm, walk.directions, walk.gains, walk.decays)
    design = np.ascontiguousarray(walk.directions.T)
    coefficients = ridge_of_each(offsets, items, targets, design, np.diag(walk.ridge))
    return coefficients, _predictions(offsets, items, design, coefficients)


def centered_rows(offsets, items, values, center, offset_reg, row_norm):
    """The users' centred rows, of norm at most ``row_norm``; and per user the offset and the factor that shrank the row."""
    return over_rows(_centered_of_each, offsets, items, values, center, offset_reg, row_norm)


@njit(cache=True, error_model="numpy", nogil=True)
def _centered_of_each(offsets, items, values, center, offset_reg, row_norm):
    n_users = len(offsets) - 1
    targets, own = np.empty(len(items)), np.zeros((n_users, 2))
    for u in range(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        own[u, 1] = 1.0
        if hi > lo:
            offset = 0.0
            for p in range(lo, hi):
                offset += values[p] - center
            offset /= hi - lo + offset_reg
            squared_norm = 0.0
            for p in range(lo, hi):
                targets[p] = values[p] - center - offset
                squared_norm += targets[p] * targets[p]
            shrink = shrink_factor(squared_norm, row_norm)
            for p in range(lo, hi):
                targets[p] *= shrink
            own[u, 0] = offset
            own[u, 1] = shrink
    return targets, own


@njit(cache=True, error_model="numpy", nogil=True)
def _replay(offsets, items, targets, row_norm, directions, gains, decays):
    """Walk every user through all rounds: Y <- decay Y - gain (A . v) v, then Y onto the ball of ``row_norm``."""
    n_users, rounds = len(offsets) - 1, len(gains)
    coefficients, predictions = np.zeros((n_users, rounds)), np.zeros(len(items))
    for u in range(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        for t in range(rounds):
            direction = directions[t]
            along = 0.0
            for p in range(lo, hi):
                along += (predictions[p] - targets[p]) * direction[items[p]]
            stride = -gains[t] * along
            squared_norm = 0.0
            for p in range(lo, hi):
                predictions[p] = decays[t] * predictions[p] + stride * direction[items[p]]
                squared_norm += predictions[p] * predictions[p]
            shrink = shrink_factor(squared_norm, row_norm)
            if shrink < 1.0:
                for p in range(lo, hi):
                    predictions[p] *= shrink
            for s in range(t):
                coefficients[u, s] *= decays[t] * shrink
            coefficients[u, t] = stride * shrink
    return coefficients, predictions


@njit(cache=True, error_model="numpy", nogil=True)
def _predictions(offsets, items, design, coefficients):
    predictions = np.empty(len(items))
    for u in range(len(offsets) - 1):
        for p in range(offsets[u], offsets[u + 1]):
            total = 0.0
            for t in range(design.shape[1]):
                total += design[items[p], t] * coefficients[u, t]
            predictions[p] = total
    return predictions
