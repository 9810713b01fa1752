"""Lab room: the contract of ``predict``, ``recommend`` and ``transform``, and that the answers make sense."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse

from lowkey.engines.local import LocalEngine
from lowkey.errors import InputError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey.testing.cases import N_ITEMS, Case, as_row, base_keys, base_rows, ratings_of
from lowkey.testing.checks import csr_of, every, fitted, history_of, refuses, twins


@every
def predict_has_a_score_for_every_item(case: Case) -> None:
    rows = base_rows(case.domain)
    scores = fitted(case).predict(csr_of(rows))
    assert scores.shape == (len(rows), N_ITEMS)
    assert np.isfinite(scores).all()
    if limits := fitted(case).model_.settings.get("rating_range"):  # else scores are no ratings
        assert case.domain.rating_range == tuple(limits)
        assert limits[0] - 1e-9 <= scores.min() <= scores.max() <= limits[1] + 1e-9


@every
def one_history_is_one_row(case: Case) -> None:
    """By id, in any order, with a choice of items: the same numbers as the CSR row, which depends on itself alone."""
    rows = base_rows(case.domain)
    scores = fitted(case).predict(csr_of(rows))
    for at in (5, 16):
        history = history_of(case, rows[at])
        backwards = dict(reversed(list(history.items())))
        ids = case.domain.ids(np.array([3, 0, 11]))
        np.testing.assert_allclose(fitted(case).predict(backwards, ids), scores[at, [3, 0, 11]], rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(fitted(case).predict(backwards)[0], scores[at], rtol=0.0, atol=1e-9)


@every
def recommend_gives_exactly_n_unseen_items_of_the_catalogue(case: Case) -> None:
    rows = [row for row in base_rows(case.domain) if len(row[0]) <= 10]
    ids, scores = fitted(case).recommend(csr_of(rows), n=6)
    assert ids.shape == scores.shape == (len(rows), 6)
    assert (np.diff(scores, axis=1) <= 0).all()
    catalogue = case.domain.item_ids.to_pylist()
    for row, listed in zip(rows, ids.tolist(), strict=True):
        assert len(set(listed)) == 6
        assert set(listed) <= set(catalogue)
        assert {type(i) for i in listed} == {type(catalogue[0])}  # the caller's types: text here, integers there
        assert not set(listed) & set(history_of(case, row))


@every
def recommend_for_one_history(case: Case) -> None:
    row = base_rows(case.domain)[7]
    ids, scores = fitted(case).recommend(history_of(case, row), n=4)
    assert ids.shape == scores.shape == (4,)
    with_seen, _ = fitted(case).recommend(history_of(case, row), n=N_ITEMS, exclude_seen=False)
    assert sorted(with_seen.tolist()) == sorted(case.domain.item_ids.to_pylist())
    for n in (0, N_ITEMS - len(row[0]) + 1):
        with refuses(InputError, "without what was seen"):
            fitted(case).recommend(history_of(case, row), n=n)


@every
def an_empty_history_is_served(case: Case) -> None:
    empty = csr_of([as_row(case.domain, np.full(N_ITEMS, -1))])
    ids, scores = fitted(case).recommend(empty, n=N_ITEMS)
    assert len(set(ids[0].tolist())) == N_ITEMS
    assert np.isfinite(scores).all()


@every
def histories_that_do_not_fit_are_refused(case: Case) -> None:
    wrong = [
        scipy.sparse.csr_array((2, N_ITEMS + 1)),
        {"no such item": 1.0},
    ]
    if case.domain.rating_range is not None:
        wrong.append({case.domain.item_ids[0].as_py(): case.domain.rating_range[1] + 1.0})
        wrong.append({case.domain.item_ids[0].as_py(): math.nan})
    for history in wrong:
        with refuses(InputError, ""):
            fitted(case).predict(history)


@every
def transform_is_the_local_step(case: Case) -> None:
    rows = base_rows(case.domain)
    factors = fitted(case).transform(csr_of(rows))
    assert len(factors) == len(rows)
    assert np.isfinite(factors).all()
    alone = fitted(case).transform(csr_of(rows[9:10]))
    np.testing.assert_allclose(alone[0], factors[9], rtol=0.0, atol=1e-9)


@every
def a_child_can_check_the_answer(case: Case) -> None:
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
    billboard = Billboard(noise=SeededNoise(1, factor=0.0))
    estimator = case.make(**settings).fit(data, billboard=billboard, engine=LocalEngine(n_jobs=1))
    if not case.personal:
        ids, _ = estimator.recommend(csr_of([as_row(case.domain, np.full(N_ITEMS, -1))]), n=1)
        assert case.domain.positions(ids[0]).tolist() == [4]
        return
    for colour in (0, 1):
        own = np.arange(N_ITEMS) % 2 == colour
        levels = np.where(own, 9, 0) if case.feedback == "ratings" else np.where(own, 9, -1)
        levels[10:] = -1  # unseen: three of each colour
        ids, _ = estimator.recommend(csr_of([as_row(case.domain, levels)]), n=3)
        assert (case.domain.positions(ids[0]) % 2 == colour).all(), ids


@twins
def without_noise_it_is_nearly_the_baseline(case: Case) -> None:
    """What the bounds cost, with the noise switched off: next to nothing, where the bounds are wide."""
    assert case.baseline is not None
    rows = base_rows(case.domain, n_users=500, seed=1)
    data = ratings_of(case.domain, rows, base_keys(500))
    twin = case.make(**{"epsilon": 900.0, **case.twin})
    twin.fit(data, billboard=Billboard(noise=SeededNoise(1, factor=0.0)), engine=LocalEngine(n_jobs=1))
    baseline = case.baseline().fit(data, engine=LocalEngine(n_jobs=1))
    histories = csr_of([row for row in rows if 3 <= len(row[0]) <= 12])
    ours, theirs = twin.predict(histories), baseline.predict(histories)
    assert np.std(theirs) > 0.1
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.05 * np.std(theirs)
