"""The sampler's probabilities, computed exactly from its tables and compared with the ideal law to 60 digits.

A proposal is accepted with u'(n) = (bucket's probability) * (1 / width of the cell) * (acceptance); ideally this is
proportional to f(n) = scale sqrt(2 pi) P(n). The law that is drawn is u' divided by its sum, and the logarithm of the sum's
error is an average of the others, so |ln u'/u| <= b for every n gives |ln P'/P| <= 2b, and the average is far below b.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import pickle
import secrets
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from randomgen import AESCounter

from lowkey.errors import ClosedError
from lowkey.privacy import aes, noise
from lowkey.privacy.aes import AESStream
from lowkey.privacy.laplace import CELLS, SPARE, laplace_table
from lowkey.privacy.noise import NoiseSource, SeededNoise, _cell_acceptance, _fill, _table, _tail_loss, log_ratio

SCALES = [2.0**13, 2.0**13 * 1.37, 2.0**14 - 1, 2.0**20 * 1.999, 2.0**26 * 1.9, 2.0**40 + 3.0, 2.0**50, 2.0**56]
BULK, PER_SQUARE = 2.0**-45.9, 2.0**-48.5  # what log_ratio's docstring promises: BULK + t^2 PER_SQUARE


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(60):
        yield


def implied(table: Any) -> list[Fraction]:
    """The probability of every bucket, exactly, from the alias table."""
    probability = [Fraction(0)] * CELLS
    for b in range(CELLS):
        own = Fraction(int(table.threshold[b]), 2**55)
        probability[b] += own / CELLS
        probability[int(table.alias[b])] += (1 - own) / CELLS
    return probability


def ideal(n: int, scale: float) -> mp.mpf:
    """f(n) = scale sqrt(2 pi) (Phi((n + 1/2)/scale) - Phi((n - 1/2)/scale)), with digits to spare for the difference."""
    unit = mp.mpf(scale) * mp.sqrt(2)
    return unit * mp.sqrt(mp.pi) / 2 * (mp.erfc((n - mp.mpf(0.5)) / unit) - mp.erfc((n + mp.mpf(0.5)) / unit))


def weights(table: noise._Table, scale: float) -> list[mp.mpf]:
    """The buckets' ideal weights: a cell's width times f at its left edge, and the tail's envelope."""
    width, first_of_tail = 1 << table.shift, table.tail_start >> table.shift
    found = [ideal(c * width, scale) * width if c < first_of_tail else mp.mpf(0) for c in range(CELLS)]
    block = 1 << table.tail_shift
    found[-1] = ideal(table.tail_start, scale) * block / -mp.expm1(-mp.mpf(table.tail_start) * block / mp.mpf(scale) ** 2)
    return found


