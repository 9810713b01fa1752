"""The measures against independent libraries on random cases: ir-measures (trec_eval), scikit-learn, SciPy.

Lists may be short, users may have nothing to find, ratings and scores have ties. Everything here is deterministic.
"""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from ir_measures import P, R, nDCG
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from lowkey.evaluation import better_of_two, mae, ndcg_at_k, recall_at_k, rmse


def random_case(seed: int) -> tuple[np.ndarray, scipy.sparse.csr_array]:
    """Lists of 1 to 12 items for 1 to 30 users, some of them short, and what is relevant to each (at times nothing)."""
    rng = np.random.default_rng(seed)
    n_users, n_items, k = rng.integers(1, 31), rng.integers(12, 60), rng.integers(1, 13)
    lists = np.array([rng.permutation(n_items)[:k] for _ in range(n_users)])
    for user in np.flatnonzero(rng.random(n_users) < 0.2):
        lists[user, rng.integers(0, k + 1) :] = -1
    relevant = rng.random((n_users, n_items)) < rng.uniform(0.0, 0.3, n_users)[:, None]
    relevant[rng.integers(n_users), rng.integers(n_items)] = True  # somebody has something
    return lists, scipy.sparse.csr_array(relevant.astype(np.float32))


def by_user(measure, lists: np.ndarray, relevant: scipy.sparse.csr_array) -> dict[str, float]:
    """The library's value for every user with something to find."""
    found = relevant.tocoo()
    judged = [ir_measures.Qrel(str(u), str(i), 1) for u, i in zip(found.row, found.col, strict=True)]
    run = [
        ir_measures.ScoredDoc(str(user), str(item), float(len(items) - place))
        for user, items in enumerate(lists)
        for place, item in enumerate(items)
        if item >= 0
    ]
    values = {str(user): 0.0 for user in np.flatnonzero(np.diff(relevant.indptr))}  # nobody listed: nothing found
    values.update({m.query_id: m.value for m in ir_measures.iter_calc([measure], judged, run) if m.query_id in values})
    return values


@pytest.mark.parametrize("seed", range(40))
def test_ndcg_is_that_of_trec_eval(seed: int) -> None:
    lists, relevant = random_case(seed)
    expected = np.mean(list(by_user(nDCG @ lists.shape[1], lists, relevant).values()))
    assert ndcg_at_k(lists, relevant) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_recall_is_the_larger_of_trec_evals_recall_and_precision(seed: int) -> None:
    """Hits / min(k, relevant), as the DPALS paper has it, is the larger of hits / relevant and hits / k."""
    lists, relevant = random_case(seed)
    k = lists.shape[1]
    recall, precision = by_user(R @ k, lists, relevant), by_user(P @ k, lists, relevant)
    assert recall_at_k(lists, relevant) == pytest.approx(np.mean([max(recall[u], precision[u]) for u in recall]), abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_errors_are_those_of_scikit_learn(seed: int) -> None:
    predicted, actual = np.random.default_rng(seed).normal(3.0, 1.0, (2, 50))
    assert rmse(predicted, actual) == pytest.approx(root_mean_squared_error(actual, predicted))
    assert mae(predicted, actual) == pytest.approx(mean_absolute_error(actual, predicted))


@pytest.mark.parametrize("seed", range(10))
def test_better_of_two_is_somers_d(seed: int) -> None:
    """Of pairs that differ in rating, (concordant - discordant) / all is Somers' D: ours is (D + 1)/2, over users."""
    rng = np.random.default_rng(seed)
    rated = scipy.sparse.csr_array(rng.integers(1, 6, (8, 15)) * (rng.random((8, 15)) < 0.7))
    scores = rng.integers(0, 6, rated.nnz).astype(float)  # with ties
    expected = []
    for start, stop in zip(rated.indptr[:-1], rated.indptr[1:], strict=True):
        if len(np.unique(rated.data[start:stop])) > 1:
            expected.append((scipy.stats.somersd(rated.data[start:stop], scores[start:stop]).statistic + 1.0) / 2.0)
    assert better_of_two(scores, rated) == pytest.approx(np.mean(expected))
