"""Public room: counts from noisy posts of them: empirical Bayes with a prior that the posts themselves tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PER_OCTAVE = 3  # components of the prior
WIDTH = 0.2  # of a component, relative to where it stands
STEPS = 40  # of EM
LEAST_SHARE = 0.3  # of its component: a posterior count is no less, so that it is never negative


class Counts(NamedTuple):
    """What is believed of each count: its mean, its mean square, and its geometric mean."""

    means: Array
    squares: Array
    geometric: Array


def count_posterior(posted: Array, std: float) -> Counts:
    """Posterior counts under a mixture of Gaussians on a logarithmic grid, whose weights are fitted by EM.

    Counts of items are spread over orders of magnitude, and nobody knows how: the prior is a histogram over
    logarithms, each bin a Gaussian of relative width ``WIDTH``, and its weights are those under which the posts, with
    their known noise, are most likely. Without noise the posts themselves come back.
    """
    if std == 0.0:
        known = np.maximum(posted, 0.0)
        return Counts(known, known**2, np.maximum(known, 1e-9))
    grid = _grid(posted, std)
    own = (WIDTH * grid) ** 2
    variance = std**2 + own
    likelihood = -0.5 * (posted[:, None] - grid) ** 2 / variance - 0.5 * np.log(variance)
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    prior = np.full(len(grid), 1.0 / len(grid))
    belongs = likelihood
    for _ in range(STEPS):
        belongs = likelihood * prior
        belongs /= belongs.sum(axis=1, keepdims=True) + 1e-300
        prior = belongs.mean(axis=0)
    means = np.maximum((posted[:, None] * own + grid * std**2) / variance, LEAST_SHARE * grid)
    spread = own * std**2 / variance
    return Counts(
        (belongs * means).sum(axis=1),
        (belongs * (means**2 + spread)).sum(axis=1),
        np.exp((belongs * np.log(means)).sum(axis=1)),
    )


def _grid(posted: Array, std: float) -> Array:
    """From far below the noise up to the largest post, in thirds of an octave; the first stands for next to nothing."""
    top, low = max(float(posted.max()), 4.0 * std), min(0.25, std / 20.0)
    steps = int(np.ceil(np.log2(top / low) * PER_OCTAVE)) + 1
    return np.concatenate([[low / 4.0], low * 2.0 ** (np.arange(steps) / PER_OCTAVE)])
