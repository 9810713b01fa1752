"""Lab room: one-bit completion with the noise that was published, and the guarantee that really holds for it.

Paper: Li et al. 2021, Algorithms 2 to 4 (Algorithm 1, input perturbation, is sound as it stands). Deviates: nowhere; only
the price is computed anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.errors import refuse
from lowkey.kernels.one_bit import BITS, Minimiser, Responses
from lowkey.linalg.links import FlippedSignLoss, ResponseLoss
from lowkey.linalg.norms import Intersection, NuclearBall
from lowkey.linalg.spectral_gradient import Problem, minimise
from lowkey.methods.base import Budget
from lowkey.methods.constraints import positive
from lowkey.methods.curator import Curator
from lowkey.methods.one_bit.method import DPOneBit
from lowkey.methods.one_bit.perturbations import (
    GradientPerturbation,
    InputPerturbation,
    ObjectivePerturbation,
    OutputPerturbation,
    Perturbation,
)
from lowkey.methods.one_bit.settings import OneBitSettings
from lowkey.privacy.grid import HAIR, Grid
from lowkey.privacy.mechanisms import Laplace, NoNoise
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Sensitivity, Statistic

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedMinimiser(Minimiser):
    """As published: no ridge, no certificate. The paper's 2 alpha bounds one entry, not their sum.

    What does bound the sum, for any two data sets: |X - X'|_1 <= 2 alpha size, and <= sqrt(size) 2 radius, as
    |X|_1 <= sqrt(size) |X|_F and |X|_F <= |X|_*.
    """

    ridge: float = 0.0
    tol: float = 1e-3

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        shape = self.positions.shape
        size = shape[0] * shape[1]
        moved = 2.0 * min(self.entry_bound * size, self.radius * math.sqrt(size)) * (1.0 + HAIR)
        grid = Grid.for_bound(self.entry_bound, BITS)
        return (Statistic("minimiser", shape, grid, Sensitivity(moved, moved, "l1"), 1 << BITS),)

    def solution(self, shape: tuple[int, int], cells: NDArray[np.int64], signs: NDArray[np.float64]) -> NDArray[np.int64]:
        problem = Problem(shape, cells, FlippedSignLoss(self.link, signs), self.radius, self.entry_bound)
        return self.to_units(minimise(problem, tol=self.tol, max_iter=self.max_iter, svd_tol=1e-3).matrix)


class PublishedObjective(ObjectivePerturbation):
    """Equation 5 puts H/2 on the gradient where the proof has H, so the logistic form costs 2 epsilon. For the probit link
    the noise is linear in x and the sign is not, and no epsilon is proven: it reads the signs in the clear."""

    def lines(self, settings: OneBitSettings) -> list[Line]:
        if settings.link.steepness(0.0) == 1.0:  # logistic
            noise = Laplace(0.5 / settings.budget.epsilon)
            return [Line("responses", noise, settings.size, note="H/2, as in equation 5")]
        return [Line("responses", NoNoise(), settings.size, note="read in the clear: no proof covers the tilt")]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        responses = curator.ask(Responses(**settings.shared()))["responses"]
        tilt: Array | float = 0.0
        if isinstance(self.lines(settings)[0].mechanism, NoNoise):
            # Delta of section 4.2: 2 h'(0)/h(-alpha), and h' = slope * h
            zero, end = np.array(0.0), np.array(-settings.entry_bound)
            link = settings.link
            spread = 2.0 * link.slope(zero) * link.probability(zero) / link.probability(end)
            draws = np.random.default_rng().laplace(size=settings.size)
            tilt = draws * float(spread) / settings.budget.epsilon / 2.0
        return settings.solve(ResponseLoss(settings.link, responses, tilt))

    def caveats(self, settings: OneBitSettings) -> tuple[str, ...]:
        return ("objective perturbation as published: noise H/2 (equation 5), where its proof assumes H",)


class PublishedGradients(GradientPerturbation):
    """Spectral steps from the noisy gradients, and the last iterate."""

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        shape, cells = settings.positions.shape, settings.positions.cells
        region = Intersection(NuclearBall(settings.radius, tol=1e-3), settings.entry_bound)
        step = 1.0 / settings.link.most_curvature / max(len(cells) / (shape[0] * shape[1]), 1e-12)
        matrix, before, moved = np.zeros(shape), np.zeros(len(cells)), np.zeros(shape)
        for k in range(settings.n_iter):
            gradient = curator.ask(self.sweep(settings, matrix.ravel()[cells]))["gradient"]
            curved = float(np.dot(moved.ravel()[cells], gradient - before)) if k else 0.0
            if curved > 0.0:
                step = min(float(np.vdot(moved, moved)) / curved, 1e4)
            target = matrix.copy()
            target.ravel()[cells] -= step * gradient
            new = region.project(target, matrix, step, 0.9, 20).point
            matrix, moved, before = new, new - matrix, gradient
        return matrix

    def caveats(self, settings: OneBitSettings) -> tuple[str, ...]:
        return ("gradient perturbation as published, with steps computed from noisy gradients; the paper is silent on it",)


class PublishedOutput(OutputPerturbation):
    """No ridge, Laplace(2 alpha/epsilon) on every entry; that is (size x epsilon), as every entry may move."""

    def lines(self, settings: OneBitSettings) -> list[Line]:
        (statistic,) = self.sweep(settings).statistics
        scale = 2.0 * settings.entry_bound / settings.budget.epsilon
        return [Line("minimiser", Laplace(scale / statistic.sensitivity.replace_one), statistic.size)]

    def run(self, settings: OneBitSettings, curator: Curator) -> Array:
        return curator.ask(self.sweep(settings))["minimiser"]

    def sweep(self, settings: OneBitSettings) -> PublishedMinimiser:
        return PublishedMinimiser(
            **settings.shared(),
            link=settings.link,
            entry_bound=settings.entry_bound,
            radius=settings.radius,
            tol=settings.tol,
            max_iter=settings.max_iter,
        )

    def caveats(self, settings: OneBitSettings) -> tuple[str, ...]:
        return ("output perturbation as published bounds one entry where all may move: hence this epsilon",)


PUBLISHED: dict[str, Perturbation] = {
    "input": InputPerturbation(),
    "objective": PublishedObjective(),
    "gradient": PublishedGradients(),
    "output": PublishedOutput(),
}


class TunedOneBit(DPOneBit):
    """``DPOneBit`` with the numbers that experiments vary."""

    constraints = {
        **DPOneBit.constraints,
        "gradient_bound": positive(),
        "output_ridge": positive(),
    }

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        perturbation: str = "input",
        link: str = "logistic",
        unit: str = "rating",
        max_ratings: int | None = None,
        threshold: float | None = None,
        entry_bound: float = 1.0,
        rank: float = 1.0,
        n_iter: int = 10,
        gradient_bound: float = 0.5,
        output_ridge: float = 1.0,
        tol: float = 5e-3,
        max_iter: int = 60,
    ) -> None:
        super().__init__(
            epsilon, delta, "replace-one", perturbation, link, unit, max_ratings, threshold, entry_bound, rank, n_iter
        )
        self.gradient_bound = gradient_bound
        self.output_ridge = output_ridge
        self.tol = tol
        self.max_iter = max_iter

    def _with_positions(self, domain: Domain, budget: Budget, positions: Positions) -> OneBitSettings:
        settings = super()._with_positions(domain, budget, positions)
        own = {"gradient_bound": self.gradient_bound, "ridge": self.output_ridge}
        return replace(settings, **own, tol=self.tol, max_iter=self.max_iter)


class PublishedOneBit(TunedOneBit):
    """As published: one rating, pure epsilon; the epsilon that is reported is the one that holds."""

    def _with_positions(self, domain: Domain, budget: Budget, positions: Positions) -> OneBitSettings:
        if self.unit == "user" or self.delta is not None:
            refuse("the published form", got="a user or a delta", needed="one rating, pure epsilon", try_="DPOneBit")
        return super()._with_positions(domain, budget, positions)

    def _where(self, settings: OneBitSettings) -> Perturbation:
        return PUBLISHED[settings.perturbation]

    def plan_of(self, settings: OneBitSettings) -> Plan:
        plan = super().plan_of(settings)
        asked = {"calibration": "published", "asked_epsilon": settings.budget.epsilon}
        return replace(plan, settings={**plan.settings, **asked})
