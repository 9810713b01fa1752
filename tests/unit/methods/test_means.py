"""Means first: what is learnt of levels, spreads, counts and effects, and that all of it shrinks as its noise grows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import multivariate_normal

import lowkey as lk
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey.methods.bias.baseline import ITEM_REGS, OFFSET_REGS
from lowkey.methods.counts import Counts, count_posterior
from lowkey.methods.effects import Evidence, item_effects, trend_of
from lowkey.methods.factors.method import DPFactors
from lowkey.methods.factors.settings import LEAST_MEANS, MOST_MEANS, default_means_share
from lowkey.methods.means import ENOUGH, level_shares, means_requests
from lowkey.privacy.gaussian import gaussian_mu
from lowkey.privacy.noise import SeededNoise

SKEWED = (2.0, 10.0)


def crowd(
    users: int = 3000, items: int = 300, length: int = 8, effect: float = 0.6, offset: float = 0.8, rest: float = 0.5
) -> tuple[Any, np.ndarray]:
    """Ratings around 8.2 of 2..10, rows of one to 2 ``length`` - 1 ratings; popular items are rated higher."""
    rng = np.random.default_rng(12)
    shares = 1.0 / np.arange(3, items + 3)
    effects = effect * (0.6 * rng.normal(size=items) + 0.8 * np.linspace(1.7, -1.7, items))
    rows, columns, values = [], [], []
    for user in range(users):
        count = min(int(rng.integers(1, 2 * length)), items)
        chosen = rng.choice(items, count, replace=False, p=shares / shares.sum())
        own = 7.6 + offset * rng.normal() + effects[chosen] + rest * rng.normal(size=count)
        rows.append(np.full(count, user))
        columns.append(chosen)
        values.append(np.clip(own, *SKEWED))
    cells = (np.concatenate(values).astype(np.float32), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.csr_array(cells, shape=(users, items)), effects


def split_of(rows: Any, expected: int | None, tested: int = 300) -> Split:
    domain = lk.Domain(rows.shape[1], SKEWED, expected_users=expected)
    return hold_out_users(lk.Ratings.from_csr(rows, domain), tested, 0.8, 1)


def owners(rows: Any) -> np.ndarray:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def rmse(prior: np.ndarray, reg: float, split: Split) -> float:
    """Of prior and own damped offset, from its definition."""
    history, held = split.histories, split.held_out
    rest = np.bincount(owners(history), history.data - prior[history.indices], history.shape[0])
    guess = prior[held.indices] + (rest / (np.diff(history.indptr) + reg))[owners(held)]
    return float(np.sqrt(np.mean((np.clip(guess, *SKEWED) - held.data) ** 2)))


def trivial(split: Split) -> float:
    prior = np.full(split.histories.shape[1], float(split.train._open_csr().data.mean()))
    return min(rmse(prior, reg, split) for reg in (0.5, 1.0, 2.0, 4.0, 8.0))


def of_model(model: Any, split: Split) -> float:
    found = model.predict(split.histories)
    held = split.held_out
    return float(np.sqrt(np.mean((found[owners(held), held.indices] - held.data) ** 2)))


def test_without_noise_the_posts_are_taken_as_they_are() -> None:
    found = count_posterior(np.array([3.0, 0.0, -1.0]), 0.0)
    np.testing.assert_array_equal(found.means, [3.0, 0.0, 0.0])
    np.testing.assert_array_equal(found.squares, [9.0, 0.0, 0.0])


def test_true_counts_are_found_behind_noisy_ones() -> None:
    """1,500 items, noise of 20 on counts of 2 to 2,000: less squared error than posts cut at zero, none negative, right
    on average. Over seeds the ratio has mean 0.76 and standard deviation 0.03: beyond 0.9 by chance once in 10^5."""
    rng = np.random.default_rng(4)
    true = 2.0 * 1000.0 ** rng.random(1500) ** 2.0
    posted = true + 20.0 * rng.normal(size=1500)
    found = count_posterior(posted, 20.0)
    assert found.means.min() > 0.0
    assert np.mean((found.means - true) ** 2) < 0.9 * np.mean((np.maximum(posted, 0.0) - true) ** 2)
    assert found.means.sum() == pytest.approx(true.sum(), rel=0.05)
    assert np.all(found.squares >= found.means**2)
    assert np.all(found.geometric <= found.means * (1.0 + 1e-9))


def test_effects_are_the_best_linear_prediction() -> None:
    """Against the textbook: y = N b + noise, b ~ N(a + s x, t^2), with a and s of generalised least squares."""
    rng = np.random.default_rng(5)
    n, sampling = 200, 0.7
    mean = rng.uniform(1.0, 80.0, n)
    counts = Counts(mean, mean**2 * 1.1, mean * 0.95)
    true = 0.4 * rng.normal(size=n)
    around = 0.1 * rng.normal(size=n)
    stds = (6.0, 3.0)
    rounds = [Evidence(mean * (true - around) + std * rng.normal(size=n), std, around) for std in stds]
    found = item_effects(rounds, counts, sampling)

    weights = np.array(stds) ** -2.0
    y = sum(w * (r.sums + mean * r.around) for w, r in zip(weights, rounds, strict=True)) / weights.sum()
    v = 1.0 / weights.sum() + sampling * mean  # the users' own part does not fall with the number of rounds
    columns = np.column_stack([np.ones(n), trend_of(counts)])
    design, means, chances = mean[:, None] * columns, [], []
    spreads = sampling * np.geomspace(1e-4, 10.0, 60)
    for spread in spreads:
        variance = counts.squares * spread + v
        normal = (design / variance[:, None]).T @ design + np.eye(2) / spread
        m = columns @ np.linalg.solve(normal, (design / variance[:, None]).T @ y)
        means.append(m + mean * spread / variance * (y - mean * m))
        chances.append(multivariate_normal.logpdf(y, cov=np.diag(variance) + spread * design @ design.T))
    chance = np.exp(np.array(chances) - max(chances))
    np.testing.assert_allclose(found.means, chance @ means / chance.sum(), rtol=1e-5, atol=1e-6)
    assert found.spread == pytest.approx(float(chance @ spreads / chance.sum()), rel=1e-6)
    assert np.mean((found.means - true) ** 2 / found.variances) == pytest.approx(1.0, abs=0.5)


def nothing_but_offsets(seed: int) -> Any:
    """110 people, 130 things, and no thing better than another."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((110, 130), np.float32)
    for row in rows:
        chosen = rng.choice(130, int(rng.integers(3, 15)), replace=False)
        row[chosen] = np.clip(3.0 + 0.5 * rng.normal() + 0.9 * rng.normal(size=len(chosen)), 1.0, 5.0)
    return scipy.sparse.csr_array(rows)


