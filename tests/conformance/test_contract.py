"""One contract for every recommender of the table; what a user of scikit-learn expects, and what privacy adds to it."""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from estimators import BASELINES, CASES, N_ITEMS, Case, as_row, base_keys, base_ratings, base_rows, ratings_of
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import lowkey as lk
from lowkey.errors import AbsentError, BudgetError, InputError
from lowkey.privacy.noise import SeededNoise

ALL = [*CASES, *BASELINES]
every = pytest.mark.parametrize("case", ALL, ids=str)
private = pytest.mark.parametrize("case", CASES, ids=str)


@cache
def fitted(case: Case) -> Any:
    return case.make().fit(base_ratings(case.domain), engine=lk.LocalEngine(n_jobs=1))


def csr_of(case: Case, rows: list[Any]) -> Any:
    indptr = np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])])
    items = np.concatenate([np.zeros(0, np.int32), *(items for items, _ in rows)])
    values = np.concatenate([np.zeros(0), *(values for _, values in rows)])
    return scipy.sparse.csr_array((values, items, indptr), shape=(len(rows), N_ITEMS))


def history_of(case: Case, row: Any) -> dict[Any, float]:
    items, values = row
    return dict(zip(case.domain.ids(items).tolist(), values.tolist(), strict=True))


# The scikit-learn side -------------------------------------------------------------------------------------------------
@every
def test_init_only_stores(case: Case) -> None:
    """Every parameter comes back as the very object that was given, whatever it is."""
    names = [name for name in inspect.signature(case.estimator.__init__).parameters if name != "self"]
    given = {name: object() for name in names}
    estimator = case.estimator(**given)
    for name in names:
        assert getattr(estimator, name) is given[name]
        assert estimator.get_params()[name] is given[name]
    assert not [name for name in vars(estimator) if name.endswith("_")]


@every
def test_clone_and_set_params(case: Case) -> None:
    estimator = fitted(case)
    double = clone(estimator)
    assert double.get_params() == estimator.get_params()
    assert not hasattr(double, "model_")
    assert double.set_params(**double.get_params()) is double


@every
def test_fit_returns_self_and_leaves_the_parameters_alone(case: Case) -> None:
    estimator = case.make()
    before = dict(estimator.get_params())
    assert estimator.fit(base_ratings(case.domain), engine=lk.LocalEngine(n_jobs=1)) is estimator
    assert estimator.get_params() == before


@every
def test_a_second_fit_starts_anew(case: Case) -> None:
    """Same noise, same data: the second fit of one object is the first fit of another, on a ledger of its own."""
    estimator, models = case.make(), []
    other = ratings_of(case.domain, base_rows(case.domain, seed=99), base_keys())
    for data in (other, base_ratings(case.domain)):
        estimator.fit(data, engine=lk.LocalEngine(n_jobs=1), billboard=lk.Billboard(noise=SeededNoise(3)))
        models.append(estimator.model_)
    fresh = case.make().fit(
        base_ratings(case.domain), engine=lk.LocalEngine(n_jobs=1), billboard=lk.Billboard(noise=SeededNoise(3))
    )
    assert models[0].ledger is not models[1].ledger
    assert len(estimator.ledger_.plans()) == 1
    for name, array in fresh.model_.arrays.items():
        assert np.array_equal(estimator.model_.arrays[name], array)


@every
def test_a_target_is_refused(case: Case) -> None:
    with pytest.raises(InputError, match="the ratings are in X"):
        case.make().fit(base_ratings(case.domain), np.zeros(30))


@every
def test_what_needs_a_fit_says_so(case: Case) -> None:
    estimator = case.make()
    history = csr_of(case, base_rows(case.domain)[:3])
    for call in (
        lambda: estimator.predict(history),
        lambda: estimator.recommend(history),
        lambda: estimator.transform(history),
        lambda: estimator.guarantee_,
        lambda: estimator.ledger_,
        lambda: estimator.release("nowhere"),
    ):
        with pytest.raises(InputError, match="not fitted"):
            call()


