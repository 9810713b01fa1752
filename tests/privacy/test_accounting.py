"""The accountant against the papers' numbers, 50-digit arithmetic, exact compositions and dp_accounting."""

from __future__ import annotations

import itertools
import math
import time

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant

from lowkey.privacy.accounting import (
    Event,
    calibrated_scale,
    composed_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    rdp_epsilon,
    second_opinion,
    selection_delta,
    selection_threshold,
    total_mu,
)
from lowkey_lab.dpals_table4 import ML_10M, ML_10M_DELTA, ML_10M_TOP400, ML_20M, ML_20M_DELTA, Column

mp.mp.dps = 50
DELTAS = [0.5, *(10.0**-n for n in range(1, 16)), 1e-100]
MUS = [*np.geomspace(1e-6, 60.0, 30).tolist(), 1e-3, 0.1, 1.0, 10.0, 40.0, 45.0]


def true_delta(mu: float, epsilon: mp.mpf | float) -> mp.mpf:
    """The closed form, to 50 digits; epsilon may be negative, mu may be 0."""
    if mu == 0.0:
        return max(mp.mpf(0), -mp.expm1(epsilon))
    mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def true_composed_delta(mu: float, losses: list[dict[mp.mpf, mp.mpf]], epsilon: float) -> mp.mpf:
    """Gaussians and discrete releases: the mean of the Gaussian delta over the sum of the discrete losses."""
    total = mp.mpf(0)
    for path in itertools.product(*(release.items() for release in losses)):
        weight = mp.fprod(probability for _, probability in path)
        total += weight * true_delta(mu, mp.mpf(epsilon) - mp.fsum(loss for loss, _ in path))
    return total


def response_losses(noise_parameter: mp.mpf | float, buckets: int) -> dict[mp.mpf, mp.mpf]:
    lie = mp.mpf(noise_parameter) / buckets
    truth = 1 - lie * (buckets - 1)
    loss = mp.log(truth / lie)
    return {loss: truth, -loss: lie} | ({mp.mpf(0): 1 - truth - lie} if buckets > 2 else {})


def pure_losses(epsilon: float) -> dict[mp.mpf, mp.mpf]:
    return response_losses(2 / (1 + mp.exp(mp.mpf(epsilon))), 2)


# --- the facts of PAPERS.md section 1 ---


def price(column: Column, preprocessing: float) -> float:
    """rho^2 of all releases; ``preprocessing`` counts what Algorithm 3 costs in units of 1/sigma_p^2."""
    rounds = 0.5 / column.gram_noise**2 + 0.5 / column.rhs_noise**2
    return column.max_ratings * column.n_iter * rounds + preprocessing / column.preprocessing_noise**2


def as_published(column: Column) -> float:
    return price(column, column.max_ratings + 1)


def with_the_mean_priced_rightly(column: Column) -> float:
    return price(column, 2 * column.max_ratings)


def exact_epsilon(rho_squared: float, delta: float) -> float:
    return gaussian_epsilon(math.sqrt(2 * rho_squared), delta)


@pytest.mark.parametrize(
    ("columns", "price_of", "epsilon_of", "delta", "printed"),
    [
        (ML_10M, as_published, rdp_epsilon, ML_10M_DELTA, (1.001, 5.008, 10.041, 19.824)),
        (ML_20M, as_published, rdp_epsilon, ML_20M_DELTA, (1.011, 5.047, 10.078, 20.135)),
        (ML_20M, as_published, rdp_epsilon, 1e-5, (0.998, 4.985, 9.964, 19.932)),
        (ML_10M_TOP400, as_published, rdp_epsilon, ML_10M_DELTA, (0.801, 4.006, 7.387, 14.871)),
        (ML_10M, as_published, exact_epsilon, ML_10M_DELTA, (0.742, 4.124, 8.592, 17.533)),
        (ML_10M, with_the_mean_priced_rightly, rdp_epsilon, ML_10M_DELTA, (1.115, 5.713, 11.771, 21.050)),
        (ML_10M, with_the_mean_priced_rightly, exact_epsilon, ML_10M_DELTA, (0.833, 4.740, 10.155, 18.667)),
        (ML_10M_TOP400, with_the_mean_priced_rightly, exact_epsilon, ML_10M_DELTA, (0.607, 3.263, 6.702, 13.306)),
    ],
)
def test_table_4_of_the_paper(columns, price_of, epsilon_of, delta, printed):
    assert tuple(round(epsilon_of(price_of(column), delta), 3) for column in columns) == printed