@pytest.mark.parametrize(("epsilon", "most"), [(0.5, 0.01), (20.0, 0.03)])
@pytest.mark.parametrize("expected", [110, None])
def test_effects_that_are_noise_cost_next_to_nothing(epsilon: float, most: float, expected: int | None) -> None:
    """So no release is far behind the trivial model, by construction: of the variance of a rating, what effects add is at
    most this share, on average over fifteen tiny crowds. Over 100 of them the share has the mean 0.001 at epsilon 0.5 and
    0.009 at 20, and the mean of fifteen the standard deviation 0.001 and 0.003: beyond by chance less than once in 10^6."""
    from lowkey.methods import means

    added = []
    for seed in range(15):
        ratings = lk.Ratings.from_csr(nothing_but_offsets(seed), lk.Domain(130, (1.0, 5.0), expected_users=expected))
        board = lk.Billboard(noise=SeededNoise(seed))
        found = means.ask_means(*lk.DPBias(epsilon, 1e-5)._begin(ratings, None, None, None, board))
        added.append(float(np.var(found.effects)) / 0.81)
        assert 0.3 < found.offset_reg < 12.0  # in truth 3.2: a crowd that cannot say gets the usual one
    assert np.mean(added) < most


def test_effects_fall_to_nothing_as_the_noise_grows() -> None:
    rng = np.random.default_rng(6)
    counts = Counts(*(np.full(400, 10.0**k) for k in (1, 2, 1)))
    sizes = []
    for std in (1.0, 30.0, 1000.0):
        sums = 10.0 * 0.5 * np.resize([1.0, -1.0], 400) + std * rng.normal(size=400)
        found = item_effects([Evidence(sums, std, np.zeros(400))], counts, 0.2)
        sizes.append(math.sqrt(float(np.mean(found.means**2))))
    assert 0.4 < sizes[0] < 0.55
    assert sizes[0] > 2.0 * sizes[1] > 4.0 * sizes[2]


