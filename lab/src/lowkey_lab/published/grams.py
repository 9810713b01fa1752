"""Lab room: Gram matrices with the noise that Jain et al. published, and the guarantee that really holds for it.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 line 2, Algorithm 3 line 1, Lemma C.1. Deviates: the paper's noise
has independent entries; its symmetric part, which is all that a symmetric statistic needs, costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.frank_wolfe import ResidualGram
from lowkey.kernels.walk import Walk
from lowkey.methods.base import Budget
from lowkey.methods.constraints import either, positive, word
from lowkey.methods.frank_wolfe.method import DPFrankWolfe
from lowkey.methods.frank_wolfe.settings import FrankWolfeSettings
from lowkey.methods.svd.method import DPSVD, SVDSettings, row_gram
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Plan
from lowkey.privacy.sums import Statistic


class PublishedFrankWolfe(DPFrankWolfe):
    """``DPFrankWolfe`` with the noise of Algorithm 1, line 2; ``epsilon`` is the claim, the guarantee is what holds."""

    constraints = {**DPFrankWolfe.constraints, "form": word("auto", "gram")}

    def _settings(self, domain: Domain, budget: Budget) -> FrankWolfeSettings:
        settings = super()._settings(domain, budget)
        if settings.form != "gram":
            refuse("form", got="a power iteration", needed="'gram': the paper has no other", try_="form='gram'")
        return replace(settings, residual_norm=math.inf)  # residuals are not clipped: 2L, by the triangle inequality

    def plan_of(self, settings: FrankWolfeSettings) -> Plan:
        walk = Walk.nowhere(settings.n_items)
        rounds = range(1, settings.n_iter + 1)
        grams = [ResidualGram(t, walk, *self._bounds(settings)).statistics[0] for t in rounds]
        budget = settings.budget
        noise = published_noise(settings.row_norm, settings.n_iter + 1, budget.epsilon, budget.delta)
        return with_published_noise(super().plan_of(settings), grams, noise, budget.epsilon)


class PublishedSVD(DPSVD):
    """``DPSVD`` with the noise of Algorithm 3, line 1. The paper posts no density: ``scaling`` is "user", or public."""

    constraints = {**DPSVD.constraints, "scaling": either(word("user"), positive())}

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int = 8,
        row_norm: float | None = None,
        offset_reg: float | None = 5.0,
        scaling: str | float = "user",
    ) -> None:
        super().__init__(epsilon, delta, adjacency, rank, row_norm=row_norm, offset_reg=offset_reg, scaling=scaling)

    def plan_of(self, settings: SVDSettings) -> Plan:
        budget, gram = settings.budget, row_gram(settings).statistics[0]
        noise = published_noise(settings.row_norm, 1, budget.epsilon, budget.delta)
        return with_published_noise(super().plan_of(settings), [gram], noise, budget.epsilon)


def published_noise(row_norm: float, rounds: int, epsilon: float, delta: float) -> float:
    """The paper's sigma: L^2 sqrt(64 T ln(1/delta)) / epsilon. ``rounds`` is its T, one more than what is posted."""
    return row_norm**2 * math.sqrt(64.0 * rounds * math.log(1.0 / delta)) / epsilon


def with_published_noise(plan: Plan, grams: Sequence[Statistic], noise: float, epsilon: float) -> Plan:
    """The same posts with this noise; what they cost follows from the sensitivities that hold.

    A line's price is sensitivity / noise under the plan's adjacency: L^2 in round 1 and 4L^2 later for add/remove, and
    sqrt(2) times that for replace-one, which is what the paper's Definition 2.2 asks for and Lemma C.1 leaves out.
    """
    sensitivities = {gram.name: gram.sensitivity.under(plan.adjacency) for gram in grams}
    lines = tuple(
        replace(line, mechanism=SymmetricGaussian(noise / sensitivities[line.name])) if line.name in sensitivities else line
        for line in plan.lines
    )
    caveat = f"Noise as published for epsilon = {epsilon:g}; the epsilon printed is the one that holds for it."
    settings = {**plan.settings, "calibration": "published", "asked_epsilon": epsilon}
    return replace(plan, lines=lines, caveats=(*plan.caveats, caveat), settings=settings)
