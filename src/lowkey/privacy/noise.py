"""Gate room: the only source of noise, drawn as whole grid units from a cryptographic generator.

A Gaussian of standard deviation ``scale`` grid units, rounded by floor(z + 1/2), takes the integer n with probability
Phi((n + 1/2)/scale) - Phi((n - 1/2)/scale). ``rounded_gaussian`` draws from this law by rejection from a histogram: an
alias table picks a cell, random bits pick an integer in it, and a comparison accepts. No floating-point number is ever
rounded to become the noise, so there is no low-order pattern to exploit; what remains is a relative error of each
probability, bounded in ``log_ratio`` and paid for by the plan. docs/float-safety.md carries the argument.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from randomgen import AESCounter
from scipy.special import log_ndtr

CELLS = 256  # cells on the positive half-line; the rest is the tail, at 4 standard deviations or more
CELL_BITS = 8
MIN_SCALE = 2.0**13  # below it the expansion in _table loses digits: refine the grid instead
MAX_SCALE = 2.0**56  # above it a draw could leave the int64 range
LN2 = math.log(2.0)


def log_ratio(draws: int, mu: float) -> float:
    """How far the log-probability of ``draws`` sampled values can be from the ideal law, with overwhelming probability.

    A draw inside the histogram is off by at most 2^-48 (alias thresholds, one comparison of 53 bits, one exp); a draw
    in the tail (fewer than 1 in 10,000) by at most 2^-36. Seen from a neighbour the centre moves by at most mu standard
    deviations in all, which can push at most 4 mu^2 coordinates by half a standard deviation or more into its tail.
    """
    return draws * 2.0**-45 + (64.0 + 4.0 * mu * mu) * 2.0**-36


class NoiseSource:
    """Random 64-bit words. The default is AES in counter mode, keyed by the operating system: ``private`` noise."""

    private = True

    def __init__(self) -> None:
        self._generator = np.random.Generator(_aes(secrets.randbits(128)))

    def words(self, n: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, n, dtype=np.uint64)

    def rounded_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        """``size`` draws of a Gaussian of standard deviation ``scale``, rounded to integers."""
        if not MIN_SCALE <= scale <= MAX_SCALE:
            raise ValueError(f"the noise is {scale:g} grid units wide; it must lie in 2^13..2^56: choose another grid")
        table = _table(scale)
        out = np.empty(size, np.int64)
        done = 0
        while done < size:
            words = self.words(2 * (size - done) + (size - done) // 8 + 64)
            done = _fill(out, done, words, scale, table.shift, table.threshold, table.alias, table.squeeze)
        return out

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """``size`` draws with P(n) proportional to exp(-|n|/scale): exactly epsilon = sensitivity/scale on integers."""
        if not 1.0 <= scale <= MAX_SCALE:
            raise ValueError(f"the noise is {scale:g} grid units wide; it must lie in 1..2^56: choose another grid")
        out = np.empty(size, np.int64)
        done = 0
        while done < size:
            done = _fill_laplace(out, done, self.words(4 * (size - done) + 64), scale)
        return out

    def flips(self, probability: float, size: int) -> NDArray[np.bool_]:
        """Independent biased coins; the probability is rounded up to a multiple of 2^-64, towards more privacy."""
        return self.words(size) < np.uint64(min(math.ceil(probability * 2.0**64), 2**64 - 1))


class SeededNoise(NoiseSource):
    """Reproducible noise for tests. Whatever it touches is stamped NOT PRIVATE. ``factor=0`` switches the noise off."""

    private = False

    def __init__(self, seed: int, factor: float = 1.0) -> None:
        self._generator = np.random.Generator(_aes(seed))
        self.factor = factor

    def rounded_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        draws = super().rounded_gaussian(scale, size)
        return draws if self.factor == 1.0 else np.rint(draws * self.factor).astype(np.int64)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        draws = super().discrete_laplace(scale, size)
        return draws if self.factor == 1.0 else np.rint(draws * self.factor).astype(np.int64)


def _aes(key: int) -> np.random.BitGenerator:
    generator: Any = AESCounter(key=key)
    return generator


@dataclass(frozen=True)
class _Table:
    shift: int  # a cell is 2^shift integers wide: between 1/64 and 1/32 of a standard deviation
    threshold: NDArray[np.uint64]  # alias method, 55 bits
    alias: NDArray[np.int64]
    squeeze: NDArray[np.uint64]  # accept at once below this, 24 bits


@lru_cache(maxsize=256)
def _table(scale: float) -> _Table:
    """Cell c covers n in [c h, (c+1) h). Its weight is h times f at its left edge, where f(n) = scale sqrt(2 pi) P(n)
    = exp(-t^2/2) (1 + (t^2 - 1)/(24 scale^2) + O(t^4/(1920 scale^4))), t = n/scale: the midpoint rule, with 2^-52 left.
    Bucket CELLS - 1 is the whole tail n >= (CELLS - 1) h, with weight scale sqrt(2 pi) (1 - Phi((n - 1/2)/scale)).
    """
    shift = math.floor(math.log2(scale)) - 5
    h = 1 << shift
    t = np.arange(CELLS, dtype=np.longdouble) * np.longdouble(h) / np.longdouble(scale)
    f = np.exp(-t * t / 2) * (1 + (t * t - 1) / (24 * np.longdouble(scale) ** 2))
    weight = f * h
    tail_start = ((CELLS - 1) * h - 0.5) / scale
    weight[-1] = np.longdouble(scale) * np.sqrt(2 * np.longdouble(np.pi)) * np.exp(np.longdouble(log_ndtr(-tail_start)))
    threshold, alias = _alias(weight / weight.sum())
    squeeze = np.zeros(CELLS, np.uint64)
    squeeze[:-1] = np.floor(np.float64(f[1:] / f[:-1]) * 2.0**24).astype(np.uint64)
    return _Table(shift, threshold, alias, squeeze)


def _alias(p: NDArray[np.longdouble]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
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
def _exponential(words, at):
    """A unit exponential, exact to 2^-50 however far out: a geometric number of ln 2 plus a rest below ln 2.

    Takes words[at] for the rest and as many as it needs for the coin tosses; returns the value and the next free word.
    """
    fraction = (np.float64(words[at] >> np.uint64(11)) + 0.5) * 2.0**-53
    at += 1
    halvings = 0
    while at < len(words) - 1 and words[at] == np.uint64(2**64 - 1):
        halvings += 64
        at += 1
    word = words[at]
    while word & np.uint64(1):
        word >>= np.uint64(1)
        halvings += 1
    return halvings * LN2 - math.log1p(-0.5 * fraction), at + 1


@njit(cache=True, nogil=True)
def _low_bits(n, word, bits):
    """Replace the lowest bits, which a double cannot address at this size, by random ones."""
    return (n >> bits << bits) | np.int64(word & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1)))


@njit(cache=True, nogil=True)
def _fill(out, done, words, scale, shift, threshold, alias, squeeze):
    """Fill ``out`` from position ``done`` while words last; return the new position."""
    used, size, last = 0, len(out), len(words) - 8
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    tail_start = (CELLS - 1) * 2.0**shift - 0.5
    tail_rate = tail_start / scale
    half_inverse_variance = 0.5 / (scale * scale)
    coarse = max(0, math.floor(math.log2(scale)) - 44)
    while done < size and used < last:
        word = words[used]
        position = words[used + 1]
        used += 2
        cell = np.int64(word & np.uint64(CELLS - 1))
        negative = np.int64((word >> np.uint64(CELL_BITS)) & np.uint64(1))
        other = alias[cell]
        cell = cell if (word >> np.uint64(CELL_BITS + 1)) < threshold[cell] else other
        if cell == CELLS - 1:
            # Tail: exponential proposal at the slope of the density at its start (Marsaglia 1964).
            exponential, used = _exponential(words, used)
            excess = exponential / tail_rate
            uniform = np.float64(words[used] >> np.uint64(11)) * 2.0**-53
            n = _low_bits(np.int64(math.floor(tail_start + 0.5 + excess * scale)), words[used + 1], coarse)
            used += 2
            if uniform >= math.exp(-0.5 * excess * excess):
                continue
        else:
            # Position and first 24 acceptance bits share a word when they fit.
            if shift <= 40:
                level = position >> np.uint64(40)
            else:
                level = words[used] >> np.uint64(40)
                used += 1
            edge = cell << shift
            offset = np.int64(position & mask)
            n = edge + offset
            if level >= squeeze[cell]:
                uniform = (np.float64(level) + np.float64(words[used] >> np.uint64(11)) * 2.0**-53) * 2.0**-24
                used += 1
                drop = np.float64(offset) * (2.0 * np.float64(edge) + np.float64(offset)) * half_inverse_variance
                correction = 2.0 * drop / (24.0 * scale * scale)
                if uniform >= math.exp(-drop) * (1.0 + correction):
                    continue
        out[done] = (n ^ -negative) + negative  # the sign, without a branch
        done += 1 - (negative & np.int64(n == 0))  # zero has one sign only: draw again
    return done


@njit(cache=True, nogil=True)
def _fill_laplace(out, done, words, scale):
    """Two-sided geometric: floor(scale * exponential) is geometric with ratio exp(-1/scale)."""
    used, size, last = 0, len(out), len(words) - 8
    coarse = max(0, math.floor(math.log2(scale)) - 44)
    while done < size and used < last:
        exponential, used = _exponential(words, used)
        n = _low_bits(np.int64(math.floor(scale * exponential)), words[used], coarse)
        negative = np.int64(words[used + 1] & np.uint64(1))
        used += 2
        out[done] = (n ^ -negative) + negative  # the sign, without a branch
        done += 1 - (negative & np.int64(n == 0))  # zero has one sign only: draw again
    return done
