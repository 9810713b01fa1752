"""Kernel room: how a contribution is bounded: clipped a hair inside its bound, then truncated towards zero to the grid."""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

import numpy as np
from numba import njit

from lowkey.privacy.grid import HAIR

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