def test_level_spread_and_users_are_learnt() -> None:
    """3,000 users at a large epsilon: the level, the variances and, where it is not expected, the number of users."""
    from lowkey.methods import means

    rows, _ = crowd()
    seen = {}
    for expected in (3000, None):
        ratings = lk.Ratings.from_csr(rows, lk.Domain(300, SKEWED, expected_users=expected))
        model = lk.DPBias(epsilon=50.0, delta=1e-5)
        settings, curator = model._begin(ratings, None, None, None, lk.Billboard(noise=SeededNoise(3)))
        seen[expected] = means.ask_means(settings, curator)
    for found in seen.values():
        assert found.crowd.users == pytest.approx(3000, rel=0.02)
        assert found.center == pytest.approx(float(np.mean(rows.sum(axis=1) / np.diff(rows.indptr))), abs=0.15)
        assert found.crowd.between == pytest.approx(0.64, rel=0.25)
        assert found.residual_variance == pytest.approx(0.25, rel=0.6)
        assert found.activity == pytest.approx(float(np.sqrt(np.diff(rows.indptr)).mean()), rel=0.05)


def test_effects_are_near_the_truth_and_their_variances_are_of_the_right_size() -> None:
    """Standardised errors of 300 items have a mean square of one, within a factor of four."""
    from lowkey.methods import means

    rows, effects = crowd(6000)
    ratings = lk.Ratings.from_csr(rows, lk.Domain(300, SKEWED, expected_users=6000))
    settings, curator = lk.DPBias(epsilon=8.0, delta=1e-5)._begin(
        ratings, None, None, None, lk.Billboard(noise=SeededNoise(3))
    )
    found = means.ask_means(settings, curator)
    error = found.prior - effects
    error -= np.average(error, weights=found.counts.means)
    assert np.corrcoef(found.effects, effects)[0, 1] > 0.8
    assert 0.25 < np.mean(error**2 / found.variances) < 4.0


