"""Links, projections and the spectral projected gradient of one-bit completion."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from lowkey.linalg.links import FlippedSignLoss, Loss, ResponseLoss, link_of
from lowkey.linalg.norms import Intersection, NuclearBall, ball_threshold, leading_svd
from lowkey.linalg.spectral_gradient import Problem, minimise

LINK_NAMES = ["logistic", "probit"]


def exact_log(name: str, x: float) -> mpmath.mpf:
    return -mpmath.log(1 + mpmath.exp(-mpmath.mpf(x))) if name == "logistic" else mpmath.log(mpmath.ncdf(mpmath.mpf(x)))


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("x", [-35.0, -8.0, -1.3, 0.0, 0.7, 6.0, 30.0])
def test_links_are_exact_in_the_tails(name: str, x: float) -> None:
    link = link_of(name)
    with mpmath.workdps(500):  # Phi(30) differs from 1 in its 198th digit
        log, slope = exact_log(name, x), mpmath.diff(lambda t: exact_log(name, t), x)
    assert float(link.log_probability(np.float64(x))) == pytest.approx(float(log), rel=1e-12, abs=1e-300)
    assert float(link.slope(np.float64(x))) == pytest.approx(float(slope), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize("bound", [0.4, 1.0, 2.5])
def test_steepness_and_curvature_are_the_extremes(name: str, bound: float) -> None:
    link, x = link_of(name), np.linspace(-bound, bound, 4001)
    curvature = -np.gradient(link.slope(x), x)
    assert link.steepness(bound) == pytest.approx(np.max(link.slope(x) + link.slope(-x)), rel=1e-9)
    assert link.least_curvature(bound) == pytest.approx(curvature.min(), rel=2e-2)
    assert curvature.max() <= link.most_curvature + 1e-4


@pytest.mark.parametrize("name", LINK_NAMES)
def test_gradients_are_derivatives(name: str) -> None:
    rng = np.random.default_rng(3)
    link, x = link_of(name), rng.normal(size=7)
    signs = np.where(rng.random(7) < 0.5, 1.0, -1.0)
    losses: list[Loss] = [
        FlippedSignLoss(link, signs),
        FlippedSignLoss(link, signs, 0.2),
        ResponseLoss(link, rng.normal(size=7), rng.normal(size=7)),
    ]
    for loss in losses:
        for i in range(7):
            step = np.zeros(7)
            step[i] = 1e-6
            slope = (loss.value(x + step) - loss.value(x - step)) / 2e-6
            assert loss.gradient(x)[i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_a_response_of_zero_or_one_is_a_sign() -> None:
    signs, x = np.array([1.0, -1.0, 1.0]), np.array([0.3, -2.0, -0.1])
    for name in LINK_NAMES:
        link = link_of(name)
        assert ResponseLoss(link, (1 + signs) / 2).value(x) == pytest.approx(FlippedSignLoss(link, signs).value(x))


@pytest.mark.parametrize("radius", [0.5, 7.0, 200.0])
def test_nuclear_projection_meets_its_optimality_conditions(radius: float) -> None:
    matrix = np.random.default_rng(1).normal(size=(12, 9))
    point, theta = NuclearBall(radius, tol=0.0).project(matrix)
    values = np.linalg.svd(point, compute_uv=False)
    assert values.sum() <= radius * (1 + 1e-12)
    rest = matrix - point
    # rest is in the normal cone: <rest, point> = radius |rest|_op, the largest that <rest, .> takes on the ball
    assert np.vdot(rest, point) == pytest.approx(radius * np.linalg.norm(rest, 2), abs=1e-9)
    assert theta == pytest.approx(np.linalg.norm(rest, 2), abs=1e-9)


def test_partial_projection_equals_the_dense_one() -> None:
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(250, 6)) @ rng.normal(size=(6, 310)) + 0.3 * rng.normal(size=(250, 310))
    partial, dense = NuclearBall(900.0, tol=1e-12), NuclearBall(900.0, tol=0.0)
    (ours, theta), (exact, exact_theta) = partial.project(matrix), dense.project(matrix)
    assert (partial.dense_svds, dense.partial_svds) == (0, 0)
    assert theta == pytest.approx(exact_theta, rel=1e-7)
    np.testing.assert_allclose(ours, exact, atol=1e-5)


def test_threshold_keeps_the_radius() -> None:
    values = np.array([5.0, 3.0, 1.0])
    assert ball_threshold(values, 9.5) == 0.0
    assert ball_threshold(values, 6.0) == pytest.approx(1.0)
    assert ball_threshold(values, 3.0) == pytest.approx(2.5)


def test_leading_svd_is_orthonormal_even_when_stopped_early() -> None:
    matrix = np.random.default_rng(5).normal(size=(260, 240))
    left, _, right = leading_svd(matrix, 7, None, 1.0, max_sweeps=1)
    np.testing.assert_allclose(left.T @ left, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(right @ right.T, np.eye(7), atol=1e-12)


def plain_dykstra(target: np.ndarray, radius: float, bound: float) -> np.ndarray:
    """Two thousand unaccelerated steps with dense SVDs."""
    ball, x = NuclearBall(radius, tol=0.0), target.copy()
    p, q = np.zeros_like(x), np.zeros_like(x)
    for _ in range(2000):
        y = ball.project(x + p)[0]
        p = x + p - y
        x = np.clip(y + q, -bound, bound)
        q = y + q - x
    return x


def test_projection_on_the_intersection_is_dykstras_limit_and_its_bound_holds() -> None:
    target = np.random.default_rng(8).normal(size=(9, 13))
    limit = plain_dykstra(target, 6.0, 0.5)
    assert np.abs(limit).max() == pytest.approx(0.5)  # both constraints bind
    assert np.linalg.norm(limit, "nuc") == pytest.approx(6.0)
    near = Intersection(NuclearBall(6.0, tol=0.0), 0.5).project(target, np.zeros_like(target), 1.0, 1 - 1e-10, 3000)
    np.testing.assert_allclose(near.point, limit, atol=1e-4)
    best = 0.5 * np.sum((limit - target) ** 2)
    assert near.lower <= best * (1 + 1e-9)
    assert np.linalg.norm(near.point, "nuc") <= 6.0 * (1 + 1e-12)
    assert np.abs(near.point).max() <= 0.5 * (1 + 1e-12)


@pytest.mark.parametrize("name", LINK_NAMES)
@pytest.mark.parametrize(("radius", "bound"), [(8.0, 0.6), (8.0, math.inf), (math.inf, 0.6)])
def test_the_certified_gap_and_distance_hold(name: str, radius: float, bound: float) -> None:
    """With a ridge, a coarse solution must lie within sqrt(gap/ridge) of a nearly exact one."""
    rng = np.random.default_rng(4)
    cells = np.flatnonzero(rng.random(11 * 14) < 0.6)
    signs = np.where(rng.random(len(cells)) < 0.5, 1.0, -1.0)
    ridge = 0.07
    problem = Problem((11, 14), cells, FlippedSignLoss(link_of(name), signs), radius, bound, ridge)
    fine = minimise(problem, tol=1e-6, max_iter=5000, certified=True)
    assert fine.gap <= 1e-6
    for tol in (1.0, 1e-1, 1e-2):
        coarse = minimise(problem, tol=tol, max_iter=5000, certified=True)
        assert coarse.gap <= tol
        assert -1e-6 <= coarse.value - fine.value <= coarse.gap
        distance = np.linalg.norm(coarse.matrix - fine.matrix)
        assert distance <= math.sqrt(coarse.gap / ridge) + math.sqrt(1e-6 / ridge)


def test_an_objective_of_noise_is_solved_too() -> None:
    """Responses far outside 0..1 leave a value near zero at the optimum: the stopping rule must not hang on it."""
    rng = np.random.default_rng(6)
    cells = np.flatnonzero(rng.random(900) < 0.3)
    problem = Problem((30, 30), cells, ResponseLoss(link_of("logistic"), rng.normal(size=len(cells)) * 2), 30.0, 1.0)
    solved = minimise(problem, tol=1e-3, max_iter=300)
    assert solved.iterations < 300
    assert solved.gap <= 1e-3 * len(cells) * math.log(2.0)
