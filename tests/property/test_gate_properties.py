"""What must hold for every plan, ledger and pair of people, whatever the numbers: found by hypothesis."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowkey.errors import BudgetError
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian, Laplace, Mechanism, SymmetricGaussian
from lowkey.privacy.plan import Line, Plan, Request, price
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.privacy.sums import Sensitivity

epsilons = st.floats(0.01, 50.0)
deltas = st.floats(1e-12, 1e-2)
requests = st.lists(
    st.tuples(
        st.integers(1, 10**7), st.floats(0.001, 1.0), st.integers(1, 30), st.sampled_from([Gaussian, SymmetricGaussian])
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: [Request(f"r{i}", size, share, times, noise) for i, (size, share, times, noise) in enumerate(rows)])
mechanisms = st.one_of(
    st.floats(0.5, 100.0).map(Gaussian),
    st.floats(0.5, 100.0).map(SymmetricGaussian),
    st.floats(0.5, 100.0).map(Laplace),
    st.floats(0.01, 2.0).map(RandomizedResponse),
)
lines = st.lists(st.tuples(mechanisms, st.integers(1, 1000)), min_size=1, max_size=4).map(
    lambda rows: [Line(f"l{i}", mechanism, size) for i, (mechanism, size) in enumerate(rows)]
)


@given(requests, epsilons, deltas)
def test_a_calibrated_plan_costs_what_was_asked(wanted: list[Request], epsilon: float, delta: float) -> None:
    plan = Plan.calibrated("Test", wanted, epsilon=epsilon, delta=delta)
    assert 0.999 * epsilon <= plan.price.epsilon <= epsilon
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@given(lines, deltas)
def test_more_posts_never_cost_less(posts: list[Line], delta: float) -> None:
    """And a total is never below the dearest of its posts."""
    whole = price(posts, delta).epsilon
    assert whole >= price(posts[:-1], delta).epsilon * (1 - 1e-6)
    assert whole >= max(price([line], delta).epsilon for line in posts) * (1 - 1e-6)
    assert price(posts, delta / 10).epsilon >= whole * (1 - 1e-6)


@given(mechanisms, st.integers(1, 1000), st.integers(2, 6), deltas)
def test_a_line_costs_as_much_as_its_posts_one_by_one(mechanism: Mechanism, size: int, times: int, delta: float) -> None:
    one_by_one = price([Line(f"x{i}", mechanism, size) for i in range(times)], delta).epsilon
    assert price([Line("x", mechanism, size, times)], delta).epsilon == pytest.approx(one_by_one, rel=1e-9, abs=1e-9)
    # Where the price is pure, it is the sum, and needs no delta.
    if mechanism.mu == 0.0:
        assert price([Line("x", mechanism, size, times)], 0.0).epsilon == pytest.approx(times * mechanism.epsilon, rel=1e-6)


@given(st.lists(st.floats(1.0, 50.0), min_size=1, max_size=12), st.floats(0.05, 5.0))
def test_a_total_is_never_overspent(multipliers: list[float], total: float) -> None:
    """Posts of any size in any order: each is booked if it fits and refused if not, and its refusal costs nothing."""
    ledger = Ledger(total=(total, 1e-6))
    ledger.add_plan(Plan("Test", (Line("none", Gaussian(1e9), 1),), 1e-6))
    booked = 0
    for multiplier in multipliers:
        before = ledger.head
        try:
            ledger.reserve(Line("x", Gaussian(multiplier), 3), {}, noise_is_private=True)
            booked += 1
        except BudgetError:
            assert ledger.head == before
        assert ledger.price(1e-6).epsilon <= total
    assert len(ledger.spent()) == booked
    assert Ledger.loads(ledger.dumps()).records == ledger.records


@given(st.integers(1, 5), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_acute_contributions_replace_at_root_two(rank: int, order: int, seed: int) -> None:
    """Positive semidefinite matrices and non-negative vectors: |a - b| <= sqrt(2) bound, and it is reached."""
    rng = np.random.default_rng(seed)
    bound = float(np.exp(rng.normal()))
    allowed = Sensitivity.of_acute_vectors(bound).replace_one * (1 + 1e-12)
    for make in (lambda: (x := rng.normal(size=(order, rank))) @ x.T, lambda: np.abs(rng.normal(size=order))):
        one, other = (bound * part / np.linalg.norm(part) for part in (make(), make()))
        assert np.linalg.norm(one - other) <= allowed
    apart = np.zeros((2, order))
    apart[0, 0] = apart[1, 1] = bound
    assert np.linalg.norm(apart[0] - apart[1]) == pytest.approx(allowed)
    assert np.linalg.norm(apart[0] + apart[0]) == pytest.approx(Sensitivity.of_vectors(bound).replace_one)
    assert math.isclose(Sensitivity.of_vectors(bound).add_remove, bound)
