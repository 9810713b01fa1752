"""Noise as published: what it guarantees, computed by hand, what is refused, and that no release promises too much."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError, VerifyError
from lowkey.privacy.accounting import gaussian_epsilon
from lowkey_lab.published.als import PublishedALS
from lowkey_lab.published.grams import PublishedFrankWolfe, PublishedSVD
from lowkey_lab.published.lmc import PublishedLMC, booked_epsilon

DELTA = 1e-5
DOMAIN = lk.Domain(items=20, rating_range=(1, 5), expected_users=9)
LARGER = lk.Domain(100, (-4.0, 4.0), expected_users=10_000)
ALS_NOISE = (60.0, 60.0, 100.0)


@pytest.mark.parametrize(("adjacency", "root"), [("add-remove", 1.0), ("replace-one", math.sqrt(2.0))])
@pytest.mark.parametrize("epsilon", [0.5, 5.0, 20.0])
def test_frank_wolfe(epsilon: float, adjacency: str, root: float) -> None:
    """sigma of Algorithm 1 line 2; the price of T - 1 posts, the first of them with rows up to L only."""
    delta, n_iter, row_norm = 1e-6, 7, 3.0
    plan = PublishedFrankWolfe(epsilon, delta, adjacency, n_iter=n_iter, row_norm=row_norm).plan(DOMAIN)
    noise = row_norm**2 * math.sqrt(64.0 * 8 * math.log(1e6)) / epsilon
    for t, line in enumerate(plan.lines):
        moved = root * (row_norm**2 if t == 0 else 4.0 * row_norm**2)
        assert line.mechanism.noise_multiplier * moved == pytest.approx(noise)  # type: ignore[attr-defined]
    mu = root * row_norm**2 * math.sqrt(1.0 + 6 * 16.0) / noise
    assert plan.price.epsilon == pytest.approx(gaussian_epsilon(mu, delta), rel=1e-6)
    assert "published" in str(plan.guarantee())
    # Definition 2.2 of the paper (replace-one) is not met at epsilon = 20.
    assert (plan.price.epsilon > epsilon) == (adjacency == "replace-one" and epsilon == 20.0)


def test_svd() -> None:
    plan = PublishedSVD(2.0, 1e-6, row_norm=3.0).plan(DOMAIN)
    noise = 9.0 * math.sqrt(64.0 * math.log(1e6)) / 2.0
    assert plan.price.epsilon == pytest.approx(gaussian_epsilon(9.0 / noise, 1e-6), rel=1e-6)


@pytest.mark.parametrize("epsilon", [2.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize(("omega", "n_iter"), [(0.05, 40), (0.5, 10)])
def test_lmc(epsilon: float, omega: float, n_iter: int) -> None:
    """By hand: with L = ln(1/delta), nu_1^2 = 8 T (L + eps) a^4/(omega eps^2) and nu_2^2 = 16 T (L + eps) G^2 a^2 /
    ((1 - omega) eps^2) against moves of sqrt(2) a^2 and 2 G a give mu^2 = eps^2/(4 (L + eps)), whatever omega and T."""
    log = math.log(1.0 / DELTA)
    shared: dict[str, Any] = {"density": 0.4, "balance_share": omega, "n_iter": n_iter, "rank": 5, "start": "random"}
    plan = PublishedLMC(epsilon, DELTA, "replace-one", **shared).plan(LARGER)
    mu = epsilon / (2.0 * math.sqrt(log + epsilon))
    assert plan.price.mu == pytest.approx(mu, rel=1e-9)
    assert plan.price.epsilon == pytest.approx(gaussian_epsilon(mu, DELTA), rel=1e-6)
    # The paper books sqrt(2) more on every line, and a conversion that costs more again: its claim holds with room.
    booked_rho = epsilon**2 / (4.0 * (log + epsilon))
    assert booked_epsilon(plan) == pytest.approx(booked_rho + 2.0 * math.sqrt(booked_rho * log), rel=1e-9)
    assert plan.price.epsilon < 0.6 * epsilon < booked_epsilon(plan) < epsilon
    added = PublishedLMC(epsilon, DELTA, **shared).plan(LARGER)
    # Add/remove: a^2 and G a in place of sqrt(2) a^2 and 2 G a.
    assert added.price.mu == pytest.approx(mu * math.sqrt(omega / 2.0 + (1.0 - omega) / 4.0), rel=1e-9)


def test_the_start_of_lmc_is_in_the_same_plan() -> None:
    """nu_0 = 4 G^2 sqrt(L)/eps_0 against sqrt(2) G^2: mu_0^2 = eps_0^2/(8 L), on top of the descent at what is left."""
    log = math.log(1.0 / DELTA)
    plan = PublishedLMC(5.0, DELTA, "replace-one", rank=5, density=0.4, start_epsilon=1.0).plan(LARGER)
    assert plan.price.mu**2 == pytest.approx(16.0 / (4.0 * (log + 4.0)) + 1.0 / (8.0 * log), rel=1e-9)
    assert plan.guarantee().caveats


@pytest.mark.parametrize(
    "estimator",
    [
        PublishedFrankWolfe(1.0, DELTA, form="power"),
        PublishedSVD(1.0, DELTA, scaling="posted"),  # a post that the paper leaves out
        PublishedLMC(1.0, DELTA),  # so is the density
        PublishedLMC(1.0, DELTA, density=0.4, start_epsilon=1.0),  # nothing is left for the descent
        PublishedLMC(9.0, DELTA, density=0.4, balance_share=1.0),
    ],
)
def test_what_the_papers_do_not_have_is_refused(estimator: Any) -> None:
    with pytest.raises(InputError):
        estimator.plan(DOMAIN)
    large = lk.Domain(items=5000, rating_range=(1, 5), expected_users=9)
    with pytest.raises(InputError, match="gram"):
        PublishedFrankWolfe(1.0, DELTA).plan(large)


CROWD = taste(400, 30, 10.0, seed=1)
PUBLISHED = [
    PublishedALS(1.0, DELTA, rank=2, n_iter=2, max_ratings=10, noise=ALS_NOISE),
    PublishedFrankWolfe(1.0, DELTA, n_iter=2),
    PublishedSVD(1.0, DELTA, rank=2),
    PublishedLMC(1.0, DELTA, rank=2, n_iter=2, density=0.3, start_epsilon=0.2),
]


@pytest.mark.parametrize("estimator", PUBLISHED, ids=lambda e: type(e).__name__)
def test_a_fit_makes_the_posts_of_its_plan_and_ample_noise_may_be_released(estimator: Any, tmp_path: Path) -> None:
    fitted = clone(estimator).fit(CROWD.ratings())
    plan = fitted.plan(CROWD.ratings().domain)
    assert fitted.guarantee_.epsilon == pytest.approx(plan.price.epsilon)
    assert fitted.guarantee_.epsilon < 1.0
    assert plan.settings["asked_epsilon"] == 1.0
    fitted.release(tmp_path / "ample")


@pytest.mark.parametrize(
    "estimator",
    [
        PublishedALS(1.0, DELTA, rank=2, n_iter=2, max_ratings=10, noise=(3.0, 3.0, 3.0)),
        PublishedFrankWolfe(20.0, DELTA, "replace-one", n_iter=7),
    ],
    ids=lambda e: type(e).__name__,
)
def test_noise_that_is_worth_less_than_was_asked_is_not_released(estimator: Any, tmp_path: Path) -> None:
    fitted = estimator.fit(CROWD.ratings())
    assert fitted.guarantee_.epsilon > estimator.epsilon
    with pytest.raises(VerifyError, match=r"as published for epsilon = .*, with which only"):
        fitted.release(tmp_path / "short")
    assert not (tmp_path / "short").exists()


def test_noise_that_was_not_stated_leaves_no_epsilon(tmp_path: Path) -> None:
    binary = taste(400, 30, 10.0, seed=1, feedback="binary").ratings()
    fitted = PublishedALS(1.0, DELTA, rank=2, n_iter=2, max_ratings=10, noise=ALS_NOISE).fit(binary)
    assert math.isinf(fitted.guarantee_.epsilon)
    with pytest.raises(VerifyError, match="at no epsilon"):
        fitted.release(tmp_path / "none")
