"""DPLMC: one round against plain NumPy, starts that find what was planted, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from resolved import with_settings

import lowkey as lk
from lowkey.engines.local import no_sums
from lowkey.errors import InputError
from lowkey.kernels.lmc import GradientRound, RowStart, RowStep
from lowkey.kernels.spectral_start import StartGram
from lowkey.linalg.packed import unpack
from lowkey.methods.starts import balanced_start
from lowkey.privacy.noise import SeededNoise

DELTA = 1e-5
BARE: dict[str, Any] = {"bias_share": 0.0, "weighting": "uniform", "offset_reg": None, "item_reg": 0.0}  # as in the paper


def planted(n_users: int = 1500, n_items: int = 24, rank: int = 3, density: float = 0.5, seed: int = 0) -> Any:
    """X of a known rank with entries up to 4, and what is seen of it."""
    rng = np.random.default_rng(seed)
    users, items = rng.standard_normal((n_users, rank)), rng.standard_normal((n_items, rank))
    users, items = (2.0 * side / np.linalg.norm(side, axis=1).max() for side in (users, items))
    truth = users @ items.T
    at = np.nonzero(rng.random(truth.shape) < density)
    return truth, scipy.sparse.csr_array((truth[at].astype(np.float32), at), shape=truth.shape)


def domain_of(csr: Any) -> lk.Domain:
    return lk.Domain(csr.shape[1], (-4.0, 4.0), expected_users=csr.shape[0])


def share_left(model: Any, truth: np.ndarray, csr: Any) -> float:
    """Of the variance of X."""
    return float(np.mean((model.predict(csr) - truth) ** 2) / np.mean(truth**2))


def without_noise(model: Any, csr: Any) -> Any:
    billboard = lk.Billboard(noise=SeededNoise(1, factor=0.0))
    return model.fit(csr, domain=domain_of(csr), billboard=billboard, engine=lk.LocalEngine(1))


class LastRound(lk.LocalEngine):
    """Keeps the last round's item factors and what users hold after it."""

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        found = super().sweep(sweep, data, local)
        if isinstance(sweep, GradientRound):
            block = next(iter(data._open_blocks(10**6)))
            self.item_factors = sweep.item_factors
            self.rows = sweep.run(block, getattr(self, "rows", None), no_sums(sweep.statistics))
        return found


# One round ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("own_counts", [False, True])
def test_a_round_is_algorithm_1(own_counts: bool) -> None:
    """Two rounds by the kernel and by dense NumPy, written from the paper's lines; weights and counts are not all one."""
    rng = np.random.default_rng(2)
    n_users, n_items, rank, alpha, bound = 5, 7, 3, 1.2, 2.5
    seen = rng.random((n_users, n_items)) < 0.6
    seen[0] = False  # a user without a rating
    values = rng.uniform(-3.0, 3.0, seen.shape)
    old, new = rng.standard_normal((2, n_items, rank)) * 0.6
    weights, prior = rng.uniform(0.5, 2.0, n_items), rng.uniform(-0.5, 0.5, n_items)
    pull = rng.standard_normal((rank, rank)) * 0.1
    start = rng.standard_normal((n_items, rank)) * 0.4
    step = RowStep(old, pull, 0.3, 2.0, own_counts)
    csr = scipy.sparse.csr_array((values[seen].astype(np.float32), np.nonzero(seen)), shape=seen.shape)
    ratings = lk.Ratings.from_csr(csr, lk.Domain(n_items, (-3.0, 3.0)))
    block = next(iter(ratings._open_blocks(100)))
    opening = GradientRound(prior, weights, old, RowStart(start), alpha, bound, 2.0)
    sweep = GradientRound(prior, weights, new, step, alpha, bound, 2.0)
    first = opening.run(block, None, no_sums(opening.statistics))
    sums = no_sums(sweep.statistics)
    second = sweep.run(block, first, sums)

    y = np.where(seen, values.astype(np.float32) - prior, 0.0)
    offset = y.sum(axis=1) / (seen.sum(axis=1) + 2.0)
    y = np.where(seen, y - offset[:, None], 0.0)
    project = lambda rows, most: rows * np.minimum(1.0, most / np.maximum(np.linalg.norm(rows, axis=1), 1e-300))[:, None]
    u = project((weights * y) @ start, alpha)
    e = np.where(seen, weights * (u @ old.T - y), 0.0)
    counts = (weights * seen).sum(axis=1)
    per = np.maximum(counts, 2.0) if own_counts else np.full(n_users, 2.0)
    u = project(u - 0.3 * (e @ old) / per[:, None] - u @ pull.T, alpha)
    e = project(np.where(seen, weights * (u @ new.T - y), 0.0), bound)
    assert (np.linalg.norm(e, axis=1) > 0.999 * bound).any()  # the clip is at work, and not for all
    assert (np.linalg.norm(e, axis=1) < 0.9 * bound).any()
    assert second[:, 1:] == pytest.approx(u, abs=1e-6)
    gram, gradient = sweep.statistics
    assert unpack(sums["user_gram"] * gram.grid.step) == pytest.approx(u.T @ u, abs=1e-4)
    assert sums["item_gradient"] * gradient.grid.step == pytest.approx(e.T @ u, abs=1e-3)


