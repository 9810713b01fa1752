"""Large sums are noised and hashed part by part: as a whole would be, and hashed as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import get_num_threads, set_num_threads
from scipy import stats

from lowkey.privacy.mechanisms import PART, Gaussian, Laplace, Mechanism, NoNoise, SymmetricGaussian, noised, sha256_of
from lowkey.privacy.noise import NoiseSource, SeededNoise
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape

FALSE_ALARM = 1e-9
ROWS, ORDER = 1_600, 64  # triangles of 2,080 numbers: four parts, the last of which is short


def a_sum(mechanism: Mechanism, shape: tuple[int, ...] = symmetric_shape(ORDER, ROWS)) -> Statistic:
    bound = Sensitivity.of_l1_vectors(1.0) if isinstance(mechanism, Laplace) else Sensitivity.of_acute_vectors(1.0)
    layout: Any = "symmetric" if isinstance(mechanism, SymmetricGaussian) else "dense"
    return Statistic("sum", shape, Grid(-20), bound, 1, layout)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Any:
    before = get_num_threads()
    set_num_threads(min(request.param, before))
    yield request.param
    set_num_threads(before)


@pytest.mark.parametrize("mechanism", [Gaussian(3.0), SymmetricGaussian(3.0), Laplace(3.0)], ids=lambda m: m.kind)
def test_every_part_is_noised_and_none_as_another(mechanism: Mechanism, threads: int) -> None:
    """Each row's noise has the stated width, in the memory of the sum, and the hash is that of all that is posted."""
    statistic = a_sum(mechanism)
    assert statistic.size > 3 * PART
    units = np.arange(statistic.size).reshape(statistic.shape)
    exact = units * statistic.grid.step
    noisy, sha256 = noised(mechanism, units, statistic, "add-remove", NoiseSource())
    assert np.shares_memory(noisy, units)
    assert sha256 == sha256_of(noisy)
    std = mechanism.noise_std(statistic, "add-remove")
    assert std is not None
    scaled = (noisy - exact) / std
    if isinstance(mechanism, SymmetricGaussian):
        scaled[:, [i * ORDER - i * (i - 1) // 2 for i in range(ORDER)]] /= math.sqrt(2.0)
    if not isinstance(mechanism, Laplace):
        shares = stats.chi2.sf((scaled**2).sum(axis=1), scaled.shape[1])
        assert shares.min() > FALSE_ALARM / ROWS
        assert shares.max() < 1 - FALSE_ALARM / ROWS
    assert (np.abs(scaled).mean(axis=1) > 0.5).all()
    assert len({row.tobytes() for row in noisy - exact}) == ROWS


def test_without_noise_the_sum_comes_out_as_it_is(threads: int) -> None:
    statistic = a_sum(NoNoise())
    units = np.arange(statistic.size).reshape(statistic.shape)
    expected = units * statistic.grid.step
    found, sha256 = noised(NoNoise(), units, statistic, "add-remove", NoiseSource())
    assert np.array_equal(found, expected)
    assert sha256 == sha256_of(found)


@dataclass(frozen=True)
class Watched(Gaussian):
    """A mechanism of somebody else, who may look at the whole sum."""

    def apply(self, units: Any, statistic: Statistic, adjacency: Any, noise: NoiseSource) -> Any:
        assert units.shape == statistic.shape == symmetric_shape(ORDER, ROWS)
        return super().apply(units, statistic, adjacency, noise)


def test_what_is_not_known_to_go_by_parts_goes_as_a_whole() -> None:
    """Another's mechanism; and a source that keeps something, whose draws must not depend on who comes first."""
    statistic = a_sum(Watched(3.0))
    zeros = lambda: np.zeros(statistic.shape, np.int64)
    noisy, sha256 = noised(Watched(3.0), zeros(), statistic, "add-remove", NoiseSource())
    assert sha256 == sha256_of(noisy)
    seeded = noised(Gaussian(3.0), zeros(), statistic, "add-remove", SeededNoise(1))[0]
    assert np.array_equal(seeded, Gaussian(3.0).apply(zeros(), statistic, "add-remove", SeededNoise(1)))
    triangle = a_sum(SymmetricGaussian(3.0), symmetric_shape(1_500))  # one matrix, larger than a part
    assert triangle.size > PART
    units = np.zeros(triangle.shape, np.int64)
    assert noised(SymmetricGaussian(3.0), units, triangle, "add-remove", NoiseSource())[0].shape == triangle.shape
