"""Mechanisms: the noise that is drawn is the noise that is priced, on the grid, in place, and whatever the sum."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lowkey.privacy.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    NoNoise,
    SymmetricGaussian,
    ThresholdedGaussian,
)
from lowkey.privacy.noise import MIN_SCALE, NoiseSource, SeededNoise
from lowkey.privacy.plan import KINDS, mechanism_from_json
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.privacy.repeat_and_select import RepeatAndSelect
from lowkey.privacy.sums import HAIR, Grid, Sensitivity, Statistic, symmetric_shape

FALSE_ALARM = 1e-9
ALL = [
    Gaussian(2.5),
    SymmetricGaussian(1.5),
    Laplace(0.7),
    RandomizedResponse(1.2),
    ThresholdedGaussian(2.0, 9.0, 5),
    RepeatAndSelect(0.5, 5.0, 1e-6),
    NoNoise(),
]


class GivenNoise(NoiseSource):
    """Draws what it is told, and remembers the scales that were asked for."""

    def __init__(self, *draws: int) -> None:
        super().__init__()
        self.draws, self.scales = draws, list[float]()

    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        self.scales.append(scale)
        return np.resize(np.array(self.draws, np.int64), size)

    discrete_laplace = rounded_gaussian


def dense(size: int = 6, exponent: int = -20, bound: float = 3.0, norm: str = "l2") -> Statistic:
    return Statistic("sum", (size,), Grid(exponent), Sensitivity(bound, 2.0 * bound, norm), 1)  # type: ignore[arg-type]


def symmetric(order: int, *stack: int) -> Statistic:
    bound = Sensitivity.of_acute_vectors(3.0)
    return Statistic("gram", symmetric_shape(order, *stack), Grid(-20), bound, 1, "symmetric")


def test_prices() -> None:
    assert (Gaussian(2.5).mu, Gaussian(2.5).epsilon) == (0.4, 0.0)
    assert (Laplace(0.8).mu, Laplace(0.8).epsilon) == (0.0, 1.25)
    assert RandomizedResponse(1.2).epsilon == 1.2
    assert RandomizedResponse(0.3, signs=5).epsilon == 1.5
    # One of 5 keys passes: the chance for the worst number m of keys, each with count 1/sqrt(m).
    worst = max(1.0 - stats.norm.cdf((9.0 - m**-0.5) / 2.0) ** m for m in range(1, 6))
    assert ThresholdedGaussian(2.0, 9.0, 5).own_delta == pytest.approx(worst, rel=1e-9)
    wider = max(1.0 - stats.norm.cdf((9.0 - m**-0.5) / (2.0 * math.sqrt(2.0))) ** m for m in range(1, 6))
    assert ThresholdedGaussian(2.0, 9.0, 5, "replace-one").own_delta == pytest.approx(2.0 * wider, rel=1e-9)
    assert NoNoise().mu == math.inf


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: m.kind)
def test_json_round_trip(mechanism: Mechanism) -> None:
    assert mechanism_from_json(mechanism.to_json()) == mechanism
    assert set(KINDS) == {m.kind for m in ALL}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("grid", [-40, -20, 0, 5], ids="grid 2^{}".format)
def test_gaussian_noise_has_the_width_of_its_price(adjacency: str, grid: int) -> None:
    """At fine and at far too coarse grids. False alarm 1e-9 each."""
    statistic, size = dense(20_000, grid), 20_000
    noisy = Gaussian(2.5).apply(np.full(size, 7), statistic, adjacency, SeededNoise(1))  # type: ignore[arg-type]
    wanted = statistic.sensitivity.under(adjacency) / 0.4  # sensitivity / mu  # type: ignore[arg-type]
    chi_square = np.sum(((noisy - 7 * statistic.grid.step) / wanted) ** 2)
    assert FALSE_ALARM < stats.chi2.sf(chi_square, size) < 1 - FALSE_ALARM


@pytest.mark.parametrize("grid", [-40, -20, 0, 5], ids="grid 2^{}".format)
def test_laplace_noise_has_the_width_of_its_price(grid: int) -> None:
    statistic, size = dense(20_000, grid, norm="l1"), 20_000
    noisy = Laplace(0.7).apply(np.full(size, -5), statistic, "replace-one", SeededNoise(2))
    wanted = 6.0 * 0.7
    doubled = 2.0 * np.sum(np.abs(noisy + 5 * statistic.grid.step) / wanted)
    assert FALSE_ALARM < stats.chi2.sf(doubled, 2 * size) < 1 - FALSE_ALARM


def test_symmetric_noise_is_wider_on_the_diagonal() -> None:
    """s^2 = (multiplier * sensitivity)^2 on the diagonal, half of it off. False alarm 1e-9 for each of 10 entries."""
    statistic = symmetric(4, 20_000)
    noisy = SymmetricGaussian(1.5).apply(np.zeros(statistic.shape, np.int64), statistic, "replace-one", SeededNoise(3))
    s = 1.5 * math.sqrt(2.0) * 3.0
    for column, (i, j) in enumerate(zip(*np.triu_indices(4), strict=True)):
        wanted = s if i == j else s / math.sqrt(2.0)
        chi_square = np.sum((noisy[:, column] / wanted) ** 2)
        assert FALSE_ALARM < stats.chi2.sf(chi_square, 20_000) < 1 - FALSE_ALARM, (i, j)
    # Every entry has a noise of its own: 45 pairs, correlations of standard deviation 1/sqrt(20,000).
    correlations = np.corrcoef(noisy.T)[np.triu_indices(10, 1)]
    assert np.max(np.abs(correlations)) * math.sqrt(20_000) < stats.norm.isf(FALSE_ALARM)


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_symmetric_price_is_the_frobenius_norm(order: int, seed: int) -> None:
    """mu of any symmetric change D, from the variances themselves, equals |D|_F / (multiplier * sensitivity)."""
    rng = np.random.default_rng(seed)
    change = rng.normal(size=(order, order)) * np.exp(rng.normal(size=order))
    change = change + change.T
    mechanism, statistic = SymmetricGaussian(1.5), symmetric(order)
    noise = GivenNoise(1)
    mechanism.apply(np.zeros(statistic.shape, np.int64), statistic, "add-remove", noise)
    off, on = (scale * statistic.grid.step for scale in noise.scales)
    i, j = np.triu_indices(order)
    price = math.sqrt(np.sum((change[i, j] / np.where(i == j, on, off)) ** 2))
    assert price == pytest.approx(np.linalg.norm(change) / 3.0 * mechanism.mu, rel=1e-12)


def test_symmetric_noise_is_where_the_diagonal_is() -> None:
    statistic = symmetric(5, 2)
    mechanism = SymmetricGaussian(1.5)

    class TwoNoises(GivenNoise):
        def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
            self.scales.append(scale)
            return np.full(size, len(self.scales))  # 1s off the diagonal, then 2s on it

    noisy = mechanism.apply(np.zeros(statistic.shape, np.int64), statistic, "add-remove", TwoNoises())
    units = noisy / statistic.grid.step
    for stack in units:
        full = np.zeros((5, 5))
        full[np.triu_indices(5)] = stack
        assert np.array_equal(np.diag(full), np.full(5, 2.0))
        assert np.array_equal(full[np.triu_indices(5, 1)], np.ones(10))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8), st.integers(-(2**60), 2**60))
def test_sums_wrap_and_never_fail(units: list[int], draw: int) -> None:
    """S + Z modulo 2^64, whatever S is: no overflow error and no saturation could tell one sum from another."""
    statistic = dense(len(units))
    noisy = Gaussian(2.5).apply(np.array(units, np.int64), statistic, "add-remove", GivenNoise(draw))
    expected = [((u + draw + 2**63) % 2**64 - 2**63) * statistic.grid.step for u in units]
    assert noisy.tolist() == [float(e) for e in expected]


@given(st.integers(-(2**40), 2**40), st.integers(-(2**50), 2**50), st.integers(-3, 30))
def test_a_coarse_grid_is_refined_exactly(units: int, draw: int, exponent: int) -> None:
    """On the finer grid the sum is the same number, and the noise is drawn at a scale that the sampler is proven for."""
    statistic, noise = dense(1, exponent, bound=0.1), GivenNoise(draw)
    noisy = Gaussian(2.5).apply(np.array([units]), statistic, "add-remove", noise)
    step = 0.25 / noise.scales[0]  # noise in real units over noise in grid units
    assert noise.scales[0] >= MIN_SCALE * (1 - 1e-12)
    assert math.log2(step) == pytest.approx(round(math.log2(step)), abs=1e-9)
    fine = 2.0 ** round(math.log2(step))
    shifted = (units * round(statistic.grid.step / fine) + draw + 2**63) % 2**64 - 2**63
    assert noisy[0] == float(shifted) * fine


def test_the_noisy_sum_takes_the_place_of_the_raw_one() -> None:
    """Nothing of the raw sum stays in memory, over several chunks and for stacked triangles."""
    for statistic, mechanism in (
        (dense(200_001), Gaussian(2.5)),
        (symmetric(40, 100), SymmetricGaussian(2.5)),
        (dense(70_000, norm="l1"), Laplace(2.0)),
    ):
        units = np.full(statistic.shape, 123_456_789)
        raw = units.copy()
        noisy = mechanism.apply(units, statistic, "add-remove", SeededNoise(6))
        assert np.shares_memory(noisy, units)
        assert np.count_nonzero(units == raw) == 0
        assert np.count_nonzero(noisy == raw * statistic.grid.step) < 5  # by chance only


def test_chunks_do_not_repeat() -> None:
    noisy = Gaussian(2.5).apply(np.zeros(300_000, np.int64), dense(300_000), "add-remove", SeededNoise(7))
    halves = noisy[: 1 << 16], noisy[1 << 16 : 1 << 17]
    assert abs(np.corrcoef(*halves)[0, 1]) * 256 < stats.norm.isf(FALSE_ALARM)


def test_noise_for_the_wrong_norm_or_layout_is_refused() -> None:
    units = np.zeros(6, np.int64)
    for mechanism, statistic in (
        (Gaussian(1.0), dense(norm="l1")),
        (Laplace(1.0), dense(norm="l2")),
        (SymmetricGaussian(1.0), dense()),
        (RandomizedResponse(1.0), dense()),
    ):
        with pytest.raises(TypeError):
            mechanism.apply(units, statistic, "add-remove", SeededNoise(1))


def test_randomized_response_flips_with_its_probability() -> None:
    """False alarm 1e-9. ln((1 - p)/p) is the price of a sign."""
    mechanism, signs = RandomizedResponse(1.2), np.tile([1, -1], 50_000)
    statistic = Statistic("signs", (100_000,), Grid(0), Sensitivity(2.0, 2.0, "l1"), 1)
    answers = mechanism.apply(signs, statistic, "replace-one", SeededNoise(8))
    flipped = int(np.sum(answers != signs))
    assert stats.binomtest(flipped, 100_000, mechanism.flip_probability).pvalue > FALSE_ALARM
    p = mechanism.flip_probability
    assert math.log((1 - p) / p) == pytest.approx(1.2, rel=1e-14)


def test_the_threshold_hides_small_counts() -> None:
    statistic = replace(dense(4, exponent=-20), sensitivity=Sensitivity.of_acute_vectors(1.0), max_keys=5)
    units = (np.array([8.9, 9.1, 0.0, 50.0]) * 2**20).astype(np.int64)
    mechanism = ThresholdedGaussian(2.0, 9.0, 5)
    noisy = mechanism.apply(units, statistic, "add-remove", GivenNoise(0))
    assert np.isnan(noisy).tolist() == [True, False, True, False]
    with pytest.raises(TypeError, match="priced for"):
        mechanism.apply(units, statistic, "replace-one", GivenNoise(0))
    for cap in (4, 6, None):  # a histogram whose kernel let one person add to another number of keys
        with pytest.raises(TypeError, match="cap on a person's keys"):
            mechanism.apply(units, replace(statistic, max_keys=cap), "add-remove", GivenNoise(0))
    with pytest.raises(TypeError, match="non-negative"):
        mechanism.apply(units, dense(4), "add-remove", GivenNoise(0))


@given(st.floats(1e-6, 1e6), st.integers(8, 40), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_bounding_never_lengthens(bound: float, bits: int, vector: list[float]) -> None:
    """shrink_factor and to_units, as every kernel uses them: the grid vector's exact norm is within the bound."""
    from lowkey.kernels.bounding import shrink_factor, to_units

    grid = Grid.for_bound(bound, bits)
    factor = shrink_factor.py_func(sum(x * x for x in vector), bound)
    units = [int(to_units.py_func(factor * x, grid.step)) for x in vector]
    assert sum(mp.mpf(u) ** 2 for u in units) * mp.mpf(grid.step) ** 2 <= mp.mpf(bound) ** 2
    assert max(map(abs, units)) <= grid.units(bound)
    assert 1e-10 < HAIR < 1e-9


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300, -1e300])
def test_what_overflowed_counts_as_nothing(value: float) -> None:
    """As an integer, not-a-number would be -2^63: a contribution without any bound."""
    from lowkey.kernels.bounding import shrink_factor, to_units

    assert to_units(value, 2.0**-26) == 0
    factor = shrink_factor(value * value, 1.0)
    assert abs(int(to_units(factor * value, 2.0**-26))) <= 2**26


def test_sensitivities_under_both_adjacencies() -> None:
    assert (Sensitivity.of_vectors(3.0).add_remove, Sensitivity.of_vectors(3.0).replace_one) == (3.0, 6.0)
    acute = Sensitivity.of_acute_vectors(3.0)
    assert (acute.add_remove, acute.replace_one) == (3.0, 3.0 * math.sqrt(2.0))
    assert Sensitivity.of_l1_vectors(3.0) == Sensitivity(3.0, 6.0, "l1")
    assert replace(symmetric(7), shape=symmetric_shape(7, 3)).order == 7
