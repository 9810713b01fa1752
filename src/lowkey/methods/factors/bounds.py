"""Public room: what a round of ``DPFactors`` tells the next: the size of residuals and norms, hence bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, poch  # pyright: ignore[reportMissingTypeStubs]

from lowkey.kernels.factors import ACTIVITY, EXCESS, EXTRA, FactorRound
from lowkey.methods.means import Means

BOUND_SHARE = 0.7  # of the residuals' standard deviation: what users beyond it lose is less than what noise for them costs
FEWEST_RATINGS, LEAST_SEEN, TURNS = 1.2, 0.3, 40  # of `unclipped`: limits, and steps of its fixed point
LEAST_BIAS = 0.5  # of a row: however well it is known, its factor moves it
ROOM = 1.5  # of a typical norm: what the bound of the moments leaves to users above it

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """What all rounds know of the items."""

    center: float
    counts: Array
    weights: Array
    scales: Array  # of the biases

    @classmethod
    def of(cls, means: Means, weight_power: float, bias_weight: float) -> Known:
        """Weights count^-weight_power, of mean 1; a bias takes as much of a row as there is still to know of it: so many
        of its standard errors, in standard deviations of a rating.

        A count is E N^2/E N, which is large where it may be large: so no item weighs much by chance.
        """
        counts = np.maximum(means.counts.squares / np.maximum(means.counts.means, 1e-9), 1.0)
        weights = counts**-weight_power
        scales = np.maximum(bias_weight * np.sqrt(means.variances / means.residual_variance), LEAST_BIAS)
        return cls(means.center, counts, weights / weights.mean(), scales)

    @property
    def shares(self) -> Array:
        """Of all weighted ratings, item by item."""
        return self.weights * self.counts / (self.weights @ self.counts)

    @property
    def bias_square(self) -> float:
        """What biases take of a squared norm, on average over ratings; factors take the rest."""
        return float(self.shares @ self.scales**2)


@dataclass(frozen=True)
class Seen:
    """What a round's second moments say: all of it averages over ratings, by ratios to the moment of the constant 1."""

    regressors: Array  # sums of c W/N (1, u)(1, u)^T
    factors: Array  # mean of u u^T
    variance: float  # of a rating around the model
    ratings: float  # of a typical user
    norm: float  # N: of (bias scale, u)
    bias_square: float  # what biases take of it
    offset_change: float  # what to multiply the offsets' variance with
    clip: float  # of a typical user's update

    @classmethod
    def of(cls, moments: Array, std: float, sweep: FactorRound, bias_square: float) -> Seen:
        size = len(moments) - EXTRA + 1  # 1 and the factor; then residual, activity and the offset's excess
        regressors = moments[:size, :size].copy()
        weight = regressors[0, 0] = max(moments[0, 0], 4.0 * std)
        factors = regressors[1:, 1:] / weight
        variance = min(max(moments[size, size] / weight, 1e-4), 4.0 / BOUND_SHARE**2) * sweep.update_bound**2
        ratings = max(1.0, (ACTIVITY**2 * weight / max(moments[size + 1, size + 1], std)) ** 2)
        variance = unclipped(variance, sweep.update_bound, ratings)
        norm = math.sqrt(bias_square + max(float(np.trace(factors)), 0.0))
        # The mean excess is b^2 (true/assumed - 1), b = m/(m + offset_reg): solved for the ratio, with the known noise.
        gain = (ratings / (ratings + sweep.offset_reg)) ** 2
        excess, error = moments[0, size + 2] / weight / EXCESS, std / weight / EXCESS
        change = 1.0 + excess * gain / (gain**2 + 4.0 * error**2)
        clip = min(1.0, sweep.update_bound / math.sqrt(variance))
        return cls(regressors, factors, variance, ratings, norm, bias_square, min(max(change, 0.25), 4.0), clip)

    @property
    def sampling(self) -> float:
        """Residuals of the users themselves: the variance of a summand c w e p/N over its regressor's c w/N."""
        return self.clip * self.variance / math.sqrt(self.ratings) / self.norm

    def clear(self, shares: Array, std: float) -> float:
        """Of what an item's sums are off by, the part that is its users' own and not the post's noise, over ratings."""
        own = self.sampling * shares * float(np.trace(self.regressors)) / len(self.regressors)
        return float(shares @ (own / (own + std**2 + 1e-300)))


