"""Gate room: the public dyadic grid on which every private sum is an exact integer.

A contribution vector is clipped a hair inside its bound and truncated towards zero to multiples of ``step``; its norm can
only fall. Sums of such vectors, and of products x x^T formed from them, are whole numbers of grid units, so they are
exact: the same bits in any order, for any number of threads or partitions. Totals are int64 and wrap silently, which
is still S + Z seen modulo 2^64: a total too large for the grid costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# Relative slack between a clip and the bound it serves: rounding in a norm of up to 2^20 terms stays below it.
HAIR = 2.0**-30


@dataclass(frozen=True)
class Grid:
    """Multiples of 2^exponent."""

    exponent: int

    @classmethod
    def for_bound(cls, bound: float, bits: int) -> Grid:
        """The grid on which a number of size ``bound`` takes at most 2^bits units."""
        return cls(math.ceil(math.log2(bound)) - bits)

    @property
    def step(self) -> float:
        return math.ldexp(1.0, self.exponent)

    @property
    def squared(self) -> Grid:
        """The grid of products of two numbers on this grid."""
        return Grid(2 * self.exponent)

    def units(self, bound: float) -> int:
        """The largest number of units that a value of at most ``bound`` can take."""
        return math.floor(math.ldexp(bound, -self.exponent))