# The start ---------------------------------------------------------------------------------------------------------------
def test_the_start_finds_an_exact_matrix_that_is_fully_seen() -> None:
    """No noise, nothing missing: both sides balanced, and their product is X. The paper's own scaling is not balanced."""
    truth, _ = planted()
    n_users, n_items = truth.shape
    start = balanced_start(truth.T @ truth, 3, n_users, np.ones(n_items))
    users = truth @ start.user_map
    assert users @ start.item_factors.T == pytest.approx(truth, abs=1e-8)
    assert users.T @ users / n_users == pytest.approx(start.item_factors.T @ start.item_factors / n_items, abs=1e-8)


def test_the_start_survives_missing_entries_of_unequal_items() -> None:
    """Items seen with chance 0.2 to 0.9 and weighted: the subspace and the scale come out, within sampling error."""
    truth, _ = planted(n_users=20_000)
    rng = np.random.default_rng(1)
    chance, weights = rng.uniform(0.2, 0.9, 24), rng.uniform(0.5, 2.0, 24)
    rows = np.where(rng.random(truth.shape) < chance, weights * truth, 0.0)
    start = balanced_start(rows.T @ rows, 3, len(truth), weights * chance)
    left = truth - truth @ np.linalg.pinv(start.item_factors.T) @ start.item_factors.T
    assert np.mean(left**2) < 0.05 * np.mean(truth**2)
    singular = np.linalg.svd(truth, compute_uv=False)[:3] / math.sqrt(truth.size)
    found = np.linalg.eigvalsh(start.item_factors.T @ start.item_factors / 24)[::-1]
    assert found == pytest.approx(singular, rel=0.15)


def test_eigenvalues_at_or_below_zero_are_dropped() -> None:
    gram = np.diag([4.0, -1.0, -2.0, -3.0])
    start = balanced_start(gram, 3, 1.0, np.ones(4))
    assert np.count_nonzero(np.abs(start.item_factors).sum(axis=0)) == 1
    assert np.isfinite(start.user_map).all()
    assert not np.isnan(balanced_start(np.zeros((4, 4)), 2, 0.0, np.zeros(4)).item_factors).any()


def test_rows_per_rating_are_divided_by_the_root_of_their_number() -> None:
    csr = scipy.sparse.csr_array(np.array([[1.0, 2.0, 0.0, 2.0]], np.float32))
    ratings = lk.Ratings.from_csr(csr, lk.Domain(4, (-4.0, 4.0)))
    for per_rating, scale in ((False, 1.0), (True, 1.0 / 3.0)):
        sweep = StartGram(np.zeros(4), np.array([1.0, 0.5, 9.0, 1.0]), 50.0, math.inf, per_rating)
        sums = no_sums(sweep.statistics)
        sweep.run(next(iter(ratings._open_blocks(5))), None, sums)
        row = np.array([1.0, 1.0, 0.0, 2.0])
        found = unpack(sums["start_gram"] * sweep.grid.squared.step)
        assert found == pytest.approx(scale * np.outer(row, row), abs=1e-2)


# Fits --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("start", "n_iter", "most"), [("private", 40, 1e-3), ("random", 120, 1e-3)])
def test_without_noise_it_completes_the_matrix(start: str, n_iter: int, most: float) -> None:
    truth, csr = planted()
    bounds = {"user_norm": 4.0, "residual_norm": 16.0}
    bare = with_settings(lk.DPLMC, item_norm=4.0, **BARE)
    model = bare(1.0, DELTA, rank=3, start=start, n_iter=n_iter, step=0.5, reg=1e-4, **bounds)
    assert share_left(without_noise(model, csr), truth, csr) < most


