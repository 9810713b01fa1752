"""The inverse that DPFactors' users take, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from lowkey.linalg.blas import DGEMM, SGEMM
from lowkey.linalg.definite import invert_positive, spare_size

KINDS = [(np.float64, DGEMM, 1e-7), (np.float32, SGEMM, 2e-3)]


@pytest.mark.parametrize(("kind", "routine", "close"), KINDS, ids=["double", "single"])  # an address is no name
@pytest.mark.parametrize("order", [1, 2, 5, 8, 9, 17, 40])
def test_the_inverse_of_a_positive_definite_matrix_from_its_upper_triangle(
    order: int, kind: type, routine: int, close: float
) -> None:
    rng = np.random.default_rng(order)
    root = rng.normal(size=(order, order))
    a = root @ root.T + np.eye(order)
    upper = np.where(np.triu(np.ones_like(a)) > 0, a, np.nan).astype(kind)  # what lies below is never read
    assert invert_positive(upper, np.empty(spare_size(order), kind), routine)
    np.testing.assert_allclose(upper, np.linalg.inv(a), rtol=close, atol=0.01 * close)


@pytest.mark.parametrize("order", [3, 20])
@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_is_told_apart(bad: float, order: int) -> None:
    spoilt = np.eye(order)
    spoilt[-1, -1] = bad
    assert not invert_positive(spoilt, np.empty(spare_size(order)), DGEMM)
