"""Tangent coordinates and retraction, held against the textbook formulas with projectors."""

import numpy as np
import pytest

from lowkey.linalg.lowrank import FixedRank, complement, shrunk_values, tangent_size, truncated

SHAPES = [((7, 5), 2), ((5, 9), 3), ((4, 4), 4), ((6, 1), 1), ((3, 8), 2), ((1, 6), 1)]


def random_point(shape: tuple[int, int], rank: int, seed: int = 0) -> FixedRank:
    return truncated(np.random.default_rng(seed).standard_normal(shape), rank)


def projected(point: FixedRank, x: np.ndarray) -> np.ndarray:
    left, right = point.left @ point.left.T, point.right @ point.right.T
    return left @ x + x @ right - left @ x @ right


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_coordinates_are_those_of_the_projection(shape, rank):
    point = random_point(shape, rank)
    x = np.random.default_rng(1).standard_normal(shape)
    coordinates = point.coordinates(x)
    assert coordinates.size == tangent_size(shape, rank) == rank * (sum(shape) - rank)
    np.testing.assert_allclose(point.tangent_vector(coordinates), projected(point, x), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(coordinates), np.linalg.norm(projected(point, x)), rtol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_coordinates_are_orthonormal_and_reach_the_whole_tangent_space(shape, rank):
    point = random_point(shape, rank)
    basis = np.array([point.tangent_vector(e).ravel() for e in np.eye(tangent_size(shape, rank))])
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_reflector_is_sound_where_the_top_of_the_basis_vanishes_or_is_minus_one(sign):
    for top in (np.zeros((2, 2)), sign * np.eye(2)):
        rest = np.vstack([np.zeros((1, 2)), np.eye(2)]) if not top.any() else np.zeros((3, 2))
        basis = np.vstack([top, rest])
        reflector, dual = complement(basis)
        columns = (np.eye(5) - reflector @ dual.T)[:, 2:]
        np.testing.assert_allclose(columns.T @ columns, np.eye(3), atol=1e-14)
        np.testing.assert_allclose(basis.T @ columns, 0.0, atol=1e-14)


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_moving_is_the_best_approximation_of_the_sum(shape, rank):
    point = random_point(shape, rank)
    step = np.random.default_rng(2).standard_normal(tangent_size(shape, rank))
    moved = point.moved(step)
    whole = point.matrix() + point.tangent_vector(step)
    np.testing.assert_allclose(moved.matrix(), truncated(whole, rank).matrix(), atol=1e-10)
    np.testing.assert_allclose(moved.left.T @ moved.left, np.eye(rank), atol=1e-12)
    assert moved.matrix().shape == shape
    assert np.linalg.norm(point.moved(step, largest=0.5).matrix(), 2) <= 0.5 + 1e-12


def test_shrinkage_is_signal_times_both_cosines():
    """For a spike x the observed value is y(x) and the best weight x cos(left) cos(right), all known in closed form."""
    shape, noise_std = (60, 15), 0.3
    aspect = 15 / 60
    x = np.array([5.0, 2.0, 1.2])
    y = np.sqrt((x + 1 / x) * (x + aspect / x))
    cosines = (x**4 - aspect) / np.sqrt((x**4 + aspect * x**2) * (x**4 + x**2))
    scale = noise_std * np.sqrt(60)
    np.testing.assert_allclose(shrunk_values(scale * y, noise_std, shape), scale * x * cosines, rtol=1e-12)
    inside = scale * np.array([1.4, 0.3])  # the bulk ends at 1.5
    np.testing.assert_array_equal(shrunk_values(inside, noise_std, shape), 0.0)
    np.testing.assert_array_equal(shrunk_values(inside, 0.0, shape), inside)
