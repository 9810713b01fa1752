"""Public room: non-monotone spectral projected gradients on the nuclear-norm ball and the box, with a certificate.

Minimises f(X) = loss of the observed entries + ridge/2 |X|_F^2. Convex f: at any feasible X with gradient G, and for any
A with B = -G - A,

    f(X) - min f  <=  max over feasible Z of <G, X - Z>  <=  <G, X> + radius |A|_op + bound |B|_1  =: gap,

because <-G, Z> = <A, Z> + <B, Z>. The projection's multipliers give a good A. With a ridge, adding
f(X) - f* >= ridge/2 d^2 and f* >= f(X) - gap + ridge/2 d^2 for d = |X - X*|_F gives d <= sqrt(gap/ridge): that is what
the privacy of output perturbation stands on, so ``certified`` computes |A|_op by a dense SVD, not by iteration.

Paper: Birgin, Martinez and Raydan 2000 (Algorithm 2.2) and 2003 (inexact projections); Li et al. 2021, equation 2.
Deviates: nowhere; the papers on one-bit completion do not say how they project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.links import Loss
from lowkey.linalg.norms import Intersection, NuclearBall, Projection

Array = NDArray[np.float64]

MEMORY = 10  # how many past values the line search may climb back to
SUFFICIENT = 1e-4
SHORTEST, LONGEST = 1e-8, 1e8
MOST_EFFORT = 320  # steps of one projection


@dataclass(frozen=True)
class Problem:
    """What is minimised: ``loss`` at the ``cells`` (positions in the flattened matrix), under the two constraints."""

    shape: tuple[int, int]
    cells: NDArray[np.int64]
    loss: Loss
    radius: float
    bound: float
    ridge: float = 0.0

    def value(self, matrix: Array) -> float:
        penalty = 0.5 * self.ridge * float(np.vdot(matrix, matrix)) if self.ridge else 0.0
        return self.loss.value(matrix.ravel()[self.cells]) + penalty

    def gradient(self, matrix: Array) -> Array:
        dense = self.ridge * matrix if self.ridge else np.zeros(self.shape)
        dense.ravel()[self.cells] += self.loss.gradient(matrix.ravel()[self.cells])
        return dense

    def gap(self, matrix: Array, gradient: Array, normal: Array, normal_norm: float) -> float:
        """The bound of the module's docstring, for A = ``normal``, whose operator norm is at most ``normal_norm``."""
        if math.isinf(self.bound):  # then B must be 0
            normal, normal_norm = -gradient, float(np.linalg.norm(gradient, 2))
        ball = self.radius * normal_norm if normal_norm else 0.0
        rest = float(np.abs(gradient + normal).sum())
        return float(np.vdot(gradient, matrix)) + ball + (self.bound * rest if rest else 0.0)


@dataclass(frozen=True)
class Solution:
    """Where the search stopped, and how far from the optimum that can be."""

    matrix: Array
    value: float
    gap: float  # value - optimum is at most this
    residual: float  # norm of the projected gradient step, per unit of step
    iterations: int
    partial_svds: int
    dense_svds: int


def minimise(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_iter: int = 300,
    start: Array | None = None,
    svd_tol: float = 1e-4,
    certified: bool = False,
) -> Solution:
    """Stop when the gap is below ``tol`` of the value at X = 0; with ``certified``, below ``tol`` itself, by dense SVDs."""
    ball = NuclearBall(problem.radius, tol=svd_tol)
    region = Intersection(ball, problem.bound)
    matrix = np.zeros(problem.shape) if start is None else start
    value, gradient = problem.value(matrix), problem.gradient(matrix)
    recent = [value]
    # Relative to the value at zero: at the optimum of a noisy objective the value itself may be near zero.
    enough_gap = tol if certified else tol * abs(problem.value(np.zeros(problem.shape)))
    # As long as if every cell were observed: a long first step keeps the rank of the first projection low.
    step = gradient.size / max(1, len(problem.cells)) / max(float(np.abs(gradient).max()), SHORTEST)
    gap, residual, enough, effort, iteration = math.inf, math.inf, 0.3, 10, 0
    while iteration < max_iter:
        iteration += 1
        near = region.project(matrix - step * gradient, matrix, step, enough, effort)
        direction = near.point - matrix
        residual = math.sqrt(float(np.vdot(direction, direction))) / step
        gap = _gap(problem, matrix, gradient, near, step, certified)
        slope = float(np.vdot(gradient, direction))
        if gap <= enough_gap:
            break
        if slope >= 0.0:  # no descent: the projection was too coarse, or this is the optimum to rounding
            if effort >= MOST_EFFORT:
                break
            enough, effort = 1.0 - (1.0 - enough) / 4.0, 2 * effort
            continue
        matrix, gradient, value, step = _line_search(problem, matrix, gradient, direction, slope, max(recent))
        recent = [*recent[1 - MEMORY :], value]
    return Solution(matrix, value, gap, residual, iteration, ball.partial_svds, ball.dense_svds)


def _line_search(
    problem: Problem, matrix: Array, gradient: Array, direction: Array, slope: float, ceiling: float
) -> tuple[Array, Array, float, float]:
    """Halve the way (by safeguarded parabola) until the value is below the highest of the recent ones."""
    length, base = 1.0, problem.value(matrix)
    while True:
        candidate = matrix + length * direction
        value = problem.value(candidate)
        if value <= ceiling + SUFFICIENT * length * slope or length < 1e-10:
            break
        parabola = -0.5 * length * length * slope / max(value - base - length * slope, 1e-300)
        length = min(max(parabola, 0.1 * length), 0.5 * length)
    new = problem.gradient(candidate)
    curved = float(np.vdot(direction, new - gradient))  # <s, y>/length
    squared = length * float(np.vdot(direction, direction))  # <s, s>/length
    step = LONGEST if curved <= 0.0 else min(max(squared / curved, SHORTEST), LONGEST)
    return candidate, new, value, step


def _gap(problem: Problem, matrix: Array, gradient: Array, near: Projection, step: float, certified: bool) -> float:
    normal = near.normal / step
    norm = near.normal_norm / step
    if certified and math.isfinite(problem.radius):
        norm = float(np.linalg.norm(normal, 2))
    return problem.gap(matrix, gradient, normal, norm)
