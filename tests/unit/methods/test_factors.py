"""The items' half of DPFactors: posterior means, the prior from the posts, and the common scale."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import lowkey as lk
from lowkey.methods.counts import Counts
from lowkey.methods.factors.blup import Round, clean_moments, common_scale, posterior
from lowkey.methods.factors.bounds import BOUND_SHARE, Known, Scale, Seen, unclipped
from lowkey.methods.factors.settings import default_rank, default_rounds, default_start, worthwhile_rank
from lowkey.methods.factors.side import Side
from lowkey.methods.factors.taken import slopes
from lowkey.methods.means import Crowd, Means


def nothing(n_items: int, rank: int) -> Side:
    """Of which nothing is known beside the rounds."""
    start = np.zeros((n_items, rank))
    return Side(start, None, start, np.eye(rank), ())


def a_round(rng: np.random.Generator, truth: np.ndarray, std: float = 0.05) -> Round:
    """Of items with shares and bias scales of their own."""
    n, d = truth.shape
    root = rng.normal(size=(d, d))
    seen = root @ root.T + np.eye(d)
    shares, scales = rng.dirichlet(np.ones(n)) * n / 4.0, rng.uniform(0.4, 3.0, n)
    noise = std * rng.normal(size=(n, d))
    noise[:, 0] /= scales
    return Round.of(shares, shares[:, None] * (truth @ seen) + noise, seen, scales, std, 0.0)


def means_with(counts: np.ndarray, users: float = 1000.0, users_std: float = 0.0) -> Means:
    """Of a crowd whose counts are known."""
    n, crowd = len(counts), Crowd(3.0, 0.8, 0.2, users, users_std)
    return Means(crowd, (), np.zeros(n), np.ones(n), Counts(counts, counts**2, counts), counts, 0.0, 0.8)


def test_the_posterior_is_the_textbook_one() -> None:
    """Given the prior that it found: (A^T C^-1 A + prior^-1)^-1 (A^T C^-1 y + prior^-1 mean), item by item."""
    rng = np.random.default_rng(1)
    grams = [np.diag([2.0, 0.5, 1.0]) + 0.3, np.eye(3) + np.outer([1, -1, 2], [1, -1, 2])]
    shares, scales = rng.dirichlet(np.ones(40)) * 10.0, rng.uniform(0.4, 3.0, (2, 40))
    noise = [(0.4, 0.3), (0.9, 0.0)]  # of the post and of the users
    y = rng.normal(size=(2, 40, 3))
    rounds = [Round.of(shares, y[r], grams[r], scales[r], *noise[r]) for r in (0, 1)]
    own = [shares[:, None, None] * g for g in grams]
    bias, variance = rng.normal(size=40), rng.uniform(0.2, 2.0, 40)
    found = posterior(rounds, bias, variance, nothing(40, 2))
    for j in range(40):
        prior = np.zeros((3, 3))
        prior[0, 0], prior[1:, 1:] = 1.0 / variance[j], np.linalg.inv(found.prior)
        precision, target = prior.copy(), prior @ np.array([bias[j], 0.0, 0.0])
        for r, (s, k) in enumerate(noise):
            covariance = np.diag([(s / scales[r, j]) ** 2, s * s, s * s]) + k * own[r][j]
            precision += own[r][j] @ np.linalg.solve(covariance, own[r][j])
            target += own[r][j] @ np.linalg.solve(covariance, y[r, j])
        np.testing.assert_allclose(found.means[j], np.linalg.solve(precision, target), rtol=1e-5, atol=1e-7)


def test_the_prior_is_found_where_the_noise_is_small_and_vanishes_where_there_is_nothing() -> None:
    """500 items: the standard error of a variance is 6 %, so a fifth off has a chance below 1e-3; the seed is fixed."""
    rng = np.random.default_rng(2)
    truth = rng.normal(size=(500, 3)) * [1.0, 2.0, 0.5]
    found = posterior([a_round(rng, truth, 0.01)], np.zeros(500), np.ones(500), nothing(500, 2))
    assert np.diag(found.prior) == pytest.approx([4.0, 0.25], rel=0.2)
    noise = a_round(rng, 0.0 * truth, 5.0)
    shrunk = posterior([noise], np.zeros(500), np.full(500, 1e-6), nothing(500, 2)).means[:, 1:]
    raw = (noise.targets / noise.shares[:, None]) @ np.linalg.inv(noise.view).T
    assert np.mean(shrunk**2) < 0.01 * np.mean(raw[:, 1:] ** 2)


def test_a_turned_round_speaks_of_turned_factors() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(30, 4))
    change = rng.normal(size=(3, 3)) + 3.0 * np.eye(3)
    plain = a_round(rng, truth, 1e-3)
    means = posterior([plain], truth[:, 0], np.full(30, 0.01), nothing(30, 3)).means
    turned = posterior([plain.turned(change)], truth[:, 0], np.full(30, 0.01), nothing(30, 3)).means
    np.testing.assert_allclose(turned[:, 1:], means[:, 1:] @ change.T, rtol=1e-3, atol=1e-3)


def test_the_common_scale_is_one_at_the_fixed_point_and_undoes_any_other() -> None:
    """Users with m ratings of noise r: E[u u^T] = l/(l + r) for factors of size l/m; a map of u leaves V V^T as it was."""
    sizes, m, reg = np.array([0.5, 0.02, 0.004]), 60.0, 0.7
    seen = np.diag(m * sizes / (m * sizes + reg))
    np.testing.assert_allclose(common_scale(np.diag(sizes), seen, m, reg), np.eye(3), atol=1e-9)
    u = np.random.default_rng(4).normal(size=(3, 3)) + 2.0 * np.eye(3)  # u' = U u, so coefficients U^-T c
    back = np.linalg.inv(u).T
    change = common_scale(back @ np.diag(sizes) @ back.T, u @ seen @ u.T, m, reg) @ back
    np.testing.assert_allclose(change.T @ change, np.eye(3), atol=1e-6)


def test_moments_of_pure_noise_lose_their_directions() -> None:
    """Of order 12 at the noise's own size: what is left beside the average is below a fifth, for each of 20 fixed seeds."""
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(15, 15))
        noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.sqrt(2.0) * np.diag(noise))
        clean = clean_moments(100.0 * np.eye(15) + noise, 1.0, 12)
        rest = clean[1:13, 1:13] - np.trace(clean[1:13, 1:13]) / 12 * np.eye(12)
        assert np.linalg.norm(rest) < 0.35 * np.linalg.norm(noise[1:13, 1:13])
        np.testing.assert_array_equal(clean[13:, 13:], (100.0 * np.eye(15) + noise)[13:, 13:])


