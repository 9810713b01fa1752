"""Public room: what a round of ``DPFactors`` tells the next: the size of residuals and norms, hence bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import refuse
from lowkey.kernels.factors import ACTIVITY, BINS, BINS_PER_OCTAVE, EXCESS, EXTRA, FactorRound

BOUNDS = ("falling", "quantile", "fixed")
BOUND_SHARE = 0.7  # of the residuals' standard deviation: what users beyond it lose is less than what noise for them costs
CLIPPED = 2.0 / 3.0  # with "quantile": the share of users whose norm was above the bound
ROOM = 1.5  # of a typical norm: what the bound of the moments leaves to users above it

Array = NDArray[np.float64]


def check_bound(bound: str) -> None:
    if bound not in BOUNDS:
        refuse("bound", got=repr(bound), needed=" | ".join(BOUNDS), try_="bound='falling'")


@dataclass(frozen=True)
class Seen:
    """What a round's second moments say: all of it averages over ratings, by ratios to the moment of the constant 1."""

    regressors: Array  # sums of c W/N (1, u)(1, u)^T
    factors: Array  # mean of u u^T
    variance: float  # of a rating around the model
    ratings: float  # of a typical user
    norm: float  # of (1, u)
    offset_change: float  # what to multiply the offsets' variance with

    @classmethod
    def of(cls, moments: Array, std: float, sweep: FactorRound) -> Seen:
        size = len(moments) - EXTRA + 1  # 1 and the factor; then residual, activity and the offset's excess
        regressors = moments[:size, :size].copy()
        weight = regressors[0, 0] = max(moments[0, 0], 4.0 * std)
        factors = regressors[1:, 1:] / weight
        variance = min(max(moments[size, size] / weight, 1e-4), 4.0 / BOUND_SHARE**2) * sweep.update_bound**2
        ratings = max(1.0, (ACTIVITY**2 * weight / max(moments[size + 1, size + 1], std)) ** 2)
        norm = math.sqrt(1.0 + max(float(np.trace(factors)), 0.0))
        # The mean excess is b^2 (true/assumed - 1), b = m/(m + offset_reg): solved for the ratio, with the known noise.
        gain = (ratings / (ratings + sweep.offset_reg)) ** 2
        excess, error = moments[0, size + 2] / weight / EXCESS, std / weight / EXCESS
        change = 1.0 + excess * gain / (gain**2 + 4.0 * error**2)
        return cls(regressors, factors, variance, ratings, norm, min(max(change, 0.25), 4.0))

    @property
    def sampling(self) -> float:
        """Residuals of the users themselves: the variance of a summand w e p/N over its regressor's w/N."""
        return self.variance / math.sqrt(self.ratings) / self.norm


@dataclass(frozen=True)
class Scale:
    """Public numbers that a round needs, from the domain and from the rounds before."""

    variance: float  # of a rating around the model
    offset_variance: float  # of users' own offsets
    update_bound: float
    factor_norm: float  # of a typical (1, u)
    activity: float  # the root of a typical number of ratings

    def sweep(self, number: int, item_grams: bool, norms: bool) -> FactorRound:
        """The round with these bounds. A typical |x|^2 is the sum of a user's weights, about ``activity``, times |(1, u)|;
        the norm of a stack of Gram matrices is |(1, u)| before the update's clip, as the weights have norm 1."""
        return FactorRound(
            number,
            self.update_bound,
            math.sqrt(ROOM * self.activity * self.factor_norm),
            self.variance,
            self.variance / self.offset_variance,
            self.factor_norm if item_grams else None,
            norms,
        )

    def next(self, seen: Seen, bound: str, norms: Array | None, least: float) -> Scale:
        """If the residuals fell, the next bound expects them to fall as much again: too low a bound only slows down.

        Nothing falls below ``least``, where the users' own solves would be at the end of their digits.
        """
        variance = max(seen.variance, least**2)
        falling = min(1.0, math.sqrt(variance / self.variance))
        clip = self.update_bound
        if bound == "falling":
            clip = max(BOUND_SHARE * math.sqrt(variance) * falling, least)
        elif norms is not None:
            clip = max(self.update_bound * posted_quantile(norms) * falling, least)
        return replace(
            self,
            variance=variance,
            offset_variance=self.offset_variance * seen.offset_change,
            update_bound=clip,
            factor_norm=seen.norm,
        )


def posted_quantile(norms: Array) -> float:
    """The norm, in units of the last bound, that ``CLIPPED`` of the users in a noisy histogram exceed; 1/4 to 4.

    Noise of mean zero in all bins hardly moves the half way of their running sum; a step is limited all the same.
    """
    below = np.cumsum(norms)
    at = int(np.searchsorted(np.maximum.accumulate(below), (1.0 - CLIPPED) * max(below[-1], 1.0)))
    return float(np.clip(2.0 ** ((at + 0.5 - BINS // 2) / BINS_PER_OCTAVE), 0.25, 4.0))