def near_the_end(users: int, seed: int) -> Any:
    """Two ratings each, nearly all 8 to 10 of 2..10, a few far below; no thing better than another."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((users, 300), np.float32)
    own = 9.6 + 0.5 * rng.normal(size=users)
    for row, level in zip(rows, own, strict=True):
        chosen = rng.choice(300, 2, replace=False)
        values = np.where(rng.random(2) < 0.08, rng.uniform(2.0, 7.0, 2), level + rng.normal(size=2))
        row[chosen] = np.clip(values, 2.0, 10.0)
    return scipy.sparse.csr_array(rows)


@pytest.mark.parametrize("method", [lk.DPBias, lk.DPFactors])
def test_clips_on_one_side_move_no_effects(method: Any) -> None:
    """On average over ratings effects are 0, as the level has the mean; clips of the few low ratings would lift them by
    0.08 (0.002 from draw to draw). Over draws the level has a standard deviation of 0.009: beyond once in 10^5."""
    ratings = lk.Ratings.from_csr(near_the_end(10_000, 3), lk.Domain(300, SKEWED, expected_users=10_000))
    model = method(epsilon=20.0, delta=1e-5).fit(ratings, billboard=lk.Billboard(noise=SeededNoise(5)))
    rows: Any = ratings._open_csr()
    found = model.model_.settings["center"] + model.model_.arrays["item_bias"][rows.indices].mean()
    assert found == pytest.approx(rows.data.mean(), abs=0.04)


@pytest.mark.parametrize("expected", [2700, None])
@pytest.mark.parametrize("method", [lk.DPBias, lk.DPFactors])
def test_no_release_is_behind_the_trivial_model(method: Any, expected: int | None) -> None:
    """A skewed scale, few ratings: at epsilon 0.1 to 20, on average over three fits, at most 0.01 above a mean and an
    offset whose damping was chosen on the tested users; and clearly below at 20."""
    rows, _ = crowd()
    split = split_of(rows, expected)
    base = trivial(split)
    for epsilon, most in ((0.1, 0.02), (0.5, 0.01), (2.0, 0.0), (20.0, -0.05)):
        make = lambda e=epsilon: method(epsilon=e, delta=1e-5)
        boards = [lk.Billboard(noise=SeededNoise(seed)) for seed in (1, 2, 3)]
        found = [of_model(make().fit(split.train, billboard=board), split) for board in boards]
        assert np.mean(found) <= base + most, (epsilon, base, found)


def test_the_baseline_is_as_good_as_two_ridges_that_were_chosen_on_the_tested_users() -> None:
    rows, _ = crowd(5000, 400, 5)
    split = split_of(rows, None, 2000)
    train: Any = split.train._open_csr()
    who, center, best = owners(train), float(train.data.mean()), math.inf
    for item_reg in ITEM_REGS:
        for offset_reg in OFFSET_REGS:
            effects = np.zeros(400)
            for _ in range(6):
                rest = train.data - center - effects[train.indices]
                offsets = np.bincount(who, rest, train.shape[0]) / (np.diff(train.indptr) + offset_reg)
                rest = train.data - center - offsets[who]
                effects = np.bincount(train.indices, rest, 400) / (np.bincount(train.indices, minlength=400) + item_reg)
            best = min(best, rmse(center + effects, offset_reg, split))
    assert of_model(lk.Bias().fit(split.train), split) <= best + 0.003


def test_shares_add_up_and_small_crowds_spend_on_their_level() -> None:
    def settings(users: int | None, epsilon: float) -> Any:
        return lk.DPBias(epsilon=epsilon, delta=1e-5).resolve(lk.Domain(50, (1.0, 5.0), expected_users=users))

    assert level_shares(settings(None, 1.0), 1.0) == (0.05, 0.05)
    assert level_shares(settings(10**6, 1.0), 1.0) == ENOUGH  # rows of a rating or two are heard only in a large share
    crowd = 600 * gaussian_mu(1.0, 1e-5)
    assert level_shares(settings(600, 1.0), 1.0) == pytest.approx(((40.0 / crowd) ** 2, (80.0 / crowd) ** 2))
    assert level_shares(settings(20, 1.0), 1.0) == (0.4, 0.3)
    for users in (None, 20, 400, 10**6):
        assert sum(r.share for r in means_requests(settings(users, 1.0), 0.3)) == pytest.approx(0.3)
    shares = [default_means_share(lk.Domain(50, (1.0, 5.0), expected_users=n), 0.5) for n in (10, 1400, 10**6)]
    assert shares == [MOST_MEANS, pytest.approx(0.5), LEAST_MEANS]


def test_a_small_crowd_gets_no_factors_and_a_rank_that_is_asked_for_is_kept() -> None:
    """Then what was planned for factors goes into item effects, under the lines of the plan."""
    rows, _ = crowd(400)
    ratings = lk.Ratings.from_csr(rows, lk.Domain(300, SKEWED, expected_users=400))
    small = DPFactors(epsilon=1.0, delta=1e-5).fit(ratings)
    assert small.item_factors_.shape == (300, 2)  # what users lean to, and no factor
    names = [line.name for line in small.ledger_.spent()]
    assert names == ["level", "spread", "item_means", "item_means", *(f"item_update_{t}" for t in (1, 2, 3, 4))]
    assert DPFactors(epsilon=1.0, delta=1e-5, rank=3).fit(ratings).item_factors_.shape == (300, 5)