def test_a_bias_takes_as_much_of_a_row_as_there_is_to_know_of_it() -> None:
    counts, variances = np.array([900.0, 400.0, 25.0, 4.0]), np.array([1e-6, 0.02, 0.08, 0.5])
    known = Known.of(replace(means_with(counts), variances=variances, residual_variance=0.8), 0.25, 6.0)
    weights = known.weights
    np.testing.assert_allclose(weights / weights[0], (counts / 900.0) ** -0.25)
    np.testing.assert_allclose(known.scales[1:], [6.0 * math.sqrt(v / 0.8) for v in (0.02, 0.08, 0.5)])
    assert 0.1 < known.scales[0] < 1.0  # known already, but its factor may move it
    np.testing.assert_allclose(known.shares, weights * counts / (weights @ counts))
    assert known.bias_square == pytest.approx(np.average(known.scales**2, weights=weights * counts))


@pytest.mark.parametrize("ratings", [2, 5, 60])
@pytest.mark.parametrize("bound", [0.6, 1.3, 3.0])
def test_what_a_bound_hides_of_the_variance_is_told_back(ratings: int, bound: float) -> None:
    """Users beyond the bound weigh less; of a million rows the mean is within 1 % but for a chance below 1e-9."""
    rows = 1.7**2 * np.random.default_rng(3).chisquare(ratings, 1_000_000) / ratings
    weights = np.minimum(1.0, 1.7 * bound / np.sqrt(rows))
    seen = float(weights @ rows / weights.sum())
    assert unclipped(seen, 1.7 * bound, ratings) == pytest.approx(1.7**2, rel=0.01)
    assert ratings > 5 or bound > 0.6 or seen < 0.9 * 1.7**2  # there is something to tell


