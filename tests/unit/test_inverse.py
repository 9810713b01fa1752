"""The inverse that DPFactors' users take, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from lowkey.linalg.inverse import invert_positive


@pytest.mark.parametrize("order", [1, 2, 5, 17, 40])
def test_the_inverse_of_a_positive_definite_matrix_from_its_upper_triangle(order: int) -> None:
    rng = np.random.default_rng(order)
    root = rng.normal(size=(order, order))
    a = root @ root.T + 0.1 * np.eye(order)
    upper = np.where(np.triu(np.ones_like(a)) > 0, a, np.nan)  # what lies below is never read
    assert invert_positive(upper, np.empty(order + 3))
    np.testing.assert_allclose(upper, np.linalg.inv(a), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("bad", [np.diag([1.0, -1.0, 2.0]), np.zeros((3, 3)), np.full((3, 3), np.nan)])
def test_a_matrix_that_is_not_positive_definite_is_told_apart(bad: np.ndarray) -> None:
    assert not invert_positive(bad.copy(), np.empty(3))