@private
def test_a_grid_search_is_told_its_price(case: Case) -> None:
    """A search finds no ``score`` to choose by, before any fit; and who asks for it is told why there is none."""
    search = GridSearchCV(case.make(), {"epsilon": [1.0, 2.0]})
    with pytest.raises(TypeError, match="scoring"):
        search.fit(csr_of(case, base_rows(case.domain)))
    assert not hasattr(search, "cv_results_")
    for estimator in (case.make(), fitted(case)):
        assert not hasattr(estimator, "score")
        with pytest.raises(AbsentError, match=r"every candidate's fit and every score .* composes"):
            _ = estimator.score


@every
def test_csr_rows_with_a_domain(case: Case) -> None:
    """CSR rows and the container give the same fit when the keys are the same."""
    from lowkey.data.row_keys import row_keys

    rows = base_rows(case.domain)
    offsets = np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])])
    keys = row_keys(offsets, np.concatenate([items for items, _ in rows]))  # a CSR row's key is that of its items
    models = [
        case.make().fit(X, domain=domain, engine=lk.LocalEngine(1), billboard=lk.Billboard(noise=SeededNoise(5))).model_
        for X, domain in ((csr_of(case, rows), case.domain), (ratings_of(case.domain, rows, keys), None))
    ]
    for name, array in models[0].arrays.items():
        assert np.array_equal(models[1].arrays[name], array)
    with pytest.raises(InputError, match="domain"):
        case.make().fit(csr_of(case, rows))


# Predictions -----------------------------------------------------------------------------------------------------------
@every
def test_predict_has_a_score_for_every_item(case: Case) -> None:
    rows = base_rows(case.domain)
    scores = fitted(case).predict(csr_of(case, rows))
    assert scores.shape == (len(rows), N_ITEMS)
    assert np.isfinite(scores).all()
    if fitted(case).model_.settings.get("rating_range") is not None:  # else scores are no ratings
        assert scores.min() >= case.domain.rating_range[0] - 1e-9
        assert scores.max() <= case.domain.rating_range[1] + 1e-9


@every
def test_one_history_is_one_row(case: Case) -> None:
    """By id, in any order, with a choice of items: the same numbers as the CSR row, which depends on itself alone."""
    rows = base_rows(case.domain)
    scores = fitted(case).predict(csr_of(case, rows))
    for at in (5, 16):
        history = history_of(case, rows[at])
        backwards = dict(reversed(list(history.items())))
        ids = case.domain.ids(np.array([3, 0, 11]))
        assert fitted(case).predict(backwards, ids) == pytest.approx(scores[at, [3, 0, 11]], abs=1e-9)
        assert fitted(case).predict(backwards)[0] == pytest.approx(scores[at], abs=1e-9)


@every
def test_recommend_gives_exactly_n_unseen_items_of_the_catalogue(case: Case) -> None:
    rows = [row for row in base_rows(case.domain) if len(row[0]) <= 10]
    ids, scores = fitted(case).recommend(csr_of(case, rows), n=6)
    assert ids.shape == scores.shape == (len(rows), 6)
    assert (np.diff(scores, axis=1) <= 0).all()
    catalogue = case.domain.item_ids.to_pylist()
    for row, listed in zip(rows, ids.tolist(), strict=True):
        assert len(set(listed)) == 6
        assert set(listed) <= set(catalogue)
        assert {type(i) for i in listed} == {type(catalogue[0])}  # the caller's types: text here, integers there
        assert not set(listed) & set(history_of(case, row))


@every
def test_recommend_for_one_history(case: Case) -> None:
    row = base_rows(case.domain)[7]
    ids, scores = fitted(case).recommend(history_of(case, row), n=4)
    assert ids.shape == scores.shape == (4,)
    with_seen, _ = fitted(case).recommend(history_of(case, row), n=N_ITEMS, exclude_seen=False)
    assert sorted(with_seen.tolist()) == sorted(case.domain.item_ids.to_pylist())
    for n in (0, N_ITEMS - len(row[0]) + 1):
        with pytest.raises(InputError, match="without what was seen"):
            fitted(case).recommend(history_of(case, row), n=n)


@every
def test_an_empty_history_is_served(case: Case) -> None:
    empty = csr_of(case, [as_row(case.domain, np.full(N_ITEMS, -1))])
    ids, scores = fitted(case).recommend(empty, n=N_ITEMS)
    assert len(set(ids[0].tolist())) == N_ITEMS
    assert np.isfinite(scores).all()