def test_a_variance_that_is_seen_is_found_whatever_the_posts_say() -> None:
    for seen, bound, ratings in ((1e-9, 1.0, 1.0), (1.0, 1e-6, 1.0), (3.0, 0.1, 1e6), (1e-30, 1e-30, 40.0)):
        assert seen <= unclipped(seen, bound, ratings) <= 4.0 * seen


def test_the_bound_is_wide_where_noise_does_not_decide() -> None:
    """Without noise all but the widest of short rows are left alone; drowned in it the bound costs least."""
    seen = Seen(np.eye(3), np.eye(2), 1.0, 2.0, 1.5, 0.5, 1.0, 0.7)
    shares = np.full(50, 1.0 / 50.0)
    assert seen.clear(shares, 0.0) == pytest.approx(1.0)
    assert seen.clear(shares, 1e9) == pytest.approx(0.0, abs=1e-12)
    assert seen.clear(shares, math.sqrt(seen.sampling / 50.0)) == pytest.approx(0.5)  # as much noise as of their own
    scale = Scale(1.0, 0.3, 0.7, 1.0, 1.4)
    assert scale.next(seen, 1.0, 1e-3).update_bound == pytest.approx(1.0 + math.sqrt(2.0 / 2.0))
    assert scale.next(seen, 0.0, 1e-3).update_bound == pytest.approx(BOUND_SHARE)


def test_short_skewed_rows_do_not_shrink_the_bound_away() -> None:
    """Most give the best mark, a few a low one: the rounds see as much variance as the item means did."""
    rng = np.random.default_rng(4)
    n_users, n_items = 20_000, 60
    users = np.repeat(np.arange(n_users), 1 + (rng.random(n_users) < 0.5))
    items = rng.integers(n_items, size=len(users))
    marks = np.where(rng.random(len(users)) < 0.15, 2.0, 10.0)
    rows = scipy.sparse.coo_array((marks, (users, items)), shape=(n_users, n_items)).tocsr()
    rows.data = np.minimum(rows.data, 10.0)  # who drew an item twice
    ratings = lk.Ratings.from_csr(rows, lk.Domain(n_items, (2.0, 10.0), expected_users=n_users))
    model = lk.DPFactors(20.0, 1e-5, rank=2, start="random").fit(ratings)
    assert 0.7 * rows.data.var() < float(model.model_.settings["reg"]) < 1.3 * rows.data.var()


def test_the_rank_follows_the_noise() -> None:
    def domain(users: int | None, items: int) -> lk.Domain:
        return lk.Domain(items, (1.0, 5.0), expected_users=users)

    assert default_rank(domain(6400, 1600), 0.25) == 4  # a tenth of 0.25 * 6400 / 40
    assert default_rank(domain(12_800, 1600), 0.25) == 8
    assert default_rank(domain(10, 1600), 0.1) == 2
    assert default_rank(domain(10**7, 1600), 1.0) == 20
    assert default_rank(domain(10**7, 5), 1.0) == 5
    assert default_rank(domain(None, 1600), 1.0) == 20  # at most: the posts decide


