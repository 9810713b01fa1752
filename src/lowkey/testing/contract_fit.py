"""Lab room: the contract of ``fit``: what a user of scikit-learn expects."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lowkey.data.ratings import row_keys
from lowkey.engines.local import LocalEngine
from lowkey.errors import AbsentError, InputError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey.testing.cases import Case, base_keys, base_ratings, base_rows, ratings_of
from lowkey.testing.checks import csr_of, every, fitted, private, refuses


@every
def init_only_stores(case: Case) -> None:
    """Every parameter comes back as the very object that was given, whatever it is."""
    names = [name for name in inspect.signature(case.estimator.__init__).parameters if name != "self"]
    given = {name: object() for name in names}
    estimator = case.estimator(**given)
    for name in names:
        assert getattr(estimator, name) is given[name]
        assert estimator.get_params()[name] is given[name]
    assert not [name for name in vars(estimator) if name.endswith("_")]


@every
def clone_and_set_params(case: Case) -> None:
    estimator = fitted(case)
    double: Any = clone(estimator)
    assert double.get_params() == estimator.get_params()
    assert not hasattr(double, "model_")
    assert double.set_params(**double.get_params()) is double


@every
def fit_returns_self_and_leaves_the_parameters_alone(case: Case) -> None:
    estimator = case.make()
    before = dict(estimator.get_params())
    assert estimator.fit(base_ratings(case.domain), engine=LocalEngine(n_jobs=1)) is estimator
    assert estimator.get_params() == before


@every
def a_second_fit_starts_anew(case: Case) -> None:
    """Same noise, same data: the second fit of one object is the first fit of another, on a ledger of its own."""
    estimator, models = case.make(), []
    other = ratings_of(case.domain, base_rows(case.domain, seed=99), base_keys())
    for data in (other, base_ratings(case.domain)):
        estimator.fit(data, engine=LocalEngine(n_jobs=1), billboard=Billboard(noise=SeededNoise(3)))
        models.append(estimator.model_)
    fresh = case.make().fit(
        base_ratings(case.domain), engine=LocalEngine(n_jobs=1), billboard=Billboard(noise=SeededNoise(3))
    )
    assert models[0].ledger is not models[1].ledger
    assert len(estimator.ledger_.plans()) == 1
    for name, array in fresh.model_.arrays.items():
        assert np.array_equal(estimator.model_.arrays[name], array)


@every
def a_target_is_refused(case: Case) -> None:
    with refuses(InputError, "the ratings are in X"):
        case.make().fit(base_ratings(case.domain), np.zeros(30))


@every
def what_needs_a_fit_says_so(case: Case) -> None:
    estimator = case.make()
    history = csr_of(base_rows(case.domain)[:3])
    for call in (
        lambda: estimator.predict(history),
        lambda: estimator.recommend(history),
        lambda: estimator.transform(history),
        lambda: estimator.guarantee_,
        lambda: estimator.ledger_,
        lambda: estimator.release("nowhere"),
    ):
        with refuses(InputError, "not fitted"):
            call()


@private
def a_grid_search_is_told_its_price(case: Case) -> None:
    """A search finds no ``score`` to choose by, before any fit; and who asks for it is told why there is none."""
    search = GridSearchCV(case.make(), {"epsilon": [1.0, 2.0]})
    with refuses(TypeError, "scoring"):
        search.fit(csr_of(base_rows(case.domain)))
    assert not hasattr(search, "cv_results_")
    for estimator in (case.make(), fitted(case)):
        assert not hasattr(estimator, "score")
        with refuses(AbsentError, r"every candidate's fit and every score .* composes"):
            _ = estimator.score


@every
def csr_rows_with_a_domain(case: Case) -> None:
    """CSR rows and the container give the same fit when the keys are the same."""
    rows = base_rows(case.domain)
    offsets = np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])])
    keys = row_keys(offsets, np.concatenate([items for items, _ in rows]))  # a CSR row's key is that of its items
    models = [
        case.make().fit(X, domain=domain, engine=LocalEngine(n_jobs=1), billboard=Billboard(noise=SeededNoise(5))).model_
        for X, domain in ((csr_of(rows), case.domain), (ratings_of(case.domain, rows, keys), None))
    ]
    for name, array in models[0].arrays.items():
        assert np.array_equal(models[1].arrays[name], array)
    with refuses(InputError, "domain"):
        case.make().fit(csr_of(rows))
