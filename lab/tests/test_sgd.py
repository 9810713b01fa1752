"""DP-SGD in the laboratory: one user moves the posted gradient by no more than is priced, and learns something."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from lowkey.privacy.accounting import gaussian_epsilon
from lowkey_lab import sgd

SETTINGS = sgd.Settings(16, 30, 1.0, 0.5, 0.7, 0.0, 400)


def crowd(n_users: int, n_items: int, seed: int) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((n_users, 3)) @ rng.standard_normal((3, n_items))
    return scipy.sparse.csr_array(truth * (rng.random(truth.shape) < 0.3))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_no_user_moves_the_gradient_by_more_than_its_norm(seed: int, size: float) -> None:
    """Rows of 400 items with ratings of any size, item factors of any size; the largest rows come to the bound itself."""
    rng = np.random.default_rng(seed)
    items = size ** rng.uniform(-1.0, 1.0) * rng.standard_normal((400, 16))
    others = crowd(60, 400, seed)
    row = scipy.sparse.csr_array(size * rng.standard_normal((1, 400)))
    joined = scipy.sparse.csr_array(scipy.sparse.vstack([others, row]))
    moved = np.linalg.norm(sgd.gradient(items, joined, SETTINGS) - sgd.gradient(items, others, SETTINGS))
    assert moved <= SETTINGS.gradient_norm * (1.0 + 1e-9)
    if size > 1.0:
        assert moved >= 0.99 * SETTINGS.gradient_norm


def test_the_noise_costs_the_asked_epsilon() -> None:
    """mu = sqrt(T)/sigma, by hand."""
    sigma = sgd.noise_multiplier(2.0, 1e-5, 30)
    assert gaussian_epsilon(np.sqrt(30.0) / sigma, 1e-5) == pytest.approx(2.0, rel=1e-6)


def test_without_noise_it_finds_the_low_rank_matrix() -> None:
    rows = crowd(400, 40, 5)
    settings = sgd.Settings(3, 200, 2.0, 0.01, 50.0, 0.0, 400)
    guess = sgd.predict(sgd.fit(rows, settings, np.random.default_rng(0)), rows, settings)
    cells = rows.tocoo()
    assert np.sqrt(np.mean((guess[cells.row, cells.col] - cells.data) ** 2)) < 0.2 * cells.data.std()
