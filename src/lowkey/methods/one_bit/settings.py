"""Public room: the public facts and numbers of a one-bit fit, who rated what among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowkey.data.positions import Positions
from lowkey.linalg.links import Link, Loss, link_of
from lowkey.linalg.spectral_gradient import Problem, minimise
from lowkey.methods.base import Settings
from lowkey.privacy.mechanisms import Laplace, Mechanism
from lowkey.privacy.noise import log_ratio
from lowkey.privacy.plan import Plan, Request


@dataclass(frozen=True, kw_only=True)
class OneBitSettings(Settings):
    positions: Positions
    perturbation: str
    link_name: str
    threshold: float
    unit: Literal["rating", "user"]
    signs: int  # how many values one unit of privacy has at most
    pure_epsilon: bool  # no delta
    entry_bound: float
    radius: float
    n_iter: int
    n_factors: int
    gradient_bound: float = 0.5
    ridge: float = 1.0  # of output perturbation
    reg: float = 1.0  # of the fold-in
    tol: float = 5e-3
    max_iter: int = 60
    flipped: float = 0.0  # the share of signs that were flipped before they came here

    @property
    def link(self) -> Link:
        return link_of(self.link_name)

    @property
    def size(self) -> int:
        return len(self.positions.cells)

    @property
    def norm(self) -> Literal["l1", "l2"]:
        return "l1" if self.pure_epsilon else "l2"

    def shared(self) -> dict[str, Any]:
        """What all sweeps are told."""
        return {
            "positions": self.positions,
            "threshold": self.threshold,
            "signs": self.signs,
            "unit": self.unit,
            "norm": self.norm,
        }

    def pure(self, size: int, times: int = 1) -> float:
        """The epsilon of each of ``times`` pure posts of ``size`` numbers, with the sampler's rounding paid for."""
        return (self.budget.epsilon - 2.0 * log_ratio(size * times, 0.0)) * (1.0 - 1e-12) / times

    def noise(self, size: int, times: int = 1) -> Mechanism:
        """Laplace for pure epsilon, Gaussian with exact accounting for (epsilon, delta)."""
        if self.pure_epsilon:
            return Laplace(1.0 / self.pure(size, times))
        budget, request = self.budget, Request("only", size, 1.0, times)
        plan = Plan.calibrated("one line", [request], epsilon=budget.epsilon, delta=budget.delta, mu=budget.mu)
        return plan.lines[0].mechanism

    def solve(self, loss: Loss) -> NDArray[np.float64]:
        shape, cells = self.positions.shape, self.positions.cells
        problem = Problem(shape, cells, loss, self.radius, self.entry_bound)
        return minimise(problem, tol=self.tol, max_iter=self.max_iter, svd_tol=1e-3).matrix