def test_more_budget_is_better_and_the_start_helps() -> None:
    """Over 40 draws the errors were 0.23 to 0.58, 0.008 to 0.015 and 0.0038 to 0.0043; from a random start 0.010 or more.

    The two that are closest are 4.8 standard deviations apart: a false alarm in about a million runs.
    """
    truth, csr = planted()
    bounds = {"user_norm": 2.0, "residual_norm": 4.0, "rank": 3, "reg": 0.05}
    bare = with_settings(lk.DPLMC, item_norm=2.0, **BARE)
    errors = [
        share_left(bare(e, DELTA, n_iter=10, **bounds).fit(csr, domain=domain_of(csr)), truth, csr)
        for e in (0.5, 5.0, 50.0)
    ]
    assert errors[0] > errors[1] > errors[2]
    random = bare(50.0, DELTA, n_iter=10, start="random", **bounds).fit(csr, domain=domain_of(csr))
    assert share_left(random, truth, csr) > errors[2]


def test_a_newcomer_gets_what_the_trained_row_approaches() -> None:
    """Without noise and with many rounds, u . v of the training rows is what the fold-in predicts for the same row."""
    truth, csr = planted(n_users=200)
    engine = LastRound(1)
    bare = with_settings(lk.DPLMC, item_norm=4.0, averaged=0.0, **BARE)
    model = bare(1.0, DELTA, rank=3, n_iter=80, reg=1e-6, user_norm=4.0, residual_norm=16.0)
    model.fit(csr, domain=domain_of(csr), engine=engine, billboard=lk.Billboard(noise=SeededNoise(1, factor=0.0)))
    trained = engine.rows[:, 1:] @ engine.item_factors.T
    assert np.sqrt(np.mean((trained - model.predict(csr)) ** 2)) < 0.01 * truth.std()


def test_density_and_users_may_be_posted() -> None:
    truth, csr = planted(n_users=6000)
    shared = {"rank": 3, "user_norm": 2.0, "residual_norm": 4.0, "reg": 0.05}
    bare = with_settings(lk.DPLMC, item_norm=2.0, **BARE)
    posted = bare(20.0, DELTA, **shared).fit(csr, domain=lk.Domain(24, (-4.0, 4.0)))
    known = bare(20.0, DELTA, density=0.5, **shared).fit(csr, domain=domain_of(csr))
    assert "rating_density" in {line.name for line in posted.plan(domain_of(csr)).lines}
    assert "rating_density" not in {line.name for line in known.plan(domain_of(csr)).lines}
    assert "density" in str(known.guarantee_)  # it says what it takes for public
    assert "density" not in str(posted.guarantee_)
    # Over 15 draws they differed by at most 0.00014, with a standard deviation of 0.0001: this is 20 of them.
    assert abs(share_left(posted, truth, csr) - share_left(known, truth, csr)) < 0.002


# The plan ----------------------------------------------------------------------------------------------------------------
def test_shares_add_up_to_what_was_asked() -> None:
    shares_given = with_settings(lk.DPLMC, start_share=0.3, bias_share=0.1, balance_share=0.25)
    plan = shares_given(1.0, DELTA).plan(lk.Domain(50, (1.0, 5.0)))
    total = plan.price.mu**2
    shares = {line.name: line.times * line.mechanism.mu**2 / total for line in plan.lines}
    assert shares["start_gram"] == pytest.approx(0.3, rel=1e-9)
    assert sum(shares[name] for name in ("level", "spread", "item_means")) == pytest.approx(0.7 * 0.1, rel=1e-9)
    assert shares["user_gram"] == pytest.approx(0.7 * 0.88 * 0.25, rel=1e-9)
    assert 0.999 < plan.price.epsilon <= 1.0


# What is refused ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 0},
        {"rank": 99},
        {"step": -1.0},
        {"user_norm": math.nan},
        {"residual_norm": 0.0},
        {"reg": 0.0},
        {"start": "lucky"},
        {"density": 1.5},
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any]) -> None:
    domain = lk.Domain(20, (1.0, 5.0), expected_users=100)
    with pytest.raises(InputError):
        lk.DPLMC(1.0, DELTA, **settings).plan(domain)


def test_a_public_density_needs_a_public_number_of_users() -> None:
    with pytest.raises(InputError, match="expected_users"):
        lk.DPLMC(1.0, DELTA, density=0.4).plan(lk.Domain(20, (1.0, 5.0)))
    with pytest.raises(InputError, match="binary"):
        lk.DPLMC(1.0, DELTA).plan(lk.Domain(20, feedback="binary"))
