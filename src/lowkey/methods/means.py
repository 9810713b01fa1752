"""Public room: means first: the level of all ratings, how far they spread, and what each item is above it.

Every method for ratings begins here. One model is behind it: rating = level + item effect + own damped offset + rest.
Each part is shrunk by its known noise to the next simpler model: the offset by its posted variance, effects to 0, the
level to the middle of the scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.level import PULL, Level, Spread
from lowkey.methods.base import Settings
from lowkey.methods.curator import Curator
from lowkey.methods.effects import Counts, Evidence, count_posterior, item_effects
from lowkey.privacy.plan import Request

COUNT_WEIGHT = 0.5  # counts get a fifth of the price of sums and counts together
ROUNDS = 2  # of item means: the second one around what the first one found
LEVEL_PRIOR = 0.25  # of half the range, squared: how far from the middle of its scale a crowd's mean lies
SPREAD_CAP = 0.35  # of the rating range: a user's standard deviation or offset that counts in full
USUAL_STD = 0.22  # of the rating range: a rating around its user's mean, where the post says nothing
LEAST = 0.05  # of the usual variances: nothing is believed to be smaller
LEAST_LEFT = 0.3  # of the variance within users: what item effects leave of it at least
UNKNOWN_CROWD = (0.04, 0.02)  # shares of level and spread where no number of users is expected
SIGNAL_FOR_LEVEL = 40.0  # users times mu at which the level's error no longer matters

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Means:
    """What the posts say before any factor: all of it public."""

    center: float  # g
    effects: Array  # b, posterior means
    variances: Array  # of b given the posts
    counts: Counts  # of ratings, each with the weight 1/sqrt(its user's number of them)
    posted_counts: Array
    count_std: float
    residual_variance: float  # of a rating around g + b + offset
    offset_variance: float  # of users' offsets
    typical: float  # ratings of a user: the harmonic mean, about
    users: float

    @property
    def prior(self) -> Array:
        """What is expected of each item."""
        return self.center + self.effects

    @property
    def offset_reg(self) -> float:
        return self.residual_variance / self.offset_variance

    @property
    def activity(self) -> float:
        """A typical user's root of the number of ratings."""
        most = math.sqrt(len(self.effects))
        return min(max(1.0, float(self.posted_counts.sum()) / max(self.users, 1.0)), most)


def level_shares(settings: Settings, share: float) -> tuple[float, float]:
    """Of the budget for means, what level and spread get: little for a large crowd, up to 0.4 and 0.3 for a small one."""
    users, signal = settings.domain.expected_users, settings.budget.signal * math.sqrt(share)
    if users is None:
        return UNKNOWN_CROWD
    level = min(max((SIGNAL_FOR_LEVEL / (signal * users)) ** 2, 0.01), 0.4)
    return level, min(max(level / 2.0, 0.01), 0.3)


def means_requests(settings: Settings, share: float, rounds: int = ROUNDS) -> list[Request]:
    """The lines of the plan for ``ask_means``: together ``share`` of mu^2, if all shares of the plan add up to 1."""
    level, spread = level_shares(settings, share)
    note = "sums and counts, bounded jointly"
    return [
        Request("level", 2, share * level, note="of all ratings"),
        Request("spread", 5, share * spread, note="within and between users"),
        Request("item_means", 2 * settings.n_items, share * (1.0 - level - spread), rounds, note=note),
    ]


def ask_means(
    settings: Settings,
    curator: Curator,
    rounds: int = ROUNDS,
    residual_bound: float | None = None,
    offset_reg: float | None = None,
) -> Means:
    """Level, spread and ``rounds`` of item means. Given bounds and dampings are taken; others follow the posts."""
    center = _ask_level(settings, curator)
    crowd = _ask_spread(settings, center, curator)
    variance, effects = crowd.within, np.zeros(settings.n_items)
    evidence, posted = list[Evidence](), list[tuple[Array, float]]()
    found: Means | None = None
    for _ in range(rounds):
        bound = residual_bound
        if bound is None:
            bound = math.sqrt(variance) * (1.0 + _clear(settings, curator, crowd, found, effects))
        damping = variance / crowd.between if offset_reg is None else offset_reg
        sweep = ItemMeans(center + effects, bound, damping, COUNT_WEIGHT)
        posts = curator.ask(sweep)
        (sums, counts), std = posts["item_means"], posts.stds["item_means"]
        evidence.append(Evidence(bound * sums, bound * std, effects))
        posted.append((counts / COUNT_WEIGHT, std / COUNT_WEIGHT))
        found = _found(settings, center, crowd, evidence, posted, variance)
        variance, effects = found.residual_variance, found.effects
    assert found is not None
    return found


