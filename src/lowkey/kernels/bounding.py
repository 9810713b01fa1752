"""Kernel room: how a contribution is bounded: clipped a hair inside its bound, truncated to the grid, and looked at again.

The clip takes a norm, and a norm can overflow or underflow: it serves accuracy. What the guarantee rests on is the
second look, at the whole numbers that are really added: whoever is beyond the bound there contributes nothing.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

import numpy as np
from numba import njit

from lowkey.privacy.sums import HAIR

MOST_UNITS = 2.0**62


@njit(cache=True, nogil=True, inline="always")
def shrink_factor(squared_norm, bound):
    """What to multiply a vector of this squared norm with so that its norm is at most ``bound``, a hair inside."""
    inside = bound * (1.0 - HAIR)
    if squared_norm <= inside * inside:
        return 1.0
    return inside / math.sqrt(squared_norm)


@njit(cache=True, nogil=True, inline="always")
def to_units(value, step):
    """Whole grid units, towards zero: the size of every coordinate, and so the norm, can only fall.

    What overflowed on the way (infinite, or no number at all) counts as nothing: as an integer it would be -2^63.
    """
    units = value / step
    return np.int64(math.trunc(units)) if abs(units) < MOST_UNITS else np.int64(0)


@njit(cache=True, nogil=True)
def fits(squared_units, bound, step):
    """Whether whole numbers with this sum of squares, in grid units, have norm at most ``bound``; never true by accident.

    Their squares are 0 or between 1 and 2^124: the sum neither underflows nor overflows. Its rounding error, for up to
    2^20 terms, is below half of HAIR, by which the limit is lowered; what was clipped is twice as far inside. A bound
    that is no number, or a step that underflowed, fits nothing.
    """
    most = bound / step if step > 0.0 else np.nan
    return squared_units <= most * most * (1.0 - HAIR)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def drop_beyond(units, bound, step):
    """One user's whole numbers become 0, all of them, if their norm is beyond ``bound``: the last word on every clip."""
    squared = 0.0
    for k in range(len(units)):
        whole = np.float64(units[k])
        squared += whole * whole
    if not fits(squared, bound, step):
        units[:] = 0