def test_the_noise_that_exact_accounting_needs_in_units_of_the_renyi_noise():
    def renyi_mu(epsilon: float) -> float:
        return math.sqrt(2) * (math.sqrt(math.log(1e5) + epsilon) - math.sqrt(math.log(1e5)))

    ratios = tuple(round(renyi_mu(epsilon) / gaussian_mu(epsilon, 1e-5), 3) for epsilon in (1, 5, 10, 20))
    assert ratios == (0.761, 0.846, 0.880, 0.911)
    assert rdp_epsilon(renyi_mu(5) ** 2 / 2, 1e-5) == pytest.approx(5)


# --- the Gaussian closed form ---


@pytest.mark.parametrize("mu", MUS)
def test_gaussian_epsilon_is_never_below_and_hardly_above_the_truth(mu):
    for delta in DELTAS:
        epsilon = gaussian_epsilon(mu, delta)
        assert true_delta(mu, epsilon) <= mp.mpf(delta)
        if epsilon > 0.0:
            assert true_delta(mu, epsilon * (1 - 1e-6)) > mp.mpf(delta)
            assert epsilon < rdp_epsilon(mu * mu / 2, delta)
        else:
            assert true_delta(mu, 0.0) <= mp.mpf(delta)


def test_epsilon_is_zero_exactly_where_total_variation_is_at_most_delta():
    # delta(0) = 2 Phi(mu/2) - 1 is about 0.4 mu.
    assert gaussian_epsilon(1e-6, 4e-7) == 0.0
    assert gaussian_epsilon(1e-6, 3.98e-7) > 0.0
    assert gaussian_epsilon(gaussian_mu(0.0, 1e-3), 1e-3) == 0.0
    assert gaussian_mu(0.0, 1e-3) == pytest.approx(1e-3 * math.sqrt(2 * math.pi), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 1e-3, 0.1, 1.0, 7.0, 100.0, 1e3])
def test_gaussian_delta_is_never_below_and_hardly_above_the_truth(epsilon):
    for mu in MUS:
        delta, truth = gaussian_delta(mu, epsilon), true_delta(mu, epsilon)
        assert mp.mpf(delta) >= truth
        assert delta > 0.0
        if truth > 1e-300:
            assert delta <= truth * (1 + mp.mpf(1e-10))


@pytest.mark.parametrize("epsilon", [1e-3, 0.01, 0.1, 1.0, 5.0, 20.0, 1e3])
def test_gaussian_mu_keeps_what_was_asked_and_wastes_nothing(epsilon):
    for delta in DELTAS:
        mu = gaussian_mu(epsilon, delta)
        assert true_delta(mu, epsilon) <= mp.mpf(delta)
        assert true_delta(mu * (1 + 1e-9), epsilon) > mp.mpf(delta)
        assert 0.999 * epsilon <= gaussian_epsilon(mu, delta) <= epsilon


