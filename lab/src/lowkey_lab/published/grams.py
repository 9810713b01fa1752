"""Lab room: Gram matrices with the noise that Jain et al. published, and the guarantee that really holds for it.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 line 2, Algorithm 3 line 1, Lemma C.1. Deviates: the paper's noise
has independent entries; its symmetric part, which is all that a symmetric statistic needs, costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Plan
from lowkey.privacy.sums import Statistic


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
