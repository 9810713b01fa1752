"""Lab room: one-bit completion as printed: Algorithms 1 to 4, both links, on signs in a dense matrix.

Paper: Li et al. 2021. Letters: Y signs, Omega ``cells``, tau ``radius``, alpha ``bound``, K ``n_iter``, C ``clamp``.
Deviates: nowhere. The solver (SPG) is the product's, which tests compare with a reference; where the paper is silent on
the step of gradient perturbation, it is the spectral step of the noisy gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.links import FlippedSignLoss, ResponseLoss, link_of
from lowkey.linalg.norms import Intersection, NuclearBall
from lowkey.linalg.spectral_gradient import Problem, minimise
from lowkey_lab.printed.held import Held

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Signs:
    """The observed signs and the set C: |X|_* <= radius, |X|_inf <= bound."""

    shape: tuple[int, int]
    cells: NDArray[np.int64]
    values: Array
    radius: float
    bound: float
    link: str
    tol: float = 2e-3
    max_iter: int = 200

    def solve(self, loss: Any) -> Array:
        problem = Problem(self.shape, self.cells, loss, self.radius, self.bound)
        return minimise(problem, tol=self.tol, max_iter=self.max_iter, svd_tol=1e-3).matrix


def completion(data: Signs) -> Array:
    """Problem (2), not private."""
    return data.solve(FlippedSignLoss(link_of(data.link), data.values))


def input_perturbation(data: Signs, epsilon: float, rng: np.random.Generator) -> Array:
    """Algorithm 1 with p1 = p2 = 1/(1 + e^epsilon); the loss (4) knows the flips."""
    p = 1.0 / (1.0 + math.exp(epsilon))
    flipped = np.where(rng.random(len(data.values)) < p, -data.values, data.values)  # 1, equation (3)
    return data.solve(FlippedSignLoss(link_of(data.link), flipped, p))  # 2


def objective_perturbation(data: Signs, epsilon: float, rng: np.random.Generator) -> Array:
    """Algorithm 2; the noise stands inside the factor -1/2 of equation (5), so the gradient has -H/2."""
    h = rng.laplace(scale=objective_spread(data) / epsilon, size=len(data.values))  # 1
    link, responses = link_of(data.link), (1.0 + data.values) / 2.0
    return data.solve(ResponseLoss(link, responses, h / 2.0))  # 2, 3


def objective_spread(data: Signs) -> float:
    """Delta of section 4.2: 1 for the logistic link, 2 h'(0)/h(-alpha) for the Gaussian one."""
    if data.link == "logistic":
        return 1.0
    link, zero, end = link_of(data.link), np.array(0.0), np.array(-data.bound)
    return float(2.0 * link.slope(zero) * link.probability(zero) / link.probability(end))


def gradient_perturbation(data: Signs, epsilon: float, n_iter: int, rng: np.random.Generator, clamp: float = 0.5) -> Array:
    """Algorithm 3, entries clamped to C; the L1 sensitivity of a clamped entry is 2C."""
    link = link_of(data.link)
    region = Intersection(NuclearBall(data.radius, tol=1e-3), data.bound)
    x, before, moved = np.zeros(data.shape), np.zeros(len(data.cells)), np.zeros(data.shape)
    step = 1.0 / link.most_curvature / max(len(data.cells) / (data.shape[0] * data.shape[1]), 1e-12)
    for k in range(n_iter):  # 1
        slope = -data.values * link.slope(data.values * x.ravel()[data.cells])
        noise = rng.laplace(scale=n_iter * 2.0 * clamp / epsilon, size=len(slope))  # 2
        gradient = np.clip(slope, -clamp, clamp) + noise  # 3
        curved = float(np.dot(moved.ravel()[data.cells], gradient - before)) if k else 0.0
        step = min(float(np.vdot(moved, moved)) / curved, 1e4) if curved > 0.0 else step
        target = x.copy()
        target.ravel()[data.cells] -= step * gradient
        new = region.project(target, x, step, 0.9, 20).point  # 4
        x, moved, before = new, new - x, gradient
    return x


def output_perturbation(data: Signs, epsilon: float, rng: np.random.Generator, minimiser: Array | None = None) -> Array:
    """Algorithm 4: Laplace(2 alpha/epsilon) on every entry of the minimiser, which may be given."""
    found = completion(data) if minimiser is None else minimiser  # 1
    return found + rng.laplace(scale=2.0 * data.bound / epsilon, size=data.shape)  # 2, 3


def held(perturbation: str, link: str, epsilon: float) -> Held:
    """One sign, pure epsilon."""
    if perturbation == "objective" and link == "logistic":
        return Held(epsilon, 2.0 * epsilon, reasons=("equation (5) puts H/2 on the gradient where the proof has H",))
    if perturbation == "objective":
        reason = "the noise is linear in X and the sign's loss is not: the change of variables is missing from the proof"
        return Held(epsilon, math.inf, "none proven", reasons=(reason,))
    if perturbation == "output":
        reason = (
            "2 alpha bounds one entry and not their sum: two signs apart, whole matrices differ, and an attack tells them"
        )
        return Held(epsilon, math.inf, "refuted", reasons=(reason,))
    return Held(epsilon, epsilon)
