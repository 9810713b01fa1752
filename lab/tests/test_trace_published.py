"""Trace regression as published: it promises nothing, needs what its sensitivities contain, and reads records at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_trace_replay import EPSILON, RANK, crowd

from lowkey.engines.local import LocalEngine
from lowkey.errors import InputError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey_lab.published.trace import PublishedTraceRegression


def estimator(protect: str = "records", min_singular_value: float | None = 0.5) -> PublishedTraceRegression:
    facts: dict[str, Any] = {"error_std": 0.2, "max_singular_value": 1.5, "min_singular_value": min_singular_value}
    return PublishedTraceRegression(RANK, EPSILON, 1e-5, protect, **facts)


@pytest.mark.parametrize("protect", ["records", "responses"])
def test_published_promises_nothing(protect: str) -> None:
    model = estimator(protect).fit(*crowd())
    assert model.guarantee_.epsilon == np.inf
    assert "hold only under the Gaussian model" in str(model.guarantee_)
    assert model.guarantee_.sentence().startswith("NOT PRIVATE")


def test_the_start_is_that_of_all_records_however_blocks_are_cut() -> None:
    """Without noise: the projectors of the sum, which is no sum of projectors; the other sums are truncated per block."""
    X, y = crowd()
    starts = [
        estimator().fit(X, y, engine=engine, billboard=Billboard(noise=SeededNoise(0, factor=0.0))).path_[0].matrix()
        for engine in (LocalEngine(1), LocalEngine(1, block_size=7))
    ]
    np.testing.assert_allclose(*starts, rtol=0.0, atol=1e-6)
    left, values, right = np.linalg.svd(np.tensordot(y, X, 1) / len(y))
    expected = (left[:, :RANK] * values[:RANK]) @ right[:RANK]
    np.testing.assert_allclose(starts[0], expected, atol=1e-6)


@pytest.mark.parametrize("smallest", [None, 0.0, -1.0, np.inf])
def test_the_smallest_singular_value_is_asked_for(smallest: float | None) -> None:
    with pytest.raises(InputError, match="min_singular_value"):
        estimator(min_singular_value=smallest).fit(*crowd())