def test_edges_of_the_gaussian():
    assert gaussian_epsilon(0.0, 0.0) == gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == gaussian_epsilon(1e-9, 0.0) == math.inf
    assert gaussian_delta(0.0, 0.0) == gaussian_delta(3.0, math.inf) == 0.0
    assert gaussian_delta(math.inf, 5.0) == gaussian_delta(1e6, 0.0) == 1.0
    assert gaussian_delta(1e-3, 1e3) == 5e-324  # positive, and too small for a float
    assert gaussian_mu(1.0, 0.0) == 0.0
    assert gaussian_mu(math.inf, 1e-5) == math.inf
    assert rdp_epsilon(0.0, 0.0) == 0.0
    assert rdp_epsilon(0.3, 0.0) == math.inf


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: gaussian_epsilon(-1.0, 1e-5), "mu: got -1.0"),
        (lambda: gaussian_epsilon(math.nan, 1e-5), "mu: got nan"),
        (lambda: gaussian_epsilon(1.0, 1.0), "delta: got 1.0"),
        (lambda: gaussian_epsilon(1.0, -1e-9), "delta: got -1e-09"),
        (lambda: gaussian_delta(1.0, -0.1), "epsilon: got -0.1"),
        (lambda: gaussian_mu(1.0, 2.0), "delta: got 2.0"),
        (lambda: rdp_epsilon(-1.0, 1e-5), "rho_squared: got -1.0"),
        (lambda: composed_epsilon(1.0, [-0.5], 1e-5), "pure epsilon: got -0.5"),
        (lambda: composed_epsilon(1.0, [dp_event.LaplaceDpEvent(-1.0)], 1e-5), "noise: got -1.0"),
        (lambda: composed_epsilon(1.0, [dp_event.RandomizedResponseDpEvent(1.5, 4)], 1e-5), "event: got Randomized"),
        (lambda: composed_epsilon(1.0, [dp_event.UnsupportedDpEvent()], 1e-5), "event: got Unsupported"),
        (lambda: composed_epsilon(1.0, [dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(1), 0)], 0.1), "count: got 0"),
        (lambda: calibrated_scale(0.0, [0.1], 1.0, 1e-5), "mu: got 0.0"),
        (lambda: calibrated_scale(1.0, [0.9, 0.9], 1.0, 0.0), "epsilon: got 1.0"),
        (lambda: selection_delta(0.0, 5.0, 3), "noise_std: got 0.0"),
        (lambda: selection_delta(1.0, math.inf, 3), "threshold: got inf"),
        (lambda: selection_threshold(1.0, 0, 1e-5), "max_items: got 0"),
        (lambda: selection_threshold(1.0, 3, 0.0), "delta: got 0.0"),
        (lambda: selection_threshold(1.0, 3, 1e-5, adjacency="replace_one"), "adjacency: got 'replace_one'"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_say_what_got_needed_try(call, what):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).startswith(what)
    assert ", needed " in str(error.value)
    assert ". Try " in str(error.value)


def test_total_mu_is_the_root_of_the_sum_of_squares_rounded_up():
    mus = [0.1, 0.7, 1e-3, 0.3, 0.3]
    truth = mp.sqrt(mp.fsum(mp.mpf(mu) ** 2 for mu in mus))
    assert truth <= mp.mpf(total_mu(mus)) <= truth * (1 + mp.mpf(1e-15))
    assert total_mu([]) == 0.0
    assert total_mu([0.3]) == 0.3
    assert total_mu([0.0, math.inf]) == math.inf
    assert total_mu([1e-200] * 4) >= 2e-200


# --- compositions with other releases ---


MIXED: list[tuple[float, list[Event], list[dict[mp.mpf, mp.mpf]]]] = [
    (0.0, [0.25] * 6, [pure_losses(0.25)] * 6),
    (0.3, [0.1] * 3, [pure_losses(0.1)] * 3),
    (1.0, [0.5, 0.5, 1.25], [pure_losses(0.5)] * 2 + [pure_losses(1.25)]),
    (5.0, [1.0] * 4, [pure_losses(1.0)] * 4),
    (0.02, [0.01] * 3, [pure_losses(0.01)] * 3),
    (
        0.5,
        [dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(0.6, 5), 3), 0.2],
        [response_losses(0.6, 5)] * 3 + [pure_losses(0.2)],
    ),
]


@pytest.mark.parametrize(("mu", "events", "losses"), MIXED)
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_mixed_compositions_are_never_below_and_hardly_above_the_exact_sum(mu, events, losses, delta):
    epsilon = composed_epsilon(mu, events, delta)
    assert true_composed_delta(mu, losses, epsilon) <= delta
    assert true_composed_delta(mu, losses, epsilon * (1 - 2e-3)) > delta
    assert second_opinion(mu, events, delta) >= epsilon * (1 - 1e-4)