def test_the_posted_crowd_decides_whether_there_are_factors() -> None:
    """1,600 items, 100 ratings a user: (100/130)^2 of the signal, which has to be 8; an uncertain crowd counts less."""
    settings = lk.DPFactors(epsilon=1.0, delta=1e-5).resolve(lk.Domain(1600, (1.0, 5.0)))
    least = 8.0 * 40.0 / settings.budget.signal / (100.0 / 130.0) ** 2

    def rank(users: float, std: float = 0.0) -> int:
        return worthwhile_rank(settings, means_with(np.full(1600, 10.0 * users / 1600.0), users, std))

    assert rank(0.99 * least) == 0
    assert rank(1.01 * least) == 2
    assert rank(5.0 * least) == round(0.1 * 5.0 * least * settings.budget.signal / 40.0) > 2
    assert rank(1.01 * least, 0.05 * least) == 0
    assert rank(1e7) == 20


def test_rounds_and_start_follow_from_public_facts() -> None:
    def domain(users: int | None, items: int) -> lk.Domain:
        return lk.Domain(items, (1.0, 5.0), expected_users=users)

    assert default_rounds(domain(6400, 1600), 0.25, "random") == 5  # 0.25 * 6400 / 40 = 40, between 2^5 and 2^6
    assert default_rounds(domain(25_600, 1600), 0.25, "random") == 7
    assert default_rounds(domain(100, 1600), 0.2, "random") == 4
    assert default_rounds(domain(10**7, 1600), 0.2, "random") == 8
    assert default_rounds(domain(None, 1600), 0.2, "random") == 6
    assert default_rounds(domain(10**7, 100), 0.2, "moments") == 4
    assert default_start(domain(20_000, 100), 0.2) == "moments"
    for users, items in ((20_000, 201), (10_000, 100), (None, 100)):
        assert default_start(domain(users, items), 0.2) == "random"


def test_who_says_nothing_gets_the_items_effects_in_full() -> None:
    """Factors carry a part of the effects, at a place where the average user is, which goes back into the biases: the
    slope of what is expected on true effects is 1 but for shrinkage. Without it, it is 0.4 here."""
    rng, n_users, n_items = np.random.default_rng(3), 3000, 150
    effects = rng.normal(0.0, 0.6, n_items)
    own = 1.0 + rng.normal(0.0, 0.5, (n_users, 1))
    ratings = 3.0 + own * effects + rng.normal(0.0, 0.5, (n_users, n_items))
    seen = rng.random(ratings.shape) < 0.3
    rows = scipy.sparse.csr_array(np.where(seen, np.clip(ratings, 1.0, 5.0), 0.0))
    domain = lk.Domain(n_items, (1.0, 5.0), expected_users=n_users)
    model = lk.DPFactors(epsilon=20.0, delta=1e-6, rank=2, start="random").fit(rows, domain=domain)
    expected = model.predict(scipy.sparse.csr_array((1, n_items)))[0]
    slope = np.cov(expected, effects)[0, 1] / np.var(effects, ddof=1)
    assert 0.85 < slope < 1.1


@pytest.mark.parametrize(("size", "most"), [(1.0, 0.1), (0.0, 0.02)])
def test_slopes_of_taste_on_takes(size: float, most: float) -> None:
    """Found where they stand out of the noise, next to nothing where there are none. Chance alone errs by 1/sqrt(users)."""
    rng = np.random.default_rng(5)
    users, true = 20_000, size * rng.normal(size=(3, 3))
    z = rng.normal(size=(users, 3)) * [0.6, 0.3, 0.1]
    u = z @ true.T + rng.normal(size=(users, 3))
    posted = np.vstack([u.T @ z, z.T @ z])
    noisy = posted + 10.0 * rng.normal(size=posted.shape)
    error = slopes(noisy, 10.0, 1.0) - true
    assert np.sqrt(np.trace(error @ (z.T @ z / users) @ error.T)) < most
    assert not slopes(rng.normal(size=(6, 3)), 1e9, 1.0).round(6).any()
