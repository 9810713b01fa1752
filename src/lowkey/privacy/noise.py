"""Gate room: the only source of noise, drawn as whole grid units from a cryptographic generator.

A Gaussian of standard deviation ``scale`` grid units, rounded by floor(z + 1/2), takes the integer n with probability
Phi((n + 1/2)/scale) - Phi((n - 1/2)/scale). ``rounded_gaussian`` draws from this law by rejection from a histogram: an
alias table picks a cell, random bits pick an integer in it, and a comparison accepts; beyond 4 standard deviations the
cells are blocks under a geometric envelope. No floating-point number is ever rounded to become the noise, so there is
no low-order pattern to exploit; what remains is a relative error of each probability, bounded in ``log_ratio`` and paid
for by the plan. docs/float-safety.md carries the argument.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
import secrets
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.errors import ClosedError
from lowkey.privacy.aes import AESStream
from lowkey.privacy.laplace import (
    CELL_BITS,
    CELLS,
    SPARE,
    TAIL,
    alias_table,
    choices,
    fill_laplace,
    laplace_table,
    pick_cell,
)

MIN_SCALE = 2.0**13  # below it the expansion in _table loses digits: refine the grid instead
MAX_SCALE = 2.0**56  # above it a draw could leave the int64 range
WINDOW = 1 << 15  # words at a time, in the cache
LN2 = math.log(2.0)


def log_ratio(draws: int, mu: float) -> float:
    """How far the log-probability of ``draws`` sampled values can be from the ideal law, on either of two neighbours.

    A value t standard deviations from its centre is off by at most 2^-45.9 + t^2 2^-48.5: alias thresholds of 55 bits,
    coins of 53 bits, an exp, and the series in ``_table``. Over all draws the sum of t^2 is below 2 draws + 210 (but
    for a chance of 1e-30), and seen from a neighbour below twice that plus 2 mu^2. (The last factor: t^4 of the series.)
    """
    return (2.0 * draws + 128.0 + mu * mu * max(1.0, mu / 64.0) ** 2) * 2.0**-46


def secret_bytes(n: int) -> bytes:
    """From the operating system: names that nobody else draws, and keys that nobody guesses."""
    return secrets.randbits(8 * n).to_bytes(n, "little")


class NoiseSource:
    """Random 64-bit words. The default is AES in counter mode, keyed by the operating system: ``private`` noise.

    Nothing is kept between draws: each takes a fresh key. So whoever copies this process, by fork, in another pid
    namespace or as an image of it, copies no noise of a later post.
    """

    private = True

    def _stream(self) -> AESStream:
        return AESStream(secrets.randbits(128))

    def words(self, n: int) -> NDArray[np.uint64]:
        stream = self._stream()
        found = stream.words(n)
        stream.at += n
        return found

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise ClosedError(
            what="a noise source was to be copied or pickled",
            got="a copy, which would draw the same noise again",
            needed="one source, used once",
            try_="NoiseSource() where it is needed",
        )

    def rounded_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        """``size`` draws of a Gaussian of standard deviation ``scale``, rounded to integers."""
        if not MIN_SCALE <= scale <= MAX_SCALE:
            raise ValueError(f"the noise is {scale:g} grid units wide; it must lie in 2^13..2^56: choose another grid")
        return self._drawn(_fill, scale, _table(scale), size)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """``size`` draws with P(n) proportional to exp(-|n|/scale): exactly epsilon = sensitivity/scale on integers."""
        if not 1.0 <= scale <= MAX_SCALE:
            raise ValueError(f"the noise is {scale:g} grid units wide; it must lie in 1..2^56: choose another grid")
        return self._drawn(fill_laplace, scale, laplace_table(scale), size)

    def _drawn(self, fill: Any, scale: float, table: Any, size: int) -> NDArray[np.int64]:
        """``size`` draws: words are set aside for all of them, and made a cacheful at a time."""
        stream, out, done = self._stream(), np.empty(size, np.int64), 0
        while done < size:
            # Two words a draw, and what rejections take; where it was not enough, as many again for the draws left.
            end = stream.at + 2 * (size - done) + (size - done) // 8 + SPARE + 64
            while done < size and stream.at < end - SPARE:
                done, used = fill(out, done, stream.words(min(end - stream.at, WINDOW)), scale, table)
                stream.at += used
            stream.at = end
        return out

    def flips(self, probability: float, size: int) -> NDArray[np.bool_]:
        """Independent biased coins; the probability is rounded up to a multiple of 2^-64, towards more privacy."""
        return self.words(size) < _below(probability)


class SeededNoise(NoiseSource):
    """Reproducible noise for tests. Whatever it touches is stamped NOT PRIVATE. ``factor=0`` switches the noise off."""

    private = False

    def __init__(self, seed: int, factor: float = 1.0) -> None:
        self._own, self.factor = AESStream(seed), factor

    def _stream(self) -> AESStream:
        return self._own

    def rounded_gaussian(self, scale: float, size: int) -> NDArray[np.int64]:
        draws = super().rounded_gaussian(scale, size)
        return draws if self.factor == 1.0 else np.rint(draws * self.factor).astype(np.int64)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        draws = super().discrete_laplace(scale, size)
        return draws if self.factor == 1.0 else np.rint(draws * self.factor).astype(np.int64)


def onto(units: NDArray[np.int64], refine: int, draws: NDArray[np.int64], step: float) -> None:
    """``units`` becomes (units 2^refine + draws) step, in float64, in its own memory. int64 wraps: see sums.py."""
    _onto(units, refine, draws, step)


class _Table(NamedTuple):
    shift: int  # a cell is 2^shift integers wide: between 1/64 and 1/32 of a standard deviation
    threshold: NDArray[np.uint64]  # alias method, 55 bits
    alias: NDArray[np.int64]
    squeeze: NDArray[np.uint64]  # accept at once below this, 24 bits; 0 for the tail
    tail_start: int  # the first integer of the tail
    tail_shift: int  # a block of the tail is 2^tail_shift integers wide
    tail_stay: np.uint64  # a word below it: on to the next block of the tail


@lru_cache(maxsize=256)
def _table(scale: float) -> _Table:
    """Cell c covers n in [c h, (c+1) h). Its weight is h times f at its left edge, where f(n) = scale sqrt(2 pi) P(n)
    = exp(-t^2/2) (1 + (t^2 - 1)/(24 scale^2) + O(t^4/(1920 scale^4))), t = n/scale: the midpoint rule.

    Bucket CELLS - 1 is the tail n = N + m, m >= 0, where f(n) <= f(N) exp(-m N/scale^2). Its weight is that of the whole
    envelope, blocks of 2^tail_shift integers under a geometric law, as what the envelope rejects starts all over.
    """
    shift = math.floor(math.log2(scale)) - 5
    h = 1 << shift
    cells = min(CELLS - 1, math.ceil(TAIL * scale / h))
    t = np.arange(CELLS, dtype=np.longdouble) * np.longdouble(h) / np.longdouble(scale)
    f = np.exp(-t * t / 2) * (1 + (t * t - 1) / (24 * np.longdouble(scale) ** 2))
    tail_shift, stay = _envelope(cells * h / scale / scale)
    weight = f * h
    weight[cells:] = 0
    weight[-1] = f[cells] * (1 << tail_shift) / -np.expm1(-np.longdouble(cells * h / scale / scale) * (1 << tail_shift))
    threshold, alias = alias_table(weight / weight.sum())
    squeeze = np.zeros(CELLS, np.uint64)
    squeeze[:-1] = np.floor(np.float64(f[1:] / f[:-1]) * 2.0**24).astype(np.uint64)
    return _Table(shift, threshold, alias, squeeze, cells * h, tail_shift, stay)


def _envelope(rate: float) -> tuple[int, np.uint64]:
    """exp(-rate n) as steps over blocks of 2^shift integers, rate 2^shift in (1/2, 1]: shift, and the coin of a step."""
    shift = math.floor(-math.log2(rate))
    return shift, _below(math.exp(-math.ldexp(rate, shift)))


def _below(probability: float) -> np.uint64:
    """The number that a random word is below with this probability, rounded up."""
    return np.uint64(min(math.ceil(probability * 2.0**64), 2**64 - 1))


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
def _steps(words, at, stay):
    """How many words in a row are below ``stay``, a geometric number; and the next free word."""
    steps = 0
    while at < len(words) - 4 and words[at] < stay:
        steps += 1
        at += 1
    return steps, at + 1


@njit(cache=True, nogil=True, inline="always")
def _cell_acceptance(offset, edge, scale):
    """f(edge + offset)/f(edge)."""
    drop = offset * (2.0 * edge + offset) * (0.5 / (scale * scale))
    return math.exp(-drop) * (1.0 + drop / (12.0 * scale * scale))


@njit(cache=True, nogil=True, inline="always")
def _tail_loss(excess, offset, start, scale):
    """-ln of f(start + excess)/f(start) over the envelope, which is constant on a block; offset: excess in its block."""
    variance = scale * scale
    series = (start + 0.5 * excess) * excess / variance / (12.0 * variance)
    return (offset * start + 0.5 * excess * excess) / variance - series


@njit(cache=True, nogil=True, inline="always")
def _fill_usual(out, done, words, used, table, choice):
    """The draws of ``_fill`` that are accepted at once, up to the first that is not: a short loop, for most of them.

    The first 24 acceptance bits share a word with the position. Unsigned places need no test for negative ones.
    """
    shift, threshold, squeeze = table.shift, table.threshold, table.squeeze
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    for _ in range(min(len(out) - done, (len(words) - SPARE - used + 1) // 2)):
        at = np.uint64(used)
        word, position = words[at], words[at + np.uint64(1)]
        cell = pick_cell(word, threshold, choice)
        if position >> np.uint64(40) >= squeeze[np.uint64(cell)]:
            break
        used += 2
        negative = np.int64((word >> np.uint64(CELL_BITS)) & np.uint64(1))
        n = (cell << shift) + np.int64(position & mask)
        out[np.uint64(done)] = (n ^ -negative) + negative
        done += 1 - (negative & np.int64(n == 0))
    return done, used


@njit(cache=True, nogil=True)
def _fill(out, done, words, scale, table):
    """Fill ``out`` from position ``done`` while words last; return the new position and how many words were used."""
    used, size, last = 0, len(out), len(words) - SPARE
    shift, threshold, choice, squeeze = table.shift, table.threshold, choices(table.alias), table.squeeze
    mask = (np.uint64(1) << np.uint64(shift)) - np.uint64(1)
    tail_mask = (np.uint64(1) << np.uint64(table.tail_shift)) - np.uint64(1)
    while done < size and used < last:
        if shift <= 40:
            done, used = _fill_usual(out, done, words, used, table, choice)
            if done == size or used >= last:
                break
        word, position = words[used], words[used + 1]
        used += 2
        negative = np.int64((word >> np.uint64(CELL_BITS)) & np.uint64(1))
        cell = pick_cell(word, threshold, choice)
        if cell == CELLS - 1:
            steps, used = _steps(words, used, table.tail_stay)
            offset = np.int64(position & tail_mask)
            excess = (steps << table.tail_shift) + offset
            n = table.tail_start + excess
            # An exponential in place of a uniform: as exact where next to nothing is accepted.
            exponential, used = _exponential(words, used)
            if exponential < _tail_loss(np.float64(excess), np.float64(offset), np.float64(table.tail_start), scale):
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
                if uniform >= _cell_acceptance(np.float64(offset), np.float64(edge), scale):
                    continue
        out[done] = (n ^ -negative) + negative  # the sign, without a branch
        done += 1 - (negative & np.int64(n == 0))  # zero has one sign only: draw again
    return done, used


@njit(cache=True, nogil=True)
def _onto(units, refine, draws, step):
    for i in range(len(units)):
        units[i] = np.float64(((units[i] << refine) + draws[i]) * step).view(np.int64)