@every
def test_histories_that_do_not_fit_are_refused(case: Case) -> None:
    wrong = [
        scipy.sparse.csr_array((2, N_ITEMS + 1)),
        {"no such item": 1.0},
    ]
    if case.domain.rating_range is not None:
        wrong.append({case.domain.item_ids[0].as_py(): case.domain.rating_range[1] + 1.0})
        wrong.append({case.domain.item_ids[0].as_py(): math.nan})
    for history in wrong:
        with pytest.raises(InputError):
            fitted(case).predict(history)


@every
def test_transform_is_the_local_step(case: Case) -> None:
    rows = base_rows(case.domain)
    factors = fitted(case).transform(csr_of(case, rows))
    assert len(factors) == len(rows)
    assert np.isfinite(factors).all()
    alone = fitted(case).transform(csr_of(case, rows[9:10]))
    assert alone[0] == pytest.approx(factors[9], abs=1e-9)


# The privacy side ------------------------------------------------------------------------------------------------------
@private
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_booked_is_at_most_asked(case: Case, epsilon: float) -> None:
    estimator = case.make(epsilon=epsilon).fit(base_ratings(case.domain), engine=lk.LocalEngine(n_jobs=1))
    guarantee = estimator.guarantee_
    assert case.spends * epsilon <= guarantee.epsilon <= epsilon
    assert guarantee.delta <= 1e-6
    assert guarantee.noise_is_private
    for word in (guarantee.unit.protected, guarantee.unit.compared, "epsilon", "delta"):
        assert word in str(guarantee)
    assert estimator.plan(case.domain).guarantee().epsilon >= guarantee.epsilon * (1 - 1e-9)
    assert "NOT PRIVATE" not in guarantee.sentence()


@pytest.mark.parametrize("case", BASELINES, ids=str)
def test_a_baseline_says_that_it_is_not_private(case: Case) -> None:
    assert fitted(case).guarantee_.epsilon == math.inf
    assert "NOT PRIVATE" in fitted(case).guarantee_.sentence()


@private
def test_epsilon_and_delta_have_no_default(case: Case) -> None:
    for missing in ("epsilon", "delta"):
        with pytest.raises(InputError, match=f"{missing}.*no default"):
            case.make(**{missing: None}).fit(base_ratings(case.domain))


@private
def test_the_plan_needs_no_data(case: Case) -> None:
    """The plan is made from public facts; a fit posts nothing else."""
    plan = case.make().plan(case.domain)
    assert fitted(case).ledger_.plans()[0].to_json() == plan.to_json()


@private
def test_two_fits_on_one_ledger_compose(case: Case) -> None:
    ledger = lk.Ledger()
    for _ in range(2):
        estimator = case.make().fit(
            base_ratings(case.domain), engine=lk.LocalEngine(n_jobs=1), billboard=lk.Billboard(ledger, noise=SeededNoise(1))
        )
    assert len(estimator.ledger_.plans()) == 2
    assert estimator.guarantee_.epsilon > 1.3 * fitted(case).guarantee_.epsilon
    assert estimator.guarantee_.mu == pytest.approx(math.sqrt(2.0) * fitted(case).guarantee_.mu, rel=1e-9)


@private
def test_a_shared_total_cannot_be_overspent(case: Case) -> None:
    ledger = lk.Ledger(total=(1.3 * fitted(case).guarantee_.epsilon, 1e-6))
    case.make().fit(base_ratings(case.domain), billboard=lk.Billboard(ledger), engine=lk.LocalEngine(n_jobs=1))
    with pytest.raises(BudgetError):
        case.make().fit(base_ratings(case.domain), billboard=lk.Billboard(ledger), engine=lk.LocalEngine(n_jobs=1))
    assert ledger.guarantee().epsilon == fitted(case).guarantee_.epsilon


