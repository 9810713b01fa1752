"""The best items by falling norms are those of every product, whatever is skipped, tied or constant."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from rule_models import rule_models

from lowkey import model as models
from lowkey.linalg.topn import ByNorm
from lowkey.model import Model
from lowkey.serving.rule import LinearRule
from lowkey.serving.rules import RULES

N_ITEMS, RANK = 3000, 16
LINEAR = {name: model for name, model in rule_models().items() if issubclass(RULES[model.rule], LinearRule)}


def small_numbers(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whole numbers, so that sums are exact in single precision and ties are many; the first column is constant."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-3, 4, (N_ITEMS, RANK)) * rng.choice([1, 2, 8], (N_ITEMS, 1))
    vectors[:, 0] = 1
    vectors[N_ITEMS // 2 :] = -vectors[: N_ITEMS // 2]  # their mean is 0, but for the constant
    vectors[:, 0] = 1
    return vectors, rng.integers(-20, 21, N_ITEMS), rng.integers(-4, 5, (20, RANK))


@pytest.mark.parametrize("n", [1, 10, 200])
def test_nothing_is_missed(n: int) -> None:
    vectors, base, users = small_numbers(n)
    found = ByNorm(vectors.astype(float), base.astype(float), block=64)
    skipped = np.arange(N_ITEMS) % 3 == 0
    for user in users:
        scores = vectors @ user + base
        scores[skipped] = -(10**6)
        expected = np.lexsort((np.arange(N_ITEMS), -scores))[:n]
        positions, best = found.best(user.astype(float), n, skipped)
        assert np.array_equal(positions, expected)
        assert np.array_equal(best, scores[expected])


def test_most_is_left_out() -> None:
    """A user whose scores are the norms finds the ten best in the first block: the vectors of others could be anything."""
    user = np.linspace(1.0, 2.0, RANK)
    found = ByNorm(np.linspace(1.0, 0.0, N_ITEMS)[:, None] * user, np.zeros(N_ITEMS), block=64)
    found.vectors[64:] = np.nan
    positions, _ = found.best(user, 10, np.zeros(N_ITEMS, bool))
    assert positions.tolist() == list(range(10))


@pytest.mark.parametrize("model", LINEAR.values(), ids=LINEAR)
def test_models_of_many_items_recommend_the_same(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows = scipy.sparse.random_array((5, model.domain.n_items), density=0.02, format="csr", rng=rng, dtype=np.float32)
    rows.data = rng.choice([1.0, 2.5, 5.0], rows.nnz).astype(np.float32)
    barred = model.domain.ids(np.arange(0, 300, 7)).tolist()
    for options in ({}, {"exclude": barred}, {"exclude_seen": False}):
        expected = model.recommend(rows, 12, **options)
        monkeypatch.setattr(models, "MANY_ITEMS", 100)
        large = Model(model.method, model.rule, model.arrays, model.settings, model.domain, model.ledger)
        found = large.recommend(rows, 12, **options)
        monkeypatch.undo()
        assert large._by_norm is not None
        assert np.array_equal(found[0], expected[0])
        assert np.allclose(found[1], expected[1], rtol=1e-5, atol=1e-5)
