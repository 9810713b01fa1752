"""The Cholesky factor that ALS users take, against the matrix that it came from."""

from __future__ import annotations

import numpy as np
import pytest

from lowkey.linalg.blas import SGEMM
from lowkey.linalg.definite import factor_positive


@pytest.mark.parametrize("order", [1, 2, 15, 16, 17, 40, 64, 129])
def test_the_factor_of_a_positive_definite_matrix_from_its_upper_triangle(order: int) -> None:
    root = np.random.default_rng(order).normal(size=(order, order))
    a = root @ root.T / order + np.eye(order)
    upper = np.where(np.triu(np.ones_like(a)) > 0, a, np.nan).astype(np.float32)  # what lies below is never read
    assert factor_positive(upper, SGEMM)
    r = np.triu(upper.astype(np.float64))
    np.testing.assert_allclose(r.T @ r, a, atol=order * 2.0**-22 * a.max())


@pytest.mark.parametrize("order", [3, 40])
@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_is_told_apart(bad: float, order: int) -> None:
    spoilt = np.eye(order, dtype=np.float32)
    spoilt[-1, -1] = bad
    assert not factor_positive(spoilt, SGEMM)
