"""Table 4 of the DPALS paper: plans built from its columns report what PAPERS.md section 1 computes for them."""

from __future__ import annotations

import math

import pytest

import lowkey as lk
from lowkey.errors import InputError
from lowkey.privacy.plan import Plan
from lowkey_lab.dpals_table4 import ML_10M, ML_10M_DELTA, ML_10M_TOP400, ML_20M, ML_20M_DELTA, Column
from lowkey_lab.published.als import PublishedALS, exact_noise_factor, published_plan, renyi_epsilon

N_ITEMS = {ML_10M: 10_677, ML_10M_TOP400: 400, ML_20M: 20_108}  # Table 2


def plan_of(columns: tuple[Column, ...], column: Column, delta: float, **changes: bool) -> Plan:
    return published_plan(
        n_items=N_ITEMS[columns],
        rank=column.rank,
        n_iter=column.n_iter,
        max_ratings=column.max_ratings,
        gram_noise=column.gram_noise,
        rhs_noise=column.rhs_noise,
        preprocessing_noise=column.preprocessing_noise,
        delta=delta,
        unobserved_weight=column.global_reg,
        **changes,
    )


@pytest.mark.parametrize(
    ("columns", "delta", "as_published", "renyi", "exact"),
    [
        (ML_10M, ML_10M_DELTA, True, (1.001, 5.008, 10.041, 19.824), (0.742, 4.124, 8.592, 17.533)),
        (ML_10M, ML_10M_DELTA, False, (1.115, 5.713, 11.771, 21.050), (0.833, 4.740, 10.155, 18.667)),
        (ML_10M_TOP400, ML_10M_DELTA, True, (0.801, 4.006, 7.387, 14.871), None),
        (ML_10M_TOP400, ML_10M_DELTA, False, None, (0.607, 3.263, 6.702, 13.306)),
        (ML_20M, ML_20M_DELTA, True, (1.011, 5.047, 10.078, 20.135), None),
        (ML_20M, 1e-5, True, (0.998, 4.985, 9.964, 19.932), None),
    ],
)
def test_epsilons_to_the_printed_digits(columns, delta, as_published, renyi, exact):
    plans = [plan_of(columns, column, delta, mean_as_published=as_published) for column in columns]
    if renyi is not None:
        assert tuple(round(renyi_epsilon(plan), 3) for plan in plans) == renyi
    if exact is not None:
        assert tuple(round(plan.price.epsilon, 3) for plan in plans) == exact


def test_a_round_is_priced_for_both_of_its_releases():
    """k/sigma_G^2 + k/sigma_g^2 per round in mu^2, not the one term of Theorem 1; at values where the two differ."""
    plan = plan_of(ML_10M, ML_10M[1], ML_10M_DELTA)
    preprocessing = 4 * 50 / 20**2
    assert plan.price.mu**2 == pytest.approx(2 * 50 / 27.8**2 + 2 * 50 / 13.9**2 + preprocessing, rel=1e-9)


def test_exact_calibration_needs_less_noise_for_the_claimed_epsilon():
    """At the Rényi noise of epsilon = 1, 5, 10, 20 and delta = 1e-5 the factors are those of PAPERS.md section 1."""
    for epsilon, printed in zip((1, 5, 10, 20), (0.761, 0.846, 0.880, 0.911), strict=True):
        # One release of 3 ratings per user, with the noise at which the Rényi conversion gives epsilon.
        mu = math.sqrt(2) * (math.sqrt(math.log(1e5) + epsilon) - math.sqrt(math.log(1e5)))
        fields = {"n_items": 10, "rank": 2, "n_iter": 1, "max_ratings": 3, "delta": 1e-5}
        noise = math.sqrt(3) / mu
        plan = published_plan(**fields, gram_noise=noise, rhs_noise=1e9, preprocessing_noise=1e9)
        assert renyi_epsilon(plan) == pytest.approx(epsilon, rel=1e-6)
        assert round(exact_noise_factor(plan, epsilon), 3) == printed
        rescaled = published_plan(
            **fields, gram_noise=noise * exact_noise_factor(plan, epsilon), rhs_noise=1e9, preprocessing_noise=1e9
        )
        assert rescaled.price.epsilon == pytest.approx(epsilon, rel=1e-6)


def test_what_does_not_hold_for_every_data_set_reports_infinity():
    assert math.isinf(plan_of(ML_10M, ML_10M[0], 1e-5, user_counts_normalised=True).guarantee().epsilon)
    assert math.isinf(plan_of(ML_10M, ML_10M[0], 1e-5, mean_as_published=True).guarantee().epsilon)
    assert math.isinf(plan_of(ML_20M, ML_20M[0], ML_20M_DELTA).guarantee().epsilon)  # no noise is stated for K
    sound = plan_of(ML_10M, ML_10M[0], 1e-5)
    assert round(sound.guarantee().epsilon, 3) == 0.833
    assert "published" in sound.table()


def test_nonsense_is_refused():
    with pytest.raises(InputError, match="max_ratings"):
        plan_of(ML_10M, ML_10M[0]._replace(max_ratings=0), 1e-5)


@pytest.mark.parametrize(
    ("columns", "exact"),
    [(ML_10M, (0.833, 4.740, 10.155, 18.667)), (ML_10M_TOP400, (0.607, 3.263, 6.702, 13.306))],
)
def test_the_estimator_with_the_published_noise_prints_what_holds(columns, exact):
    """``PublishedALS`` posts item means in place of counts, counts and mean, at the same price."""
    domain = lk.Domain(N_ITEMS[columns], (0.5, 5.0))
    plans = [published_estimator(column).plan(domain) for column in columns]
    assert tuple(round(plan.guarantee().epsilon, 3) for plan in plans) == exact
    for plan, column in zip(plans, columns, strict=True):
        assert plan.price.mu == pytest.approx(plan_of(columns, column, ML_10M_DELTA).price.mu, rel=1e-12)
        assert "as published" in plan.table()


def published_estimator(column: Column) -> PublishedALS:
    noise = (column.gram_noise, column.rhs_noise, column.preprocessing_noise)
    fields = {"rank": column.rank, "n_iter": column.n_iter, "max_ratings": column.max_ratings}
    return PublishedALS(column.claimed_epsilon, 1e-5, noise=noise, **fields)


def test_binary_feedback_without_noise_for_the_implicit_term_has_no_epsilon():
    domain = lk.Domain(N_ITEMS[ML_20M], None, "binary")
    assert math.isinf(published_estimator(ML_20M[0]).plan(domain).guarantee().epsilon)
    stated = published_estimator(ML_20M[0])
    stated.set_params(noise=(*stated.noise, 64.0))
    column = ML_20M[0]
    k, rounds = column.max_ratings, column.n_iter
    expected = rounds * (2 * k / 64.0**2 + 1 / 64.0**2) + 2 * k / column.preprocessing_noise**2
    assert stated.plan(domain).price.mu ** 2 == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "change", [{"noise": None}, {"noise": (1.0, 2.0)}, {"noise": (1.0, 0.0, 2.0)}, {"max_ratings": None}]
)
def test_published_noise_needs_the_noise_and_k(change):
    model = published_estimator(ML_10M[0]).set_params(**change)
    with pytest.raises(InputError):
        model.plan(lk.Domain(100, (0.5, 5.0)))
