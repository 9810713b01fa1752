"""Splits keep every rating exactly once and users apart; evaluation agrees with a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

import lowkey as lk
import lowkey.errors
from lowkey.data.ids import splitmix64
from lowkey.data.synthetic import taste
from lowkey.evaluation import evaluate, hold_out_users, split_ratings
from lowkey.evaluation.splits import fold_in_rows


@pytest.fixture(scope="module")
def ratings() -> lk.Ratings:
    made = taste(300, 60, 20, seed=3)  # keys of their own: those made from rows are alike where rows are
    return lk.Ratings.from_csr(made.csr, made.domain(), keys=splitmix64(np.arange(300, dtype=np.uint64)))


def dense(rows: object) -> np.ndarray:
    return np.asarray(rows.toarray())  # type: ignore[attr-defined]


def test_split_ratings_is_a_partition(ratings: lk.Ratings) -> None:
    split = split_ratings(ratings, 0.25, seed=1)
    whole = dense(ratings._open_csr())
    np.testing.assert_array_equal(dense(split.histories) + dense(split.held_out), whole)
    assert not ((dense(split.histories) != 0) & (dense(split.held_out) != 0)).any()
    np.testing.assert_array_equal(dense(split.train._open_csr()), dense(split.histories))
    # About a quarter is held out: off by 5 standard deviations has a chance below 1e-6.
    n = np.count_nonzero(whole)
    assert abs(split.held_out.nnz - n / 4) < 5 * np.sqrt(n * 3 / 16)


def test_held_out_users_are_not_trained_on(ratings: lk.Ratings) -> None:
    split = hold_out_users(ratings, 30, fold_in=0.75, seed=2)
    whole, keys = dense(ratings._open_csr()), ratings._open_keys()
    trained = np.isin(keys, split.train._open_keys())
    assert trained.sum() == 270
    np.testing.assert_array_equal(dense(split.train._open_csr()), whole[trained])
    np.testing.assert_array_equal(dense(split.histories) + dense(split.held_out), whole[~trained])
    counts = np.count_nonzero(whole[~trained], axis=1)
    np.testing.assert_array_equal(np.diff(split.histories.indptr), np.floor(0.75 * counts))


def test_users_may_be_a_share_and_seeds_matter(ratings: lk.Ratings) -> None:
    assert hold_out_users(ratings, 0.1).histories.shape[0] == 30
    first, again, other = (dense(hold_out_users(ratings, 30, seed=s).histories) for s in (5, 5, 6))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("users", [0, 300, -1])
def test_nobody_or_everybody_is_refused(ratings: lk.Ratings, users: int) -> None:
    with pytest.raises(lk.errors.InputError, match="users"):
        hold_out_users(ratings, users)


def test_evaluate_agrees_with_a_plain_loop(ratings: lk.Ratings) -> None:
    split = hold_out_users(ratings, 40, seed=4)
    model = lk.Bias().fit(split.train)
    scores, history, held = model.predict(split.histories), dense(split.histories), dense(split.held_out)
    hits, errors = [], []
    for u in range(40):
        order = [i for i in np.argsort(-scores[u], kind="stable") if history[u, i] == 0][:5]
        relevant = np.flatnonzero(held[u] >= 4.0)
        if len(relevant):
            hits.append(len(set(order) & set(relevant)) / min(5, len(relevant)))
        errors += [scores[u, i] - held[u, i] for i in np.flatnonzero(held[u])]
    figures = evaluate(model, split.histories, split.held_out, k=5, relevant_from=4.0)
    assert figures["recall@5"] == pytest.approx(np.mean(hits))
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))))
    assert figures["mae"] == pytest.approx(np.mean(np.abs(errors)))


def test_popularity_predicts_no_ratings(ratings: lk.Ratings) -> None:
    histories, held_out = fold_in_rows(ratings, 0.5)
    figures = evaluate(lk.Popularity().fit(ratings), histories, held_out)
    assert "rmse" not in figures
    assert 0.0 < figures["recall@20"] <= 1.0