@pytest.mark.parametrize("scale", SCALES)
def test_every_integer_has_its_probability(scale: float) -> None:
    table = _table(scale)
    probability = implied(table)
    target = weights(table, scale)
    total = mp.fsum(target)
    assert [p > 0 for p in probability] == [w > 0 for w in target]
    assert sum(probability) == 1
    rng = np.random.default_rng(3)
    first_of_tail = table.tail_start >> table.shift
    assert 3.98 <= table.tail_start / scale <= 4.05

    def compare(n: int, proposed: Fraction, acceptance: mp.mpf) -> None:
        error = mp.log(mp.mpf(proposed.numerator) / proposed.denominator * acceptance * total / ideal(n, scale))
        t = n / scale
        assert abs(error) <= (BULK + t * t * PER_SQUARE) / 2, (n, t, float(error))

    for cell in range(first_of_tail):
        width = 1 << table.shift
        for offset in {0, width - 1, int(rng.integers(width))}:
            accept = _cell_acceptance.py_func(float(offset), float(cell * width), scale)
            compare(cell * width + offset, probability[cell] / width, mp.mpf(accept))

    stay = Fraction(int(table.tail_stay), 2**64)
    block = 1 << table.tail_shift
    farthest = int(60 * scale) - table.tail_start
    for excess in {0, 1, block - 1, block, 5 * block + 7, 20 * block + block // 3, farthest, int(rng.integers(farthest))}:
        steps, offset = divmod(excess, block)
        loss = _tail_loss.py_func(float(excess), float(offset), float(table.tail_start), scale)
        assert loss >= 0.0  # the envelope is one
        compare(table.tail_start + excess, probability[-1] * (1 - stay) * stay**steps / block, mp.exp(-mp.mpf(loss)))


@pytest.mark.parametrize("scale", SCALES)
def test_a_cell_accepted_at_once_would_be_accepted_anyway(scale: float) -> None:
    """The squeeze is below the smallest acceptance of its cell, which is at its right end."""
    table = _table(scale)
    width = 1 << table.shift
    for cell in range(0, table.tail_start >> table.shift, 5):
        right_end = ideal((cell + 1) * width - 1, scale) / ideal(cell * width, scale)
        assert int(table.squeeze[cell]) <= right_end * 2**24


@pytest.mark.parametrize("scale", [1.0, 1.5, 3.7, 2.0**13 * 1.3, 2.0**40 + 3.0, 2.0**56])
def test_laplace_is_geometric_for_every_integer(scale: float) -> None:
    """P'(n) = C stretch^k cell_c exp(-offset/scale): the error between any two integers is bounded whatever they are."""
    table = laplace_table(scale)
    width, cells = 1 << table.shift, table.tail_start >> table.shift
    assert cells * width >= 4.0 * scale
    assert table.shift == 0 or 1 / 64 < width / scale <= 1 / 32
    found, rate = implied(table), width / mp.mpf(scale)
    for c in [*range(cells), CELLS - 1]:
        ideal = mp.exp(-rate * cells) if c == CELLS - 1 else -mp.expm1(-rate) * mp.exp(-rate * c)
        assert abs(mp.log(mp.mpf(found[c].numerator) / found[c].denominator / ideal)) <= 2.0**-49
    assert sum(found[cells:-1]) == 0
    for offset in {0, width // 3, width - 1}:
        accepted = mp.mpf(math.ceil(math.exp(-offset / scale) * 2.0**77)) / mp.mpf(2) ** 77
        assert abs(mp.log(accepted) + offset / mp.mpf(scale)) <= 2.0**-51
        assert int(table.squeeze) <= accepted * 2**24  # at once only where it would be accepted anyway


def test_the_price_of_the_resolution_covers_the_derivation() -> None:
    """log_ratio against the sum that it abbreviates, at the corners: few and many draws, small and large mu."""
    for draws in (1, 10**3, 10**8, 10**12):
        for mu in (0.0, 0.1, 5.0, 60.0):
            own_squares = draws + 2 * math.sqrt(70 * draws) + 140  # Laurent and Massart 2000, Lemma 1, at e^-70 < 1e-30
            neighbour_squares = 2 * own_squares + 2 * mu * mu
            assert draws * BULK + PER_SQUARE * max(own_squares, neighbour_squares) <= log_ratio(draws, mu)


def test_coins_are_rounded_towards_more_flips() -> None:
    source = SeededNoise(1)
    source.words = lambda n: np.array([0, 2**62 - 1, 2**62, 2**63, 2**64 - 1], np.uint64)[:n]  # type: ignore[method-assign]
    assert source.flips(0.25, 5).tolist() == [True, True, False, False, False]
    assert source.flips(0.25 + 2.0**-54, 5).tolist() == [True, True, True, False, False]


@pytest.mark.parametrize("scale", [2.0**12, 2.0**57, math.nan, math.inf, 0.0, -(2.0**20)])
def test_scales_outside_the_proven_range_are_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="choose another grid"):
        NoiseSource().rounded_gaussian(scale, 3)


@pytest.mark.parametrize("instructions", [True, False])
def test_words_are_those_of_the_library_from_any_place_on(instructions: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not instructions:
        monkeypatch.setattr(aes, "has_aes_instructions", lambda: False)
    key = secrets.randbits(128)
    library: Any = AESCounter(key=key)
    words = library.random_raw(20_000)
    stream = AESStream(key)
    for at, n in ((0, 1), (1, 1), (1, 16), (2, 33), (7, 5000), (15, 16), (16_383, 3_617)):
        stream.at = at
        assert np.array_equal(stream.words(n), words[at : at + n])


def test_draws_do_not_depend_on_how_many_words_are_made_at_a_time() -> None:
    """As one call on all words, those of the library; what is drawn next begins behind all that were set aside."""
    source, scale, size, at = SeededNoise(5), 2.0**13 * 1.37, 40_000, 0
    library: Any = AESCounter(key=5)
    words = library.random_raw(3 * 2 * size)
    for _ in range(2):
        expected = np.empty(size, np.int64)
        set_aside = 2 * size + size // 8 + SPARE + 64
        assert _fill(expected, 0, words[at : at + set_aside], scale, _table(scale))[0] == size
        assert np.array_equal(source.rounded_gaussian(scale, size), expected)
        at += set_aside


def test_sources_are_independent_and_only_the_test_source_repeats() -> None:
    assert not np.array_equal(NoiseSource().words(8), NoiseSource().words(8))
    assert np.array_equal(SeededNoise(3).words(8), SeededNoise(3).words(8))
    assert NoiseSource.private
    assert not SeededNoise(3).private
    assert not SeededNoise(3, factor=0.0).rounded_gaussian(2.0**20, 100).any()


def test_a_source_is_never_doubled() -> None:
    """A copy would draw the same noise twice; the difference of two posts would then be exact."""
    source = NoiseSource()
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ClosedError, match="same noise again"):
            double(source)


def _words_of(source: NoiseSource, pipe: object) -> None:
    pipe.send((os.getpid(), source.words(4).tolist()))  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_draws_its_own_noise() -> None:
    source = NoiseSource()
    source.words(4)
    context = multiprocessing.get_context("fork")
    seen = []
    for _ in range(2):
        here, there = context.Pipe()
        child = context.Process(target=_words_of, args=(source, there))
        child.start()
        seen.append(here.recv()[1])
        child.join()
    seen.append(source.words(4).tolist())
    assert len({tuple(words) for words in seen}) == 3