def test_pure_releases_add_up_and_need_no_delta():
    assert composed_epsilon(0.0, [1.0], 0.0) == 1.0
    assert composed_epsilon(0.0, [0.25] * 4, 0.0) == 1.0
    assert composed_epsilon(0.0, [0.1] * 10, 0.0) == math.nextafter(1.0, 2.0)  # the float 0.1 is above 1/10
    assert composed_epsilon(0.0, [dp_event.LaplaceDpEvent(2.0), 1.5], 0.0) == 2.0
    response = dp_event.RandomizedResponseDpEvent(0.6, 5)
    assert composed_epsilon(0.0, [response] * 3, 0.0) == pytest.approx(3 * math.log((1 - 0.48) / 0.12), rel=1e-14)
    assert second_opinion(0.0, [dp_event.LaplaceDpEvent(2.0), 1.5, 1.5], 0.0) == pytest.approx(3.5, rel=1e-3)
    assert composed_epsilon(1e-3, [1.0], 0.0) == second_opinion(1e-3, [1.0], 0.0) == math.inf
    assert composed_epsilon(0.0, [], 0.0) == second_opinion(0.0, [], 0.0) == 0.0


def test_many_small_pure_releases_cost_less_than_their_sum():
    assert composed_epsilon(0.0, [0.1] * 100, 1e-6) < 5.0
    assert composed_epsilon(0.0, [0.1] * 100, 1e-6) < second_opinion(0.0, [0.1] * 100, 1e-6) < 5.2


def test_where_loss_distributions_do_not_reach_the_parts_are_added():
    assert composed_epsilon(1.0, [0.5, 0.25], 1e-13) == pytest.approx(gaussian_epsilon(1.0, 1e-13) + 0.75, rel=1e-12)
    assert composed_epsilon(40.0, [900.0], 1e-5) == pytest.approx(gaussian_epsilon(40.0, 1e-5) + 900.0, rel=1e-12)
    assert second_opinion(40.0, [900.0], 1e-5) >= 900.0


def test_laplace_lies_between_its_optimistic_distribution_and_the_sum():
    step = 1e-3
    laplace = pld.from_laplace_mechanism(2.0, pessimistic_estimate=False, value_discretization_interval=step)
    gaussian = pld.from_gaussian_mechanism(2.0, pessimistic_estimate=False, value_discretization_interval=step)
    optimistic = gaussian.compose(laplace.self_compose(5)).get_epsilon_for_delta(1e-6)
    booked = composed_epsilon(0.5, [dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 5)], 1e-6)
    assert optimistic <= booked <= optimistic + 10 * step
    assert booked < composed_epsilon(0.5, [0.5] * 5, 1e-6)  # a bare epsilon is the worst pure mechanism


def test_gaussian_events_join_mu():
    events = [dp_event.GaussianDpEvent(2.0), dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(4.0), 3)]
    assert composed_epsilon(0.75, events, 1e-6) == pytest.approx(gaussian_epsilon(1.0, 1e-6), rel=1e-12)
    nested = dp_event.ComposedDpEvent([*events, dp_event.NoOpDpEvent()])
    assert composed_epsilon(0.75, [nested], 1e-6) == composed_epsilon(0.75, events, 1e-6)
    assert composed_epsilon(0.75, [dp_event.NonPrivateDpEvent()], 1e-6) == math.inf
    assert second_opinion(0.75, [dp_event.GaussianDpEvent(0.0)], 1e-6) == math.inf


def test_a_repeated_randomized_response_is_paid_every_time():
    # dp_accounting 0.6.0 books a self-composed randomized response once: why its accountant is not used here.
    response = dp_event.RandomizedResponseDpEvent(0.5, 2)
    repeated = dp_event.SelfComposedDpEvent(response, 5)
    theirs = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(repeated).get_epsilon(1e-6)
    assert theirs == pytest.approx(math.log(3), rel=1e-3)
    assert composed_epsilon(0.0, [repeated], 1e-6) == composed_epsilon(0.0, [response] * 5, 1e-6) > 4.9 * math.log(3)


@pytest.mark.parametrize(("events", "epsilon"), [([], 2.0), ([0.25] * 3, 2.0), ([dp_event.LaplaceDpEvent(1.0)], 5.0)])
def test_calibrated_scale_spends_what_is_left_and_not_more(events, epsilon):
    scale = calibrated_scale(0.7, events, epsilon, 1e-6)
    assert epsilon * (1 - 1e-3) <= composed_epsilon(scale * 0.7, events, 1e-6) <= epsilon


