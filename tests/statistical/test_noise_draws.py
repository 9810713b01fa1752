"""The compiled sampler draws from the laws that test_noise_exact.py proves for its tables.

Each p-value is refused below FALSE_ALARM, so a right sampler fails any one of them with a chance of 1e-9. The streams
are seeded: a run that passes passes again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lowkey.privacy.laplace import CELLS, SPARE, alias_table
from lowkey.privacy.noise import SeededNoise, _fill, _table

FALSE_ALARM = 1e-9
SCALES = [2.0**13, 2.0**13 * 1.37, 2.0**20 * 1.999, 2.0**34 * 1.3, 2.0**50, 2.0**55 * 1.7]
DRAWS = 1_000_000


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    assert expected.min() > 20
    return float(stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1))


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian(scale: float) -> None:
    draws = SeededNoise(17).rounded_gaussian(scale, DRAWS)
    # Bins that cut through cells, with edges at half-integers as the rounding has them.
    edges = np.floor(np.linspace(-3.2, 3.2, 400) * scale) + 0.5
    chance = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges / scale, [np.inf]])))
    counts = np.bincount(np.searchsorted(edges, draws), minlength=401)
    assert chi_square(counts, DRAWS * chance) > FALSE_ALARM
    assert stats.kstest(draws / scale, "norm").pvalue > FALSE_ALARM  # its steps of 1/scale are below 1.3e-4 each
    # Mean and variance, by the central limit theorem.
    assert 2 * stats.norm.sf(abs(np.mean(draws / scale)) * math.sqrt(DRAWS)) > FALSE_ALARM
    assert 2 * stats.norm.sf(abs(np.mean((draws / scale) ** 2) - 1.0) * math.sqrt(DRAWS / 2)) > FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES)
def test_low_bits_and_neighbours_in_the_stream_are_independent(scale: float) -> None:
    draws = SeededNoise(18).rounded_gaussian(scale, DRAWS)
    assert chi_square(np.bincount(draws & 255, minlength=256), np.full(256, DRAWS / 256)) > FALSE_ALARM
    for lag in (1, 2, 7):
        together = float(np.mean(draws[lag:] / scale * (draws[:-lag] / scale))) * math.sqrt(DRAWS - lag)
        assert 2 * stats.norm.sf(abs(together)) > FALSE_ALARM
    assert stats.binomtest(int(np.sum(draws > 0)), int(np.sum(draws != 0))).pvalue > FALSE_ALARM


def draws_from(table: Any, scale: float, size: int) -> np.ndarray:
    draws, done, source = np.empty(size, np.int64), 0, SeededNoise(20)
    while done < size:
        done, _ = _fill(draws, done, source.words(1_000_000 + SPARE), scale, table)
    return draws


@pytest.mark.parametrize("scale", SCALES)
def test_the_weight_of_the_tail(scale: float) -> None:
    """The table cut down to its last ten cells and the tail: the tail's share is that of a Gaussian out there."""
    table, size = _table(scale), 300_000
    cells = table.tail_start >> table.shift
    own = table.threshold.astype(np.longdouble) / 2.0**55
    weight = own.copy()
    np.add.at(weight, table.alias, 1 - own)
    weight[: cells - 10] = 0
    threshold, alias = alias_table(weight / weight.sum())
    draws = np.abs(draws_from(table._replace(threshold=threshold, alias=alias), scale, size))
    assert draws.min() >= (cells - 10) << table.shift
    tail, all_ = (stats.norm.sf((n - 0.5) / scale) for n in (table.tail_start, (cells - 10) << table.shift))
    assert stats.binomtest(int(np.sum(draws >= table.tail_start)), size, tail / all_).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", SCALES)
def test_the_law_within_the_tail(scale: float) -> None:
    """With a table that always picks the tail: what lies beyond 4 standard deviations has the right shape."""
    table = _table(scale)
    always = table._replace(threshold=np.zeros(CELLS, np.uint64), alias=np.full(CELLS, CELLS - 1))
    size = np.abs(draws_from(always, scale, 200_000))
    assert size.min() >= table.tail_start
    start = (table.tail_start - 0.5) / scale
    edges = np.floor(stats.norm.isf(stats.norm.sf(start) * np.linspace(0.999, 0.001, 200)) * scale) + 0.5
    beyond = stats.norm.sf(np.concatenate([[start], edges / scale, [np.inf]])) / stats.norm.sf(start)
    counts = np.bincount(np.searchsorted(edges, size), minlength=201)
    assert chi_square(counts, len(size) * -np.diff(beyond)) > FALSE_ALARM
    if scale > 2.0**20:  # at the smallest scales 64 integers in a row are not alike
        assert chi_square(np.bincount(size & 63, minlength=64), np.full(64, len(size) / 64)) > FALSE_ALARM


@pytest.mark.parametrize("scale", [1.0, 1.5, 3.7, 2.0**13 * 1.3, 2.0**34 * 1.9, 2.0**56])
def test_laplace(scale: float) -> None:
    draws = SeededNoise(21).discrete_laplace(scale, DRAWS)
    if scale < 100.0:
        values = np.arange(-int(8 * scale), int(8 * scale) + 1)
        chance = np.exp(-np.abs(values) / scale) * math.tanh(0.5 / scale)
        counts = np.bincount(np.clip(draws - values[0] + 1, 0, len(values) + 1), minlength=len(values) + 2)
        ends = (1.0 - chance.sum()) / 2.0
        assert chi_square(counts, DRAWS * np.concatenate([[ends], chance, [ends]])) > FALSE_ALARM
    else:
        # |n| >= k with chance q^k 2/(1 + q), which is exp(-k/scale) up to 1/scale.
        assert stats.kstest(np.abs(draws) / scale, "expon").pvalue > FALSE_ALARM
        assert stats.binomtest(int(np.sum(draws > 0)), int(np.sum(draws != 0))).pvalue > FALSE_ALARM
        assert chi_square(np.bincount(draws & 255, minlength=256), np.full(256, DRAWS / 256)) > FALSE_ALARM
    assert 2 * stats.norm.sf(abs(np.mean(draws / scale)) / math.sqrt(2.0 / DRAWS)) > FALSE_ALARM


@pytest.mark.parametrize("probability", [0.5, 1 / 3, 0.119, 1e-3])
def test_coins(probability: float) -> None:
    flips = SeededNoise(22).flips(probability, DRAWS)
    assert stats.binomtest(int(flips.sum()), DRAWS, probability).pvalue > FALSE_ALARM
    pairs = int(np.sum(flips[1:] & flips[:-1])), int(flips[:-1].sum())
    assert stats.binomtest(*pairs, probability).pvalue > FALSE_ALARM