@private
def test_replace_one(case: Case) -> None:
    if case.protects != "users":
        pytest.skip("the positions are public: values are replaced, users never added or removed")
    estimator = case.make(adjacency="replace-one").fit(base_ratings(case.domain), engine=lk.LocalEngine(n_jobs=1))
    guarantee = estimator.guarantee_
    assert guarantee.adjacency == "replace-one"
    assert guarantee.epsilon <= 1.0
    assert "number of users" in str(guarantee)
    with pytest.raises(InputError, match="adjacency"):
        case.make(adjacency="swap").fit(base_ratings(case.domain))


@every
def test_nothing_of_any_user_is_kept(case: Case) -> None:
    """With 37 users, a number that occurs nowhere else: no array of that length, no key, no row."""
    rows = base_rows(case.domain, n_users=37)
    estimator = case.make().fit(ratings_of(case.domain, rows, base_keys(37)), engine=lk.LocalEngine(n_jobs=1))
    seen: list[Any] = []
    _walk(vars(estimator), seen)
    arrays = [value for value in seen if isinstance(value, np.ndarray)]
    assert arrays
    if case.protects == "users":
        assert not [array.shape for array in arrays if 37 in array.shape or 38 in array.shape]
    keys = set(base_keys(37).tolist())
    assert not [array for array in arrays if array.dtype == np.uint64 and keys & set(array.ravel().tolist())]
    assert not [value for value in seen if isinstance(value, lk.Ratings)]


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


# Sense -----------------------------------------------------------------------------------------------------------------
@every
def test_a_child_can_check_the_answer(case: Case) -> None:
    """Even users like even items, odd users odd ones, all else is disliked or absent; without noise.

    What depends on the history must recommend the user's own colour. What does not must put the item first that the
    most people like: number 4.
    """
    rng = np.random.default_rng(4)
    rows = []
    for u in range(600):
        own = np.arange(N_ITEMS) % 2 == u % 2
        levels = np.where(own, 9, 0) if case.feedback == "ratings" else np.where(own, 9, -1)
        if not case.personal:
            levels = np.where(np.arange(N_ITEMS) == 4, 9, np.where(rng.random(N_ITEMS) < 0.4, 2, -1))
        hidden = rng.choice(N_ITEMS, 5, replace=False)
        levels[hidden[hidden != 4]] = -1
        rows.append(as_row(case.domain, levels))
    data = ratings_of(case.domain, rows, base_keys(600))
    settings = {"epsilon": 500.0, **case.whole} if case.private else {}
    billboard = lk.Billboard(noise=SeededNoise(1, factor=0.0))
    estimator = case.make(**settings).fit(data, billboard=billboard, engine=lk.LocalEngine(n_jobs=1))
    if not case.personal:
        ids, _ = estimator.recommend(csr_of(case, [as_row(case.domain, np.full(N_ITEMS, -1))]), n=1)
        assert case.domain.positions(ids[0]).tolist() == [4]
        return
    for colour in (0, 1):
        own = np.arange(N_ITEMS) % 2 == colour
        levels = np.where(own, 9, 0) if case.feedback == "ratings" else np.where(own, 9, -1)
        levels[10:] = -1  # unseen: three of each colour
        ids, _ = estimator.recommend(csr_of(case, [as_row(case.domain, levels)]), n=3)
        assert (case.domain.positions(ids[0]) % 2 == colour).all(), ids


@pytest.mark.parametrize("case", [case for case in CASES if case.baseline], ids=str)
def test_without_noise_it_is_nearly_the_baseline(case: Case) -> None:
    """What the bounds cost, with the noise switched off: next to nothing, where the bounds are wide."""
    assert case.baseline is not None
    rows = base_rows(case.domain, n_users=500, seed=1)
    data = ratings_of(case.domain, rows, base_keys(500))
    twin = case.make(**{"epsilon": 900.0, **case.twin})
    twin.fit(data, billboard=lk.Billboard(noise=SeededNoise(1, factor=0.0)), engine=lk.LocalEngine(n_jobs=1))
    baseline = case.baseline().fit(data, engine=lk.LocalEngine(n_jobs=1))
    histories = csr_of(case, [row for row in rows if 3 <= len(row[0]) <= 12])
    ours, theirs = twin.predict(histories), baseline.predict(histories)
    assert np.std(theirs) > 0.1
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.05 * np.std(theirs)