def test_calibrated_scale_where_the_events_leave_next_to_nothing():
    spent = composed_epsilon(0.0, [0.5] * 3, 1e-6)
    with pytest.raises(ValueError, match="epsilon: got"):
        calibrated_scale(1.0, [0.5] * 3, spent, 1e-6)
    scale = calibrated_scale(1.0, [0.5] * 3, spent * (1 + 1e-4), 1e-6)
    assert 0.0 < scale < 1e-2
    assert composed_epsilon(scale, [0.5] * 3, 1e-6) <= spent * (1 + 1e-4)


# --- the second accountant ---


@pytest.mark.parametrize("mu", [1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 25.0, 40.0, 150.0])
def test_the_second_accountant_agrees(mu):
    for delta in (1e-2, 1e-5, 1e-9, 1e-15):
        started = time.process_time()
        second = second_opinion(mu, [], delta)
        assert time.process_time() - started < 2.0
        booked = gaussian_epsilon(mu, delta)
        assert booked * (1 - 1e-9) <= second <= booked * (1 + 1e-5)


@pytest.mark.parametrize("mu", [0.01, 1.0, 10.0, 40.0, 400.0])
def test_the_renyi_accountant_is_above_the_closed_form(mu):
    renyi = RdpAccountant(list(1 + np.geomspace(0.011, 1e5, 200))).compose(dp_event.GaussianDpEvent(1 / mu))
    for delta in (1e-2, 1e-5, 1e-9):
        assert gaussian_epsilon(mu, delta) <= renyi.get_epsilon(delta)
        if mu > 200.0:
            assert gaussian_epsilon(mu, delta) < second_opinion(mu, [], delta) < 1.02 * gaussian_epsilon(mu, delta)


# --- private selection ---


def true_selection_delta(noise_std: float, threshold: float, max_items: int) -> mp.mpf:
    def listed(m: int) -> mp.mpf:
        return 1 - mp.ncdf((mp.mpf(threshold) - 1 / mp.sqrt(m)) / mp.mpf(noise_std)) ** m

    return max(listed(m) for m in range(1, max_items + 1))


@pytest.mark.parametrize(("noise_std", "threshold"), [(1.0, 2.0), (3.0, 20.0), (0.2, 2.1), (1e-3, 1.007), (50.0, 10.0)])
def test_selection_delta_is_never_below_and_hardly_above_the_truth(noise_std, threshold):
    for max_items in (1, 2, 7, 60):
        truth, delta = (
            true_selection_delta(noise_std, threshold, max_items),
            selection_delta(noise_std, threshold, max_items),
        )
        assert truth <= mp.mpf(delta) <= truth * (1 + mp.mpf(1e-9))
        assert selection_delta(noise_std, threshold, max_items, adjacency="replace-one") == min(1.0, 2 * delta)
    assert selection_delta(1e-3, 50.0, 7) > 0.0


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_selection_threshold_is_the_lowest_that_keeps_delta(delta, adjacency):
    for noise_std, max_items in itertools.product((0.05, 1.0, 30.0), (1, 5, 50, 1000)):
        threshold = selection_threshold(noise_std, max_items, delta, adjacency=adjacency)
        assert selection_delta(noise_std, threshold, max_items, adjacency=adjacency) <= delta
        lower = threshold - 1e-7 * noise_std
        assert selection_delta(noise_std, lower, max_items, adjacency=adjacency) > delta


@pytest.mark.parametrize(("noise_std", "threshold", "worst"), [(0.5, 1.6, 1), (2.0, 4.0, 12)])
def test_attack_on_the_selection_delta(noise_std, threshold, worst):
    # Users try every number of items; the worst of them is betrayed as often as delta says, few or many.
    rng, n_trials = np.random.default_rng(7), 200_000
    frequencies: list[float] = []
    for m in range(1, 13):
        noisy = 1 / math.sqrt(m) + noise_std * rng.standard_normal((n_trials, m), dtype=np.float32)
        frequencies.append(float(np.mean(np.any(noisy > threshold, axis=1))))
    delta = selection_delta(noise_std, threshold, 12)
    assert max(frequencies) == pytest.approx(delta, abs=4 * math.sqrt(delta / n_trials))
    assert 1 + int(np.argmax(frequencies)) == worst