def unclipped(seen: float, bound: float, ratings: float) -> float:
    """The residuals' variance s^2, from a mean over users in which those beyond the bound weigh less.

    A user's mean square v = s^2 x is s^2 chi^2_m/m for m ratings, and weighs c = min(1, bound/sqrt(v)): so seen is
    s^2 E[c x]/E[c]. Of long rows that is s^2; of short ones less, and a bound that follows it would fall and fall.
    """
    half = max(ratings, FEWEST_RATINGS) / 2.0

    def below(power: float, edge: float) -> float:
        """E[x^power; x < edge]."""
        return float(poch(half, power) * half**-power * gammainc(half + power, half * edge))

    def above(power: float, edge: float) -> float:
        return float(poch(half, power) * half**-power) - below(power, edge)

    variance = seen
    for _ in range(TURNS):
        edge = min(bound**2 / variance, 50.0)
        weighed = below(1.0, edge) + math.sqrt(edge) * above(0.5, edge)
        weight = below(0.0, edge) + math.sqrt(edge) * above(-0.5, edge)
        variance = seen / min(max(weighed / weight, LEAST_SEEN), 1.0)
    return variance


@dataclass(frozen=True)
class Scale:
    """Public numbers that a round needs, from the domain and from the rounds before."""

    variance: float  # of a rating around the model
    offset_variance: float  # of users' own offsets
    update_bound: float
    length: float  # |(1, u)|^2/N of a typical user
    activity: float  # the root of a typical number of ratings

    @classmethod
    def of(cls, means: Means, rank: int, bias_square: float) -> Scale:
        """Where the first round starts."""
        bound = BOUND_SHARE * math.sqrt(means.residual_variance)
        length = (1.0 + rank / 4.0) / math.sqrt(bias_square + rank / 4.0)
        return cls(means.residual_variance, means.offset_variance, bound, length, means.activity)

    def sweep(self, number: int, known: Known, coefficients: Array) -> FactorRound:
        """The round with these bounds. A typical |x|^2 is a user's weights, about ``activity``, times ``length``."""
        return FactorRound(
            number=number,
            prior=known.center + np.ascontiguousarray(coefficients[:, 0]),
            item_factors=np.ascontiguousarray(coefficients[:, 1:]),
            item_weights=known.weights,
            bias_scales=known.scales,
            update_bound=self.update_bound,
            moment_bound=math.sqrt(ROOM * self.activity * self.length),
            reg=self.variance,
            offset_reg=self.variance / self.offset_variance,
        )

    def next(self, seen: Seen, clear: float, least: float, *, falling_bound: bool = True) -> Scale:
        """If the residuals fell, the next bound expects them to fall as much again: too low a bound only slows down.

        As far as noise is not what decides (``Seen.clear``) it leaves all but the widest users alone: on a skewed scale
        clips move item by item. Two standard deviations of the root mean square of m residuals are sqrt(2/m) of it.
        Nothing falls below ``least``, where the users' own solves would be at the end of their digits.
        """
        variance = max(seen.variance, least**2)
        falling = min(1.0, math.sqrt(variance / self.variance))
        share = BOUND_SHARE + clear * (1.0 + math.sqrt(2.0 / seen.ratings) - BOUND_SHARE)
        fallen = max(share * math.sqrt(variance) * falling, least)
        return replace(
            self,
            variance=variance,
            offset_variance=self.offset_variance * seen.offset_change,
            update_bound=fallen if falling_bound else self.update_bound,
            length=(1.0 + seen.norm**2 - seen.bias_square) / seen.norm,
        )
