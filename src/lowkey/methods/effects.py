"""Public room: what noisy counts and noisy sums say of items when their noise is known: posterior means, nothing to tune.

Paper: Efron 2014 (a prior from the noisy numbers themselves); Henderson 1975 (best linear unbiased prediction).
Deviates: the trend has a prior, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PER_OCTAVE = 3  # sizes that a count may have, between itself and its double
WIDTH = 0.2  # of such a size: how far counts of it spread
LEAST_OF_SIZE = 0.3  # no count is believed to be less than this part of its size
LARGEST_SAMPLE = 4000  # counts that the prior is learnt from, evenly over all
STEPS = 40  # of EM
CHUNK = 16_384  # items at a time
TINY = 1e-9

Array = NDArray[np.float64]


class Counts(NamedTuple):
    """Posterior of true counts N, item by item."""

    mean: Array  # E N
    square: Array  # E N^2
    typical: Array  # exp E log N


@dataclass(frozen=True)
class Evidence:
    """A round's sums: ``sums`` = N (b - ``around``) + N(0, ``std``^2 + the users' own), b being the item's effect."""

    sums: Array
    std: float
    around: Array


class Effects(NamedTuple):
    means: Array
    variances: Array
    spread: float  # t^2: the variance of true effects around their trend


def count_posterior(counts: Array, std: float) -> Counts:
    """True counts from posted ones with noise N(0, std^2): no threshold, never negative.

    The prior is a mixture of N(g_k, (WIDTH g_k)^2) over sizes g_k on a logarithmic grid. Its shares p maximise the
    likelihood of the posted counts (EM): P(k | c) ~ p_k N(c; g_k, std^2 + WIDTH^2 g_k^2), and p is the mean of that.
    Given k, N is normal with mean (c WIDTH^2 g_k^2 + g_k std^2)/(std^2 + WIDTH^2 g_k^2), by Bayes' rule.
    """
    if std <= 0.0 or not len(counts):
        known = np.maximum(counts, 0.0)
        return Counts(known, known**2, np.maximum(known, TINY))
    sizes = _sizes(counts, std)
    sample = np.sort(counts)[:: math.ceil(len(counts) / LARGEST_SAMPLE)]
    likelihood = _likelihood(sample, std, sizes)
    shares = np.full(len(sizes), 1.0 / len(sizes))
    for _ in range(STEPS):
        shares = _normalised(likelihood * shares).mean(axis=0)
    parts = [_given_prior(part, std, sizes, shares) for part in np.split(counts, range(CHUNK, len(counts), CHUNK))]
    return Counts(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _sizes(counts: Array, std: float) -> Array:
    """From next to nothing to the largest that was posted."""
    least, most = min(0.25, std / 20.0), max(float(counts.max()), 4.0 * std)
    octaves = np.arange(math.ceil(math.log2(most / least) * PER_OCTAVE) + 1) / PER_OCTAVE
    return np.concatenate([[least / 4.0], least * 2.0**octaves])


def _likelihood(counts: Array, std: float, sizes: Array) -> Array:
    """Of each count under each size, up to a factor per count."""
    variance = std**2 + (WIDTH * sizes) ** 2
    log = -0.5 * (counts[:, None] - sizes) ** 2 / variance - 0.5 * np.log(variance)
    return np.exp(log - log.max(axis=1, keepdims=True))


def _normalised(weights: Array) -> Array:
    return weights / (weights.sum(axis=1, keepdims=True) + 1e-300)


def _given_prior(counts: Array, std: float, sizes: Array, shares: Array) -> Counts:
    chance = _normalised(_likelihood(counts, std, sizes) * shares)
    own = (WIDTH * sizes) ** 2
    mean = (counts[:, None] * own + sizes * std**2) / (std**2 + own)
    mean = np.maximum(mean, LEAST_OF_SIZE * sizes)  # far below every size the normal law would go below zero
    square = mean**2 + own * std**2 / (std**2 + own)
    return Counts((chance * mean).sum(1), (chance * square).sum(1), np.exp((chance * np.log(mean)).sum(1)))


def item_effects(rounds: Sequence[Evidence], counts: Counts, sampling: float) -> Effects:
    """Posterior means of effects b_j ~ N(a + s x_j, t^2), x_j the centred log count: popular things are rated higher.

    The rounds are one observation y = N b + N(0, v): each says y_r = sums + E N ``around`` with noise std_r, and they are
    averaged by precision. The users' own residuals, of variance ``sampling`` E N, are the same in all of them, so
    v = 1/(sum of std_r^-2) + sampling E N. Over N and b, y has mean
    E N (a + s x) and variance E N^2 t^2 + v, so the best linear prediction is
    m + E N t^2/(E N^2 t^2 + v) (y - E N m), m = a + s x, of variance t^2 (1 - (E N)^2 t^2/(E N^2 t^2 + v)).
    a and s are generalised least squares with the prior N(0, t^2); t^2 is that of the largest likelihood on a
    logarithmic grid. Where the noise drowns the effects, trend and gain fall to 0, and so do they.
    """
    stds = np.array([r.std for r in rounds])
    precision = stds**-2.0 if stds.min() > 0.0 else (stds == 0.0).astype(float)
    said = [r.sums + counts.mean * r.around for r in rounds]
    noise = 1.0 / precision.sum() if stds.min() > 0.0 else 0.0
    own = np.maximum(sampling * counts.mean, TINY * sampling)
    seen = _Seen(np.average(said, axis=0, weights=precision), noise + own, counts, trend_of(counts))
    spread = max(sampling * np.geomspace(1e-4, 10.0, 60), key=lambda t2: seen.trend(t2)[1])
    mean = seen.design @ seen.trend(spread)[0]
    gain = counts.mean * spread / (counts.square * spread + seen.noise)
    means = mean + gain * (seen.sums - counts.mean * mean)
    return Effects(means, np.maximum(spread * (1.0 - gain * counts.mean), TINY * spread), float(spread))


def trend_of(counts: Counts) -> Array:
    """The log count, less its mean over ratings."""
    logs = np.log(np.maximum(counts.typical, TINY))
    return logs - float(logs @ counts.mean) / max(float(counts.mean.sum()), TINY)


@dataclass(frozen=True)
class _Seen:
    """All rounds as one: y, its noise v, and what it is regressed on."""

    sums: Array
    noise: Array
    counts: Counts
    logs: Array

    @property
    def design(self) -> Array:
        return np.column_stack([np.ones_like(self.logs), self.logs])

    def trend(self, spread: float) -> tuple[Array, float]:
        """(a, s) for a given t^2, and the log likelihood of that t^2."""
        variance = self.counts.square * spread + self.noise
        regressors = self.design * self.counts.mean[:, None]
        weighted = regressors / variance[:, None]
        normal = weighted.T @ regressors
        normal[np.diag_indices(2)] += 1.0 / spread
        line = np.linalg.solve(normal, weighted.T @ self.sums)
        rest = self.sums - regressors @ line
        misfit = np.log(variance).sum() + float((self.sums / variance) @ rest)
        return line, -0.5 * (misfit + np.linalg.slogdet(normal)[1] + 2.0 * math.log(spread))
