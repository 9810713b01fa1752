"""The paper's order of methods, on a small part of its experiments (python -m lowkey_lab.frank_wolfe has all of them)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import lowkey as lk
from lowkey.evaluation.metrics import rmse
from lowkey_lab.frank_wolfe import noise_rows, rank_one

DATA = Path(os.environ.get("LOWKEY_DATA", Path(__file__).parents[2] / "../shared/data"))


def test_rank_one_is_completed_better_than_by_svd() -> None:
    """Margins of three and more times: noise of one run does not turn them."""
    data = rank_one(10_000, seed=3)
    own = {"offset_reg": None, "row_norm": 4.0}
    errors = {}
    for name, estimator in {
        "frank-wolfe": lk.DPFrankWolfe(20.0, 1e-6, n_iter=4, **own),
        "svd": lk.DPSVD(20.0, 1e-6, rank=1, **own),
    }.items():
        guess = estimator.fit(data.ratings()).predict(data.csr[:2000])
        errors[name] = rmse(guess[np.arange(2000), data.truth["held_out"][:2000]], data.truth["held_out_values"][:2000])
    assert errors["frank-wolfe"] < 0.6 * errors["svd"] < 0.03


def test_exact_noise_is_several_times_smaller_than_published() -> None:
    for row in noise_rows():
        assert 4.5 < row["published / exact noise, add-remove"] < 9.0
        assert row["holds, add-remove"] < row["asked epsilon"]


@pytest.mark.skipif(not (DATA / "jester5k.parquet").exists(), reason="needs jester5k.parquet (LOWKEY_DATA)")
def test_jester_is_better_with_directions_than_with_biases_alone() -> None:
    import pyarrow.parquet

    from lowkey.evaluation.splits import hold_out_users

    table = pyarrow.parquet.read_table(DATA / "jester5k.parquet")
    scaled = table.set_column(2, "rating", [np.clip((table["rating"].to_numpy() + 10.0) / 4.0, 0.0, 5.0)])
    domain = lk.Domain(items=list(range(1, 101)), rating_range=(0.0, 5.0), expected_users=4_500)
    split = hold_out_users(lk.from_frame(scaled, domain, user="user", item="item", rating="rating"), 500)
    where = split.held_out.tocoo()
    errors = [
        rmse(estimator.fit(split.train).predict(split.histories)[where.row, where.col], where.data)
        for estimator in (lk.DPFrankWolfe(10.0, 1e-6), lk.DPBias(10.0, 1e-6))
    ]
    assert errors[0] < errors[1] - 0.01
