"""Public room: counts from noisy posts of them: empirical Bayes with a prior that the posts themselves tell.

Paper: Efron 2014 (deconvolution). Deviates: the prior is a mixture of normals and not an exponential family.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PER_OCTAVE = 3  # sizes that a count may have, between itself and its double
WIDTH = 0.2  # of such a size: how far counts of it spread
LEAST_SHARE = 0.3  # of its size: a posterior count is no less, so that it is never negative
STEPS = 40  # of EM
LARGEST_SAMPLE = 4000  # counts that the prior is learnt from, evenly over all
CHUNK = 16_384  # items at a time
TINY = 1e-9


class Posted(NamedTuple):
    """Noisy counts, and the standard deviation of their noise."""

    counts: Array
    std: float

    def scaled(self, weight: float) -> Posted:
        """Of counts that were posted times ``weight``; without one there is nothing but noise."""
        return Posted(self.counts / weight, self.std / weight) if weight > 0.0 else Posted(self.counts, math.inf)

    def with_more(self, other: Posted) -> Posted:
        """Both posts of the same counts, weighted by their precision."""
        if other.std == math.inf:
            return self
        if self.std == 0.0 or other.std == 0.0:
            return self if self.std == 0.0 else other
        ours, theirs = self.std**-2.0, other.std**-2.0
        return Posted((ours * self.counts + theirs * other.counts) / (ours + theirs), (ours + theirs) ** -0.5)


class Counts(NamedTuple):
    """What is believed of each count: its mean, its mean square, and its geometric mean."""

    means: Array
    squares: Array
    geometric: Array


def count_posterior(posted: Array, std: float) -> Counts:
    """True counts from posted ones with noise N(0, std^2): no threshold, never negative.

    The prior is a mixture of N(g_k, (WIDTH g_k)^2) over sizes g_k on a logarithmic grid. Its shares p maximise the
    likelihood of the posted counts (EM): P(k | c) ~ p_k N(c; g_k, std^2 + WIDTH^2 g_k^2), and p is the mean of that.
    Given k, N is normal with mean (c WIDTH^2 g_k^2 + g_k std^2)/(std^2 + WIDTH^2 g_k^2), by Bayes' rule.
    """
    if std <= 0.0 or not len(posted):
        known = np.maximum(posted, 0.0)
        return Counts(known, known**2, np.maximum(known, TINY))
    sizes = _sizes(posted, std)
    sample = np.sort(posted)[:: math.ceil(len(posted) / LARGEST_SAMPLE)]
    likelihood = _likelihood(sample, std, sizes)
    shares = np.full(len(sizes), 1.0 / len(sizes))
    for _ in range(STEPS):
        shares = _normalised(likelihood * shares).mean(axis=0)
    parts = [_given_prior(part, std, sizes, shares) for part in np.split(posted, range(CHUNK, len(posted), CHUNK))]
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
    mean = np.maximum(mean, LEAST_SHARE * sizes)  # far below every size the normal law would go below zero
    square = mean**2 + own * std**2 / (std**2 + own)
    return Counts((chance * mean).sum(1), (chance * square).sum(1), np.exp((chance * np.log(mean)).sum(1)))
