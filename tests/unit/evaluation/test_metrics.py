"""The measures on lists small enough to be checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

from lowkey.evaluation import better_of_two, coverage, mae, ndcg_at_k, recall_at_k, rmse

# Three users, six items. Relevant: {1, 4}, {0, 2, 3, 5}, nothing.
RELEVANT = scipy.sparse.csr_array(np.array([[0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0]]))
LISTS = np.array([[4, 0, 2], [3, 1, 5], [0, 1, 2]])


def test_errors() -> None:
    assert rmse([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]) == pytest.approx(math.sqrt(5.0 / 3.0))
    assert mae([1.0, 2.0, 5.0], [1.0, 4.0, 4.0]) == pytest.approx(1.0)


def test_recall_is_divided_by_what_is_possible() -> None:
    # User 1: one hit of two possible. User 2: two hits, and a list of 3 can't hold its 4. User 3 has nothing to find.
    assert recall_at_k(LISTS, RELEVANT) == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_ndcg_discounts_by_place() -> None:
    first = 1.0 / (1.0 + 1.0 / math.log2(3.0))  # a hit in place 1; two possible
    second = (1.0 + 1.0 / 2.0) / (1.0 + 1.0 / math.log2(3.0) + 1.0 / 2.0)  # hits in places 1 and 3; three possible
    assert ndcg_at_k(LISTS, RELEVANT) == pytest.approx((first + second) / 2)


def test_a_perfect_list_scores_one() -> None:
    perfect = np.array([[1, 4, 0], [0, 2, 5], [3, 4, 5]])
    assert recall_at_k(perfect, RELEVANT) == ndcg_at_k(perfect, RELEVANT) == 1.0


def test_better_of_two_counts_pairs() -> None:
    rated = scipy.sparse.csr_array(np.array([[5.0, 3.0, 1.0, 0.0], [2.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 4.0]]))
    # User 1: pairs 5>3 (right), 5>1 (tie), 3>1 (wrong); user 2 has no such pair; user 3: right.
    scores = [2.0, 1.0, 2.0, 9.0, 8.0, 0.1, 0.2]
    assert better_of_two(scores, rated) == pytest.approx(((1 + 0.5 + 0) / 3 + 1) / 2)


def test_short_lists_hit_nothing_where_they_end() -> None:
    # -1 must not be taken for the last item of the user before.
    assert recall_at_k(np.array([[-1, -1], [-1, 3], [-1, -1]]), RELEVANT) == pytest.approx((0 + 1 / 2) / 2)
    assert coverage(np.array([[-1, 3], [3, 2]]), 6) == pytest.approx(2 / 6)


def test_nobody_to_ask_is_not_a_number() -> None:
    nobody = scipy.sparse.csr_array((2, 6))
    assert math.isnan(recall_at_k(LISTS[:2], nobody))
    assert math.isnan(ndcg_at_k(LISTS[:2], nobody))
