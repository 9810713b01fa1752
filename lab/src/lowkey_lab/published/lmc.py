"""Lab room: DPLMC with the noise that was published, and the guarantee that really holds for it.

Paper: Wang, Zhao and Kolar 2023, Theorems 5.1 and 5.3 and appendices A and C. Deviates: nowhere; the noise is the
paper's, independent on the upper triangle of symmetric matrices, and only its price is computed anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.base import Budget
from lowkey.methods.constraints import positive, share
from lowkey.methods.lmc.method import DPLMC
from lowkey.methods.lmc.settings import LMCSettings
from lowkey.privacy.accounting import rdp_epsilon
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Plan

# The settings of a fit as in the paper: no item means and no offsets, all cells alike, and the last round is the model.
AS_PRINTED: dict[str, Any] = {
    "bias_share": 0.0,
    "offset_reg": None,
    "weighting": "uniform",
    "averaged": 0.0,
    "item_reg": 0.0,
}


class PublishedLMC(DPLMC):
    """``DPLMC`` with the noise of Theorems 5.1 and 5.3; ``epsilon`` is the claim, the guarantee is what holds.

    ``density`` must be public, as the paper posts none. ``balance_share`` is its omega, ``start_epsilon`` the part of
    epsilon that a private start has.
    """

    constraints = {
        **DPLMC.constraints,
        "density": replace(DPLMC.constraints["density"], optional=False),
        "balance_share": replace(share(), optional=False),
        "start_epsilon": replace(positive(), optional=False),
    }

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int = 15,
        step: float = 0.5,
        start: str = "auto",
        density: float | None = None,
        balance_share: float = 0.05,
        start_epsilon: float = 1.0,
        init_seed: int = 0,
    ) -> None:
        given: dict[str, Any] = {"rank": rank, "n_iter": n_iter, "step": step, "start": start, "density": density}
        super().__init__(epsilon, delta, adjacency, **given, init_seed=init_seed)
        self.balance_share = balance_share
        self.start_epsilon = start_epsilon

    def _settings(self, domain: Domain, budget: Budget) -> LMCSettings:
        return replace(super()._settings(domain, budget), **AS_PRINTED, balance_share=self.balance_share)

    def plan_of(self, settings: LMCSettings) -> Plan:
        start_epsilon = self.start_epsilon if settings.private_start else None
        return published_plan(super().plan_of(settings), settings.budget.epsilon, settings.balance_share, start_epsilon)


@dataclass(frozen=True)
class PublishedNoise:
    """nu_1 on U^T U in units of alpha_1^2, nu_2 on the gradient in units of G alpha_1, nu_0 on the Gram matrix of rows
    in units of G^2 (the paper's nu_0 without tau^2/p^2, which scales statistic and noise alike)."""

    gram: float
    gradient: float
    start: float

    @classmethod
    def of(cls, epsilon: float, delta: float, n_iter: int, balance_share: float, start_epsilon: float) -> PublishedNoise:
        """Theorem 5.1 at ``epsilon``, with omega = ``balance_share``; Theorem 5.3 at ``start_epsilon``."""
        log = math.log(1.0 / delta)
        rounds = math.sqrt(n_iter * (log + epsilon)) / epsilon
        return cls(
            math.sqrt(8.0 / balance_share) * rounds,
            4.0 / math.sqrt(1.0 - balance_share) * rounds,
            4.0 * math.sqrt(log) / start_epsilon,
        )


# How far one user moves each statistic, in the same units: what holds, and what the paper books.
HOLDS = {
    "add-remove": {"user_gram": 1.0, "item_gradient": 1.0, "start_gram": 1.0},
    "replace-one": {"user_gram": math.sqrt(2.0), "item_gradient": 2.0, "start_gram": math.sqrt(2.0)},
}
BOOKED = {"user_gram": 2.0, "item_gradient": 2.0 * math.sqrt(2.0), "start_gram": 2.0}


def published_plan(plan: Plan, epsilon: float, balance_share: float, start_epsilon: float | None) -> Plan:
    """The same posts with the paper's noise: ``epsilon`` in all, ``start_epsilon`` of it for the start, if there is one.

    A line's price is what holds over the noise. For a symmetric matrix with independent noise on the upper triangle it
    is the norm of the triangle, at most the Frobenius norm: sqrt(2) alpha_1^2 when one user replaces another, reached
    by two orthogonal rows along the axes. The paper adds the epsilons of start and descent, each at its own delta; here
    both stand in one plan at one delta.
    """
    left = epsilon - (start_epsilon or 0.0)
    if left <= 0.0:
        refuse("start_epsilon", got=f"{start_epsilon} of {epsilon}", needed="less than epsilon", try_="a tenth of it")
    n_iter = next(line.times for line in plan.lines if line.name == "item_gradient")
    noise = PublishedNoise.of(left, plan.delta, n_iter, balance_share, start_epsilon or 1.0)
    stds = {"user_gram": noise.gram, "item_gradient": noise.gradient, "start_gram": noise.start}
    moved = HOLDS[plan.adjacency]
    lines = tuple(replace(line, mechanism=Gaussian(stds[line.name] / moved[line.name])) for line in plan.lines)
    caveat = f"Noise as published for epsilon = {epsilon:g}; the epsilon printed is the one that holds for it."
    settings = {**plan.settings, "calibration": "published", "asked_epsilon": epsilon}
    return replace(plan, lines=lines, caveats=(*plan.caveats, caveat), settings=settings)


def booked_epsilon(plan: Plan) -> float:
    """The epsilon of a published plan's noise by the paper's own sensitivities and Rényi conversion, in one composition."""
    moved = HOLDS[plan.adjacency]
    factor = {name: BOOKED[name] / moved[name] for name in moved}
    mu_squared = sum(line.times * (line.mechanism.mu * factor[line.name]) ** 2 for line in plan.lines)
    return rdp_epsilon(mu_squared / 2.0, plan.delta)
