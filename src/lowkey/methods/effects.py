"""Public room: what noisy sums say of items when their noise is known: posterior means, nothing to tune.

Paper: Henderson 1975 (best linear unbiased prediction).
Deviates: the trend has a prior, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.methods.counts import TINY, Counts

Array = NDArray[np.float64]


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
    said = [r.sums + counts.means * r.around for r in rounds]
    noise = 1.0 / precision.sum() if stds.min() > 0.0 else 0.0
    own = np.maximum(sampling * counts.means, TINY * sampling)
    seen = _Seen(np.average(said, axis=0, weights=precision), noise + own, counts, trend_of(counts))
    spread = max(sampling * np.geomspace(1e-4, 10.0, 60), key=lambda t2: seen.trend(t2)[1])
    mean = seen.design @ seen.trend(spread)[0]
    gain = counts.means * spread / (counts.squares * spread + seen.noise)
    means = mean + gain * (seen.sums - counts.means * mean)
    return Effects(means, np.maximum(spread * (1.0 - gain * counts.means), TINY * spread), float(spread))


def trend_of(counts: Counts) -> Array:
    """The log count, less its mean over ratings."""
    logs = np.log(np.maximum(counts.geometric, TINY))
    return logs - float(logs @ counts.means) / max(float(counts.means.sum()), TINY)


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
        variance = self.counts.squares * spread + self.noise
        regressors = self.design * self.counts.means[:, None]
        weighted = regressors / variance[:, None]
        normal = weighted.T @ regressors
        normal[np.diag_indices(2)] += 1.0 / spread
        line = np.linalg.solve(normal, weighted.T @ self.sums)
        rest = self.sums - regressors @ line
        misfit = np.log(variance).sum() + float((self.sums / variance) @ rest)
        return np.asarray(line, np.float64), float(-0.5 * (misfit + np.linalg.slogdet(normal)[1] + 2.0 * math.log(spread)))
