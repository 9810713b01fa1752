"""The factorisations of streams, against independent computation: definitions, closed forms, and drawn noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from lowkey.errors import InputError, PlanError
from lowkey.privacy import factorisations as f
from lowkey.privacy.stream import LARGEST_NORM, ONE, Schedule
from lowkey.privacy.sums import Grid, Sensitivity, Statistic
from lowkey_lab.factorisations import split, square_root, tree_noise

KINDS = [(52, None, None), (52, 26.0, None), (52, None, 13), (30, 4.0, 8), (1, None, None), (2, None, None)]


def rms(noise: np.ndarray) -> float:
    return float(np.sqrt(np.mean(noise**2)))


def test_what_is_wanted_is_what_its_words_say() -> None:
    x = np.arange(1.0, 8.0) ** 2
    assert f.wanted(7) @ x == pytest.approx(np.cumsum(x))
    forgetting = [sum(x[s] * 0.5 ** ((t - s) / 3.0) for s in range(t + 1)) for t in range(7)]
    assert f.wanted(7, half_life=3.0) @ x == pytest.approx(forgetting)
    assert f.wanted(7, window=2) @ x == pytest.approx([x[0], *(x[1:] + x[:-1])])


@pytest.mark.parametrize(("horizon", "half_life", "window"), KINDS)
def test_columns_have_norm_one_and_decoding_is_exact(horizon: int, half_life: float, window: int) -> None:
    target = f.wanted(horizon, half_life, window)
    optimum = f.optimal(horizon, half_life, window)
    for encoder in (square_root(target), f.unit_columns(square_root(target)), optimum):
        assert np.all(np.triu(encoder, 1) == 0.0)
        assert max(math.fsum(column**2) for column in encoder.T) <= 1.0 + 1e-12
        assert f.decoder(target, encoder) @ encoder == pytest.approx(target, abs=1e-9)


def test_the_square_root_has_its_closed_form() -> None:
    """For running sums the coefficients of (1 - z)^(-1/2) are binom(2n, n)/4^n, up to one common factor."""
    root = square_root(f.wanted(60))
    closed = np.array([math.comb(2 * n, n) / 4.0**n for n in range(60)])
    assert root[:, 0] * closed[0] / root[0, 0] == pytest.approx(closed, rel=1e-12)
    assert math.fsum(root[:, 0] ** 2) == pytest.approx(1.0)


@pytest.mark.parametrize(("half_life", "window"), [(None, None), (2.0, None), (None, 3)])
def test_a_general_minimiser_finds_nothing_better(half_life: float, window: int) -> None:
    """Over all lower-triangular C of five releases, by BFGS from several starts."""
    target, places = f.wanted(5, half_life, window), np.tril_indices(5)

    def loss(entries: np.ndarray) -> float:
        encoder = np.zeros((5, 5))
        encoder[places] = entries
        return float(np.sum(np.linalg.solve(f.unit_columns(encoder).T, target.T) ** 2))

    starts = [np.eye(5)[places] + 0.3 * np.random.default_rng(i).random(15) for i in range(4)]
    best = min(minimize(loss, start, method="BFGS", options={"gtol": 1e-9}).fun for start in starts)
    ours = float(np.sum(f.noise(f.decoder(target, f.optimal(5, half_life, window))) ** 2))
    assert ours == pytest.approx(best, rel=1e-7)


def test_a_year_of_weeks_has_the_noise_of_two() -> None:
    target = f.wanted(52)
    assert rms(Schedule.optimal("a", 52).noise) <= 2.1
    assert rms(f.noise(f.decoder(target, f.optimal(52)))) == pytest.approx(2.04, abs=0.005)
    assert rms(f.noise(f.decoder(target, square_root(target)))) == pytest.approx(2.16, abs=0.005)
    assert rms(tree_noise(52)) == pytest.approx(4.1, abs=0.05)
    assert rms(f.noise(f.decoder(target, split(target)))) == pytest.approx(math.sqrt(52))


@pytest.mark.parametrize(("horizon", "half_life", "window"), KINDS)
def test_the_stated_noise_is_that_of_drawn_posts(horizon: int, half_life: float, window: int) -> None:
    """Each variance of 20,000 draws is within 6 of its own standard deviations: a false alarm below 2e-9 each."""
    schedule, draws = Schedule.optimal("a", horizon, half_life, window), 20_000
    posts = np.random.default_rng(horizon).normal(size=(horizon, draws))
    for t in range(1, horizon + 1):
        variance = np.mean(schedule.decoded(t, list(posts[:t])) ** 2)
        assert abs(variance / schedule.noise[t - 1] ** 2 - 1.0) < 6.0 * math.sqrt(2.0 / draws)


@pytest.mark.parametrize(("horizon", "half_life", "window"), KINDS)
def test_whole_number_columns_are_inside_one_and_decode_exactly(horizon: int, half_life: float, window: int) -> None:
    schedule = Schedule.optimal("a", horizon, half_life, window)
    for s in range(horizon):
        assert sum(row[s] ** 2 for row in schedule.coefficients[s:]) <= LARGEST_NORM**2 < ONE**2
    x = np.random.default_rng(0).normal(size=(horizon, 3))
    posts = [np.array(row) @ x[: len(row)] / ONE for row in schedule.coefficients]
    wanted = f.wanted(horizon, half_life, window) @ x
    for t in range(1, horizon + 1):
        assert schedule.decoded(t, posts[:t]) == pytest.approx(wanted[t - 1], abs=1e-9)
    assert Schedule.from_json(schedule.to_json()) == schedule


def test_a_column_above_one_is_refused_by_one_unit() -> None:
    assert Schedule("a", None, None, ((LARGEST_NORM,),)).horizon == 1
    for bad in (((LARGEST_NORM + 1,),), ((LARGEST_NORM,), (1, 5)), ((5,), (1,)), ((0,),), ()):
        with pytest.raises(PlanError):
            Schedule("a", None, None, bad)


def test_there_is_no_release_beyond_the_horizon() -> None:
    schedule = Schedule.optimal("a", 3)
    for release in (0, 4, -1):
        with pytest.raises(PlanError, match="outside of the stream"):
            schedule.weights(release)
    for bad in ({"horizon": 0}, {"horizon": 401}, {"horizon": 5, "half_life": -1.0}, {"horizon": 5, "window": 0}):
        with pytest.raises(InputError):
            f.wanted(**bad)


@pytest.mark.parametrize("replaced", [math.sqrt(2.0), 2.0])
def test_a_replacement_in_another_week_is_paid_for(replaced: float) -> None:
    """Everybody adds (1, 1): nobody who replaces somebody of the same week is seen, and of another one is."""
    horizon, row = 12, np.ones(2)
    schedule = Schedule.optimal("a", horizon)
    pair = Statistic("pair", (2,), Grid(-20), Sensitivity(math.sqrt(2.0), replaced), 1 << 20)
    c = np.zeros((horizon, horizon))
    for t, coefficients in enumerate(schedule.coefficients):
        c[t, : t + 1] = np.array(coefficients) / ONE
    moved = max(np.linalg.norm(np.outer(c[:, s] - c[:, r], row)) for s in range(horizon) for r in range(horizon))
    assert moved > 1.2 * math.sqrt(2.0)  # more than in one week
    assert moved <= schedule.statistic_of(pair).sensitivity.replace_one
