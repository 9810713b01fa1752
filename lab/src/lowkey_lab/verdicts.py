"""Lab room: whether a claim holds, from repeated draws: beyond two standard errors, against it by as much, or neither.

Every rule is stated before the run, in the file of its experiment. A claim of several comparisons holds if all of them
do, and fails if one fails. With fewer than ten draws nothing is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

Verdict = Literal["holds", "does not hold", "inconclusive", "cannot be run here", "not judged"]
DRAWS = 10  # the fewest that are judged
WIDTH = 2.0  # standard errors


class Estimate(NamedTuple):
    """A mean over draws and its standard error."""

    mean: float
    error: float
    draws: int

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.error:.2g}"


def estimate(draws: Sequence[float]) -> Estimate:
    values = np.asarray(draws, float)
    spread = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
    return Estimate(float(values.mean()), spread, len(values))


def less(a: Sequence[float], b: Sequence[float], paired: bool, by: float = 0.0) -> Verdict:
    """Is the mean of ``a`` below that of ``b`` by more than ``by``? ``paired``: draw k of both has the same data."""
    if paired:
        if len(a) != len(b):
            raise ValueError("paired draws come in equal numbers")
        difference = estimate(np.subtract(a, b).tolist())
    else:
        one, two = estimate(a), estimate(b)
        spread = math.hypot(one.error, two.error)
        difference = Estimate(one.mean - two.mean, spread, min(one.draws, two.draws))
    return between(difference, -math.inf, -by)


def between(value: Estimate, low: float, high: float) -> Verdict:
    """Is the value inside [low, high]? Two-sided: the whole interval of two standard errors must be inside, or outside."""
    if value.draws < DRAWS:
        return "not judged"
    least, most = value.mean - WIDTH * value.error, value.mean + WIDTH * value.error
    if low <= least and most <= high:
        return "holds"
    return "does not hold" if most < low or least > high else "inconclusive"


def ratio(a: Sequence[float], b: Sequence[float], paired: bool) -> Estimate:
    """mean(a)/mean(b), its error by the delta method (Fieller's simpler half): both means are far from 0 here."""
    one, two = np.asarray(a, float), np.asarray(b, float)
    value = float(one.mean() / two.mean())
    if paired:
        spread = estimate(((one - value * two) / two.mean()).tolist()).error
    else:
        spread = math.hypot(estimate(a).error, value * estimate(b).error) / abs(float(two.mean()))
    return Estimate(value, spread, min(len(one), len(two)))


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """All hold: holds. One does not: does not hold. Otherwise inconclusive, or not judged at all."""
    found = set(verdicts)
    for word in ("does not hold", "not judged", "cannot be run here", "inconclusive"):
        if word in found:
            return word
    return "holds"