class _Crowd(NamedTuple):
    within: float  # variance of a user's own ratings: items' effects are still in it
    between: float  # variance of users' offsets
    typical: float
    users: float


def _ask_level(settings: Settings, curator: Curator) -> float:
    """The mean of all users' means, its ratio of two noisy sums shrunk to the middle of the scale by their noise."""
    half = settings.spread / 2.0
    posts = curator.ask(Level(settings.center, half))
    (total, count), std = posts["level"], posts.stds["level"]
    count = max(float(count), std, 1e-9)
    ratio = min(max(float(total) / count, -1.0), 1.0)
    return settings.center + half * ratio * LEVEL_PRIOR / (LEVEL_PRIOR + 2.0 * (std / count) ** 2)


def _ask_spread(settings: Settings, center: float, curator: Curator) -> _Crowd:
    """Variances by moments: within users directly; between them E o^2 = between + within/m, solved for the former.

    A ratio y/n of sums with noise ``std`` has the standard error std sqrt(1 + (y/n)^2)/n; estimates are shrunk to the
    usual value as far as that says, as if it were drawn from N(usual, usual^2).
    """
    cap = (SPREAD_CAP * settings.spread) ** 2
    posts = curator.ask(Spread(center, cap))
    (squares, own, offsets, inverse, means), std = map(float, posts["spread"]), posts.stds["spread"]
    usual = (USUAL_STD * settings.spread) ** 2
    weight = max(own, std, 1e-9)
    within = _shrunk(cap * squares / weight, cap * std * math.hypot(1.0, squares / weight) / weight, usual)
    weight = max(means, std, 1e-9)
    share = min(max(inverse / weight, 0.0), 1.0)  # of a rating's variance that is left in a typical user's mean
    error = cap * std * math.hypot(1.0, offsets / weight, share) / weight
    between = _shrunk(cap * offsets / weight - within * share, error, within / PULL)
    # Every user adds v + PULL v/m = 1.
    return _Crowd(within, between, 1.0 / max(share, 1e-3), max(means + PULL * inverse, 1.0))


def _shrunk(estimate: float, error: float, usual: float) -> float:
    shrunk = (usual * error**2 + estimate * usual**2) / (error**2 + usual**2)
    return max(shrunk, LEAST * usual)


def _sampling(variance: float, crowd: _Crowd) -> float:
    """Of a user's residuals in a sum: w^2 variance on a count of w, with w = 1/sqrt(m)."""
    return variance / math.sqrt(max(crowd.typical, 1.0))


def _clear(settings: Settings, curator: Curator, crowd: _Crowd, found: Means | None, effects: Array) -> float:
    """How much of a typical item mean's error is the users' own and not the post's noise, 0 to 1.

    Where the noise decides, a bound of one standard deviation is best; without noise, two lose nearly nothing.
    """
    std = math.sqrt(crowd.within) * curator.noise(ItemMeans(effects, 1.0, 0.0, COUNT_WEIGHT))["item_means"]
    if found is None:
        counts = np.full(1, crowd.users * math.sqrt(crowd.typical) / settings.n_items)
    else:
        counts = found.counts.mean
    own = _sampling(crowd.within, crowd) * counts
    return float(np.average(own / (own + std**2 + 1e-30), weights=counts + 1e-30))


def _found(
    settings: Settings,
    center: float,
    crowd: _Crowd,
    evidence: list[Evidence],
    posted: list[tuple[Array, float]],
    variance: float,
) -> Means:
    """All rounds so far, each weighted by its precision."""
    stds = np.array([std for _, std in posted])
    precision = stds**-2.0 if stds.min() > 0.0 else np.ones(len(stds))
    counts = np.average([count for count, _ in posted], axis=0, weights=precision)
    count_std = 1.0 / math.sqrt(precision.sum()) if stds.min() > 0.0 else 0.0
    known = count_posterior(counts, count_std)
    found = item_effects(evidence, known, _sampling(variance, crowd))
    effects = np.clip(found.means, -settings.spread, settings.spread)
    left = max(crowd.within - found.spread, LEAST_LEFT * crowd.within)
    return Means(
        center, effects, found.variances, known, counts, count_std, left, crowd.between, crowd.typical, crowd.users
    )
