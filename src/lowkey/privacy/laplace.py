"""Gate room: the discrete Laplace law, P(n) proportional to exp(-|n|/scale), drawn in whole grid units.

|n| = a whole number of stretches of ``tail_start`` integers, then a cell of 2^shift integers, then an integer in it. The
law has no memory, so the cell beyond the last one means: one more stretch, and all over again. An alias table picks the
cell, random bits the integer, and a comparison accepts it by its own weight, mostly without an exponential.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

CELLS = 256  # buckets of an alias table; the last one is the tail
CELL_BITS = 8
TAIL = 4.0  # scales: cells further out would be too light for thresholds of 55 bits
SPARE = 256  # words that one draw may need; it takes more with a probability below 2^-180


class LaplaceTable(NamedTuple):
    shift: int  # a cell is 2^shift integers wide: 1, or between 1/64 and 1/32 of the scale
    threshold: NDArray[np.uint64]
    alias: NDArray[np.int64]
    squeeze: np.uint64  # accept at once below this, 24 bits
    tail_start: int  # integers in a stretch


@lru_cache(maxsize=256)
def laplace_table(scale: float) -> LaplaceTable:
    """Cell c has the probability (1 - q) q^c, q = exp(-2^shift/scale), and the tail what is left."""
    shift = max(0, math.floor(math.log2(scale)) - 5)
    rate = np.longdouble(1 << shift) / np.longdouble(scale)
    cells = min(CELLS - 1, math.ceil(TAIL / rate))
    weight = np.zeros(CELLS, np.longdouble)
    weight[:cells] = -np.expm1(-rate) * np.exp(-rate * np.arange(cells, dtype=np.longdouble))
    weight[-1] = np.exp(-rate * cells)
    squeeze = np.uint64(math.floor(math.exp(-float(rate)) * 2.0**24))
    return LaplaceTable(shift, *alias_table(weight), squeeze, cells << shift)


def alias_table(p: NDArray[np.longdouble]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Vose's alias table: take bucket b if a 55-bit uniform is below threshold[b], else alias[b]."""
    scaled = p * len(p)
    threshold = np.full(len(p), 2**55, np.uint64)
    alias = np.arange(len(p), dtype=np.int64)
    small = [b for b in range(len(p)) if scaled[b] < 1]
    large = [b for b in range(len(p)) if scaled[b] >= 1]
    while small and large:
        b, rich = small.pop(), large[-1]
        threshold[b] = np.uint64(np.rint(scaled[b] * np.longdouble(2.0**55)))
        alias[b] = rich
        scaled[rich] -= 1 - scaled[b]
        if scaled[rich] < 1:
            small.append(large.pop())
    return threshold, alias


@njit(cache=True, nogil=True)
def choices(alias):
    """Of every bucket the other one, then itself: read at the place that a comparison gives, where a branch is a guess."""
    choice = np.empty(2 * CELLS, np.int64)
    for b in range(CELLS):
        choice[2 * b], choice[2 * b + 1] = alias[b], b
    return choice


@njit(cache=True, nogil=True, inline="always")
def pick_cell(word, threshold, choice):
    """The bucket that a word picks; its bit CELL_BITS is left for a sign."""
    b = word & np.uint64(CELLS - 1)
    own = (word >> np.uint64(CELL_BITS + 1)) < threshold[b]
    return choice[np.uint64(2) * b + np.uint64(own)]


@njit(cache=True, nogil=True)
def fill_laplace(out, done, words, scale, table):
    """Fill ``out`` from position ``done`` while words last; return the new position and how many words were used."""
    used, size, last = 0, len(out), len(words) - SPARE
    shift, threshold, choice, squeeze = table.shift, table.threshold, choices(table.alias), table.squeeze
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    while done < size and used < last:
        word, position = words[used], words[used + 1]
        used += 2
        negative = np.int64((word >> np.uint64(CELL_BITS)) & np.uint64(1))
        cell, begin = pick_cell(word, threshold, choice), 0
        while cell == CELLS - 1 and used < len(words) - 4:
            begin += table.tail_start
            cell = pick_cell(words[used], threshold, choice)
            used += 1
        # Position and first 24 acceptance bits share a word when they fit.
        if shift <= 40:
            level = position >> np.uint64(40)
        else:
            level = words[used] >> np.uint64(40)
            used += 1
        offset = np.int64(position & mask)
        if level >= squeeze:
            uniform = (np.float64(level) + np.float64(words[used] >> np.uint64(11)) * 2.0**-53) * 2.0**-24
            used += 1
            if uniform >= math.exp(-np.float64(offset) / scale):
                continue
        n = begin + (cell << shift) + offset
        out[done] = (n ^ -negative) + negative  # the sign, without a branch
        done += 1 - (negative & np.int64(n == 0))  # zero has one sign only: draw again
    return done, used
