"""Lab room: the contract of what a fit costs and keeps: what privacy adds to scikit-learn's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowkey.data.ratings import Ratings
from lowkey.engines.local import LocalEngine
from lowkey.errors import BudgetError, InputError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.noise import SeededNoise
from lowkey.testing.cases import Case, base_keys, base_ratings, base_rows, ratings_of
from lowkey.testing.checks import baselines, every, fitted, private, refuses


@private
def booked_is_at_most_asked(case: Case) -> None:
    for epsilon in (0.1, 1.0, 20.0):
        _booked_is_at_most(case, epsilon)


def _booked_is_at_most(case: Case, epsilon: float) -> None:
    estimator = case.make(epsilon=epsilon).fit(base_ratings(case.domain), engine=LocalEngine(n_jobs=1))
    guarantee = estimator.guarantee_
    assert case.spends * epsilon <= guarantee.epsilon <= epsilon
    assert guarantee.delta <= 1e-6
    assert guarantee.noise_is_private
    for word in (guarantee.unit.protected, guarantee.unit.compared, "epsilon", "delta"):
        assert word in str(guarantee)
    assert estimator.plan(case.domain).guarantee().epsilon >= guarantee.epsilon * (1 - 1e-9)
    assert "NOT PRIVATE" not in guarantee.sentence()


@baselines
def a_baseline_says_that_it_is_not_private(case: Case) -> None:
    assert fitted(case).guarantee_.epsilon == math.inf
    assert "NOT PRIVATE" in fitted(case).guarantee_.sentence()


@private
def epsilon_and_delta_have_no_default(case: Case) -> None:
    for missing in ("epsilon", "delta"):
        with refuses(InputError, f"{missing}.*no default"):
            case.make(**{missing: None}).fit(base_ratings(case.domain))


@private
def the_plan_needs_no_data(case: Case) -> None:
    """The plan is made from public facts; a fit posts nothing else."""
    plan = case.make().plan(case.domain)
    assert fitted(case).ledger_.plans()[0].to_json() == plan.to_json()


@private
def two_fits_on_one_ledger_compose(case: Case) -> None:
    ledger = Ledger()
    for _ in range(2):
        estimator = case.make().fit(
            base_ratings(case.domain), engine=LocalEngine(n_jobs=1), billboard=Billboard(ledger, noise=SeededNoise(1))
        )
    assert len(estimator.ledger_.plans()) == 2
    assert estimator.guarantee_.epsilon > 1.3 * fitted(case).guarantee_.epsilon
    np.testing.assert_allclose(estimator.guarantee_.mu, math.sqrt(2.0) * fitted(case).guarantee_.mu, rtol=1e-9)


@private
def a_shared_total_cannot_be_overspent(case: Case) -> None:
    ledger = Ledger(total=(1.3 * fitted(case).guarantee_.epsilon, 1e-6))
    case.make().fit(base_ratings(case.domain), billboard=Billboard(ledger), engine=LocalEngine(n_jobs=1))
    with refuses(BudgetError, ""):
        case.make().fit(base_ratings(case.domain), billboard=Billboard(ledger), engine=LocalEngine(n_jobs=1))
    assert ledger.guarantee().epsilon == fitted(case).guarantee_.epsilon


@private
def replace_one(case: Case) -> None:
    if case.protects != "users":
        return  # the positions are public: values are replaced, users never added or removed
    estimator = case.make(adjacency="replace-one").fit(base_ratings(case.domain), engine=LocalEngine(n_jobs=1))
    guarantee = estimator.guarantee_
    assert guarantee.adjacency == "replace-one"
    assert guarantee.epsilon <= 1.0
    assert "number of users" in str(guarantee)
    with refuses(InputError, "adjacency"):
        case.make(adjacency="swap").fit(base_ratings(case.domain))


@every
def nothing_of_any_user_is_kept(case: Case) -> None:
    """With 37 users, a number that occurs nowhere else: no array of that length, no key, no row."""
    rows = base_rows(case.domain, n_users=37)
    estimator = case.make().fit(ratings_of(case.domain, rows, base_keys(37)), engine=LocalEngine(n_jobs=1))
    seen: list[Any] = []
    _walk(vars(estimator), seen)
    arrays = [value for value in seen if isinstance(value, np.ndarray)]
    assert arrays
    if case.protects == "users":
        assert not [array.shape for array in arrays if 37 in array.shape or 38 in array.shape]
    keys = set(base_keys(37).tolist())
    assert not [array for array in arrays if array.dtype == np.uint64 and keys & set(array.ravel().tolist())]
    assert not [value for value in seen if isinstance(value, Ratings)]


def _walk(value: Any, seen: list[Any]) -> None:
    if any(value is other for other in seen) or isinstance(value, (str, bytes, int, float, type(None))):
        return
    seen.append(value)
    if hasattr(value, "items") and callable(value.items):
        for part in value.values():
            _walk(part, seen)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _walk(part, seen)
    elif hasattr(value, "__dict__"):
        _walk(vars(value), seen)
