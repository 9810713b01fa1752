"""One-bit completion as published: what a distinguisher measures, how far the minimiser moves, and which epsilon holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from test_one_bit_attack import SIDE, measured_epsilon
from test_one_bit_attack import pivot as all_liked
from test_one_bit_replay import SHARED, flipped, moved, pivot

from lowkey.data.positions import Positions
from lowkey.errors import InputError, VerifyError
from lowkey.linalg.links import link_of
from lowkey_lab.one_bit import rank_one
from lowkey_lab.published.one_bit import PublishedMinimiser, PublishedOneBit


def planned(estimator: PublishedOneBit) -> Any:
    ratings = all_liked(1.0)
    return estimator.plan(ratings.domain, Positions.of(ratings))


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_published_output_perturbation_is_not_epsilon_private(epsilon: float) -> None:
    """False alarm: as of ``measured_epsilon``."""
    published = PublishedOneBit(epsilon, perturbation="output", tol=1e-5, max_iter=200)
    measured = measured_epsilon(published)
    print(f"output perturbation as published, epsilon = {epsilon:g}: at least {measured:.2f} measured")
    assert measured > epsilon
    # What the plan books holds: every entry may move by 2 alpha.
    assert planned(published).price.epsilon == pytest.approx(epsilon * SIDE * SIDE, rel=1e-6)


def test_the_published_minimiser_moves_further_than_the_paper_says() -> None:
    """2 alpha bounds one entry; one flip moves the whole row. The bound that is booked does hold."""
    rows = pivot(40, 40)
    sweep = PublishedMinimiser(**SHARED, link=link_of("logistic"), entry_bound=1.0, radius=40.0, tol=1e-5, max_iter=200)
    distance, bound = moved(sweep, rows, flipped(rows, 39 * 40))
    assert 2.0 * 30.0 < distance <= bound


def test_published_objective_perturbation_costs_twice_what_it_says() -> None:
    assert planned(PublishedOneBit(1.5, perturbation="objective")).price.epsilon == pytest.approx(3.0, rel=1e-6)
    probit = PublishedOneBit(1.5, perturbation="objective", link="probit")
    assert math.isinf(planned(probit).guarantee().epsilon)


@pytest.mark.parametrize("perturbation", ["objective", "output"])
def test_noise_that_is_worth_less_than_was_asked_is_not_released(perturbation: str, tmp_path: Path) -> None:
    _, ratings = rank_one(12, 0.5, "logistic", seed=0)
    short = PublishedOneBit(2.0, perturbation=perturbation, tol=0.05, max_iter=5).fit(ratings)
    held = {"objective": 4.0, "output": 2.0 * 12 * 12}[perturbation]
    assert short.guarantee_.epsilon == pytest.approx(held, rel=1e-6)
    with pytest.raises(VerifyError, match="as published for epsilon = 2, with which only"):
        short.release(tmp_path / "short")
    assert not (tmp_path / "short").exists()


@pytest.mark.parametrize("wrong", [{"delta": 1e-6}, {"unit": "user", "max_ratings": 3}])
def test_what_the_paper_does_not_have_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the published form"):
        PublishedOneBit(**{"epsilon": 1.0, **wrong}).fit(all_liked(1.0))
