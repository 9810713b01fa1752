"""Private SVD: Algorithm 3's projection and scaling, and the pipeline with cleansing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import lowkey as lk
from lowkey_lab.synthetic import planted_low_rank

HUGE = 1e6  # epsilon at which the noise is negligible: the algorithm itself is looked at


def test_full_rows_are_their_own_projection() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.uniform(-0.5, 0.5, (300, 2)) @ rng.uniform(-0.9, 0.9, (2, 12))).astype(np.float32)
    data = scipy.sparse.csr_array(rows)
    domain = lk.Domain(items=12, rating_range=(-1.0, 1.0))
    for scaling in ("posted", "user", 1.0):
        model = lk.DPSVD(HUGE, 1e-6, rank=2, offset_reg=None, scaling=scaling).fit(data, domain=domain)
        assert np.allclose(model.predict(data), rows, atol=1e-3), scaling


def test_the_posted_scaling_is_the_inverse_density() -> None:
    data = planted_low_rank(2000, 30, 2, density=0.3, seed=4)
    model = lk.DPSVD(HUGE, 1e-6, rank=2, offset_reg=None).fit(data.ratings())
    assert model.model_.settings["scaling"] == pytest.approx(2000 * 30 / data.csr.nnz, rel=1e-3)
    assert {line.name for line in model.ledger_.spent()} == {"residual_gram_1", "rating_density"}
    noisy = lk.DPSVD(1e-3, 1e-6, rank=2).fit(data.ratings()).model_.settings["scaling"]
    assert 1.0 <= noisy <= 30.0


def test_cleansing_finds_item_means_and_structure() -> None:
    rng = np.random.default_rng(1)
    n_users, n_items = 4000, 24
    bias = np.linspace(-1.0, 1.0, n_items)
    taste = 0.6 * rng.standard_normal((n_users, 1)) * np.sign(np.sin(np.arange(n_items)))
    rows = np.clip(3.0 + bias + taste, 1.0, 5.0)
    seen = rng.random(rows.shape) < 0.5
    entries = np.nonzero(seen)
    data = scipy.sparse.csr_array((rows[entries], entries), shape=rows.shape)
    domain = lk.Domain(items=n_items, rating_range=(1.0, 5.0))
    errors = {}
    for name, estimator in {
        "bias": lk.DPBias(HUGE, 1e-6),
        "cleansed": lk.DPSVD(HUGE, 1e-6, rank=2, cleansing=True),
        "noisy": lk.DPSVD(0.05, 1e-6, rank=2, cleansing=True),
    }.items():
        guess = estimator.fit(data, domain=domain).predict(data)
        errors[name] = float(np.sqrt(np.mean((guess - rows)[~seen] ** 2)))
    assert errors["cleansed"] < 0.4 * errors["bias"]
    assert errors["cleansed"] < errors["noisy"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scaling": "data"},
        {"scaling": 0.0},
        {"rank": 0},
        {"cleansing": "yes"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong) -> None:
    with pytest.raises(ValueError):
        lk.DPSVD(1.0, 1e-6, **wrong).plan(lk.Domain(items=30, rating_range=(1.0, 5.0)))
