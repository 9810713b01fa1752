"""Lab room: trace regression as published, to reproduce the paper's figures; no epsilon holds for every data set.

Paper: Zha 2024, Algorithms 1 and 2; sensitivities of Theorems 1 and 3, or 6 and 7 for ``protect="responses"``.
Deviates: the core's noise is r x r independent, for the printed symmetric noise leaves its antisymmetric part bare;
the constants of the theorems, which are not known, are 1; the step is ETA and the number of steps the ceiling of log n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.trace import Measurements
from lowkey.errors import refuse
from lowkey.linalg.lowrank import FixedRank, tangent_size
from lowkey.linalg.packed import packed_length
from lowkey.methods.constraints import positive
from lowkey.methods.curator import Curator
from lowkey.methods.trace.bounds import TraceFacts
from lowkey.methods.trace.method import UNITS, DPTraceRegression
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey_lab.published.trace_kernel import PublishedCore, PublishedGradient, PublishedProjectors

ETA = 0.5
CAVEAT = (
    "Published calibration: the sensitivities hold only under the Gaussian model, with high probability and up to "
    "unknown constants. For other data sets nothing is promised. Under the model the paper claims (2 epsilon, 2 delta)."
)


def n_steps(n_records: int) -> int:
    return max(1, math.ceil(math.log(n_records)))


def published_plan(facts: TraceFacts, epsilon: float, delta: float, **fields: Any) -> Plan:
    """The noise of the paper: (epsilon, delta) for the start in three parts, and as much for the steps in equal parts."""
    (d1, d2), rank, steps = facts.shape, facts.rank, n_steps(facts.n_records)
    third = Gaussian(math.sqrt(18.0 * math.log(3.0 / delta)) / epsilon)
    part = Gaussian(steps * math.sqrt(2.0 * math.log(1.25 * steps / delta)) / epsilon)
    lines = (
        Line("left_projector", third, packed_length(d1), note="upper triangle"),
        Line("right_projector", third, packed_length(d2), note="upper triangle"),
        Line("core", third, rank * rank),
        Line("gradient", part, tangent_size(facts.shape, rank), steps, note="in the tangent space"),
    )
    return Plan("DPTraceRegression", lines, 2.0 * delta, caveats=(CAVEAT,), sound=False, **fields)


def published_path(facts: TraceFacts, sigma_r: float, protect: str, curator: Curator) -> list[FixedRank]:
    n, rank = facts.n_records, facts.rank
    low, high = facts.whitener.smallest, facts.whitener.largest
    signal = math.sqrt(high * rank) * facts.max_singular_value if protect == "records" else 0.0
    of_core = math.sqrt(rank / low) * (signal + facts.error_std) * math.log(n)  # n times Delta^(2)
    design = (facts.shape, facts.whitener)
    posts = curator.ask(PublishedProjectors(*design, rank, of_core / sigma_r / n))
    left = _leading(posts["left_projector"], facts.shape[0], rank)
    right = _leading(posts["right_projector"], facts.shape[1], rank)
    u, values, v = np.linalg.svd(curator.ask(PublishedCore(*design, left, right, of_core))["core"] / n)
    path = [FixedRank(left @ u, values, right @ v.T)]
    residual = facts.error_std + (sigma_r * math.sqrt(high) if protect == "records" else 0.0)
    of_gradient = residual * math.sqrt(high * rank * sum(facts.shape) * math.log(n))  # n/eta times Delta_l
    for _ in range(n_steps(n)):
        sweep = PublishedGradient("gradient", path[-1], math.inf, math.inf, of_gradient)
        path.append(path[-1].moved(ETA / n * curator.ask(sweep)["gradient"]))
    return path


class PublishedTraceRegression(DPTraceRegression):
    """``DPTraceRegression`` as published. ``min_singular_value`` is in the published sensitivities; no epsilon holds."""

    constraints = {**DPTraceRegression.constraints, "min_singular_value": positive()}

    def __init__(
        self,
        rank: int = 1,
        epsilon: float | None = None,
        delta: float | None = None,
        protect: str = "records",
        error_std: float | None = None,
        max_singular_value: float | None = None,
        min_singular_value: float | None = None,
        covariance: Any = None,
    ) -> None:
        public = {"error_std": error_std, "max_singular_value": max_singular_value, "covariance": covariance}
        super().__init__(rank, epsilon, delta, protect, **public)
        self.min_singular_value = min_singular_value

    def plan(self, facts: TraceFacts) -> Plan:
        assert self.epsilon is not None
        assert self.delta is not None
        fields = {"unit": UNITS[self.protect], "public": self._public(facts)}
        return published_plan(facts, self.epsilon, self.delta, **fields)

    def _path(self, facts: TraceFacts, curator: Curator, measurements: Measurements | None) -> list[FixedRank]:
        if self.min_singular_value is None:
            refuse(
                "min_singular_value",
                got="none",
                needed="the smallest singular value: the published sensitivities contain it",
                try_="DPTraceRegression, which does not need it",
            )
        return published_path(facts, self.min_singular_value, self.protect, curator)


def _leading(packed: NDArray[np.float64], order: int, rank: int) -> NDArray[np.float64]:
    """The leading eigenvectors, by size, of a symmetric matrix given by its upper triangle."""
    matrix = np.zeros((order, order))
    matrix[np.triu_indices(order)] = packed
    values, vectors = np.linalg.eigh(matrix, UPLO="U")
    return vectors[:, np.argsort(-np.abs(values), kind="stable")[:rank]]
