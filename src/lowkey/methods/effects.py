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
NO_TRUST = 1e-6  # of a source: its slopes are 0
TRUSTS = (NO_TRUST, *(float(trust) for trust in np.geomspace(0.01, 100.0, 13)))
APART = (math.inf, 10.0, 3.0, 1.0, 0.5, 0.25, 0.1, 0.05, 0.02)
TURNS = 3
CLEAR = 4.0  # what a source has to add to the log likelihood before it is listened to


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
    apart: float = math.inf  # d: how far public people are from these; infinite where they are not listened to
    features_trusted: bool = False  # l > 0


def item_effects(
    rounds: Sequence[Evidence],
    counts: Counts,
    sampling: float,
    features: Array | None = None,
    public: tuple[Array, Array] | None = None,
) -> Effects:
    """Posterior means of effects b_j ~ N(a + s x_j, t^2), x_j the centred log count: popular things are rated higher.

    The rounds are one observation y = N b + N(0, v): each says y_r = sums + E N ``around`` with noise std_r, and they are
    averaged by precision. The users' own residuals, of variance ``sampling`` E N, are the same in all of them, so
    v = 1/(sum of std_r^-2) + sampling E N. Over N and b, y has mean
    E N (a + s x) and variance E N^2 t^2 + v, so the best linear prediction is
    m + E N t^2/(E N^2 t^2 + v) (y - E N m), m = a + s x, of variance t^2 (1 - (E N)^2 t^2/(E N^2 t^2 + v)).
    a and s are generalised least squares with the prior N(0, t^2). All is the mean over t^2 on a logarithmic grid, each
    as likely as it makes the posts: the likeliest alone may be a chance. Where the noise drowns the effects, trend and
    gain fall to 0, and so do they.

    ``features`` (n_items, k) stand beside x in the trend, with slopes of variance l t^2. ``public`` are effects b' of
    other people and their variances r: b' = b + c + N(0, r + d t^2), d being how far the two crowds are apart. Given b',
    b has the mean m + k (b' - c - m) and the variance t^2 (1 - k), k = 1/(1 + d + r/t^2), in place of m and t^2.
    l and d are those of the largest likelihood of the posts: l = 0 and d = infinity leave what was there without.
    """
    stds = np.array([r.std for r in rounds])
    precision = stds**-2.0 if stds.min() > 0.0 else (stds == 0.0).astype(float)
    said = [r.sums + counts.means * r.around for r in rounds]
    noise = 1.0 / precision.sum() if stds.min() > 0.0 else 0.0
    own = np.maximum(sampling * counts.means, TINY * sampling)
    columns = [trend_of(counts)] if features is None else [trend_of(counts), features]
    design = np.column_stack([np.ones(len(own)), *columns])
    seen = _Seen(np.average(said, axis=0, weights=precision), noise + own, counts, design, public)
    spreads = sampling * np.geomspace(1e-4, 10.0, 60)
    likeliest = seen.likeliest(spreads)
    priors = [likeliest._replace(spread=float(spread)) for spread in spreads]
    lines, likelihoods = zip(*(seen.trend(prior) for prior in priors), strict=True)
    chances = np.exp(np.array(likelihoods) - max(likelihoods))
    chances /= chances.sum()
    found = np.array([seen.effects(prior, line) for prior, line in zip(priors, lines, strict=True)])
    means: Array = np.asarray(chances @ found[:, 0], np.float64)
    variances: Array = np.asarray(chances @ (found[:, 1] + (found[:, 0] - means) ** 2), np.float64)
    trusted = features is not None and likeliest.trust > NO_TRUST
    return Effects(means, variances, float(chances @ spreads), likeliest.apart, trusted)


class _Prior(NamedTuple):
    spread: float  # t^2
    trust: float = NO_TRUST  # l
    apart: float = math.inf  # d


def trend_of(counts: Counts) -> Array:
    """The log count, less its mean over ratings."""
    logs = np.log(np.maximum(counts.geometric, TINY))
    return logs - float(logs @ counts.means) / max(float(counts.means.sum()), TINY)


@dataclass(frozen=True)
class _Seen:
    """All rounds as one: y, its noise v, what it is regressed on, and what is public of the effects."""

    sums: Array
    noise: Array
    counts: Counts
    design: Array
    public: tuple[Array, Array] | None

    def likeliest(self, spreads: Array) -> _Prior:
        """Of the largest likelihood: one number after the other, in turns."""
        grids: dict[str, Sequence[float]] = {"spread": [float(t2) for t2 in spreads]}
        if self.design.shape[1] > 2:
            grids["trust"] = TRUSTS
        if self.public is not None:
            grids["apart"] = APART
        found = _Prior(float(spreads[0]))
        for name in list(grids) * (1 if len(grids) == 1 else TURNS):
            tried = [found._replace(**{name: value}) for value in grids[name]]
            likelihoods = [self.trend(prior)[1] for prior in tried]
            best = int(np.argmax(likelihoods))
            # The first of a source's grid is to leave it alone: chance may look a little better than that.
            found = tried[best if name == "spread" or likelihoods[best] > likelihoods[0] + CLEAR else 0]
        return found

    def effects(self, prior: _Prior, line: Array) -> tuple[Array, Array]:
        """Posterior means and variances."""
        counts = self.counts
        mean, spread = self.given_public(prior, line)
        gain = counts.means * spread / (counts.squares * spread + self.noise)
        return mean + gain * (self.sums - counts.means * mean), np.maximum(
            spread * (1.0 - gain * counts.means), TINY * spread
        )

    def given_public(self, prior: _Prior, line: Array) -> tuple[Array, Array]:
        """Means and variances of the effects before the posts."""
        known, rows = self._rows(prior)
        return known + rows @ line, prior.spread * (1.0 - self._share(prior))

    def _share(self, prior: _Prior) -> Array:
        """k: how much of an effect is the public one."""
        if self.public is None or prior.apart == math.inf:
            return np.zeros(len(self.sums))
        return 1.0 / (1.0 + prior.apart + self.public[1] / prior.spread)

    def _rows(self, prior: _Prior) -> tuple[Array, Array]:
        """What is known of the effects, and what the slopes (a, s, ..., -c) multiply."""
        share = self._share(prior)
        known = share * self.public[0] if self.public is not None else share
        return known, np.column_stack([self.design * (1.0 - share)[:, None], share])

    def trend(self, prior: _Prior) -> tuple[Array, float]:
        """(a, s, ..., -c), and the log likelihood of the prior."""
        variance = self.counts.squares * prior.spread * (1.0 - self._share(prior)) + self.noise
        known, rows = self._rows(prior)
        regressors, sums = rows * self.counts.means[:, None], self.sums - self.counts.means * known
        weighted = regressors / variance[:, None]
        normal = weighted.T @ regressors
        slopes = np.full(len(normal), prior.spread)
        slopes[2:-1] *= prior.trust
        normal[np.diag_indices_from(normal)] += 1.0 / slopes
        line = np.linalg.solve(normal, weighted.T @ sums)
        misfit = np.log(variance).sum() + float((sums / variance) @ (sums - regressors @ line))
        return np.asarray(line, np.float64), float(-0.5 * (misfit + np.linalg.slogdet(normal)[1] + np.log(slopes).sum()))
