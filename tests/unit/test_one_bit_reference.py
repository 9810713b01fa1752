"""The solver of one-bit completion against CVXPY: the same optimum, for both links, with both constraints active."""

from __future__ import annotations

import numpy as np
import pytest

from lowkey.linalg.links import FlippedSignLoss, Link, link_of
from lowkey.linalg.spectral_gradient import Problem, minimise

cp = pytest.importorskip("cvxpy", reason="the reference solver is a development dependency: pip install cvxpy")

SIDE, RADIUS, BOUND = 30, 18.0, 0.7


def one_bit_problem(link: Link) -> Problem:
    rng = np.random.default_rng(7)
    truth = 3.0 * np.outer(rng.uniform(-1, 1, SIDE), rng.uniform(-1, 1, SIDE))
    cells = np.flatnonzero(rng.random(SIDE * SIDE) < 0.5)
    signs = np.where(rng.random(len(cells)) < link.probability(truth.ravel()[cells]), 1.0, -1.0)
    return Problem((SIDE, SIDE), cells, FlippedSignLoss(link, signs), RADIUS, BOUND)


def reference_value(problem: Problem, link: Link) -> float:
    """Proximal Newton: CVXPY's Clarabel minimises the quadratic model under both constraints until it is the optimum.

    (CVXPY has no exact log-normal-cdf, so the model is built here; for a convex loss its fixed point is the optimum.)
    """
    assert isinstance(problem.loss, FlippedSignLoss)
    x = np.zeros(len(problem.cells))
    matrix = cp.Variable(problem.shape)
    weights, linear = cp.Parameter(len(x), nonneg=True), cp.Parameter(len(x))
    rows, cols = np.divmod(problem.cells, problem.shape[1])
    picked = matrix[rows, cols]
    model = 0.5 * cp.sum_squares(cp.multiply(weights, picked)) + linear @ picked
    feasible = [cp.normNuc(matrix) <= problem.radius, cp.abs(matrix) <= problem.bound]
    subproblem = cp.Problem(cp.Minimize(model), feasible)
    value = np.inf
    for _ in range(12):
        gradient = problem.loss.gradient(x)
        h = 1e-5
        curvature = (problem.loss.gradient(x + h) - problem.loss.gradient(x - h)) / (2 * h)
        weights.value, linear.value = np.sqrt(curvature), gradient - curvature * x
        subproblem.solve(solver=cp.CLARABEL)
        x = matrix.value.ravel()[problem.cells]
        new = problem.loss.value(x)
        if abs(new - value) <= 1e-7 * abs(new):
            break
        value = new
    return new


@pytest.mark.parametrize("name", ["logistic", "probit"])
def test_solver_reaches_the_reference(name: str) -> None:
    link = link_of(name)
    problem = one_bit_problem(link)
    solved = minimise(problem, tol=1e-5, max_iter=2000)
    expected = reference_value(problem, link)
    # Both constraints are active, and hold to rounding.
    assert np.linalg.norm(solved.matrix, "nuc") == pytest.approx(RADIUS, rel=1e-3)
    assert np.linalg.norm(solved.matrix, "nuc") <= RADIUS * (1 + 1e-9)
    assert np.abs(solved.matrix).max() == pytest.approx(BOUND, rel=1e-3)
    assert np.abs(solved.matrix).max() <= BOUND * (1 + 1e-12)
    assert abs(solved.value - expected) <= 1e-4 * abs(expected)
    # The certificate is an upper bound on what is left (the reference is good to about 1e-7).
    assert solved.value - expected <= solved.gap + 1e-6 * abs(expected)
    print(f"{name}: ours {solved.value:.6f}, reference {expected:.6f}, certified gap {solved.gap:.2e}")
