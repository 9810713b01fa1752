"""Public room: means first: the level of all ratings, how far they spread, and what each item is above it.

Every method for ratings begins here. One model is behind it: rating = level + item effect + own damped offset + rest.
Each part is shrunk by its known noise to the next simpler model: the offset by its posted variance, effects to 0, the
level to the middle of the scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.level import PULL, Level, Spread
from lowkey.methods.base import Settings
from lowkey.methods.counts import Counts, count_posterior
from lowkey.methods.curator import Curator
from lowkey.methods.effects import Evidence, item_effects
from lowkey.privacy.plan import Request

COUNT_WEIGHT = 0.8  # counts get two fifths of the price of sums and counts together: lists are ranked by them, too
ROUNDS = 2  # of item means: the second one around what the first one found
LEVEL_PRIOR = 0.25  # of half the range, squared: how far from the middle of its scale a crowd's mean lies
SPREAD_CAP = 0.35  # of the rating range: a user's standard deviation or offset that counts in full
USUAL_STD = 0.22  # of the rating range: a rating around its user's mean, where the post says nothing
USUAL_SHARE = 0.1  # of a rating's variance that is left in a user's mean, where the post says nothing: ten ratings
LEAST = 0.05  # of the usual variances: nothing is believed to be smaller
CLIPPED = 0.5  # what a bound of one standard deviation leaves of a residual's square: 0.516 of a normal one's
LEAST_LEFT = 0.3  # of the variance within users: what item effects leave of it at least
UNKNOWN_CROWD = (0.04, 0.02)  # shares of level and spread where no number of users is expected
SIGNAL_FOR_LEVEL = 40.0  # users times mu at which the level's error no longer matters

Array = NDArray[np.float64]


class Crowd(NamedTuple):
    """What level and spread say of the users."""

    center: float  # g, the level
    within: float  # variance of a user's own ratings: items' effects are still in it
    between: float  # variance of users' offsets
    typical: float  # ratings of a user: a harmonic mean, about
    users: float  # as expected, or else as posted
    users_std: float  # 0 if expected


class Posted(NamedTuple):
    """A round of item means."""

    evidence: Evidence
    counts: Array
    count_std: float


@dataclass(frozen=True)
class Means:
    """What the posts say before any factor: all of it public."""

    crowd: Crowd
    rounds: tuple[Posted, ...]
    effects: Array  # b, posterior means
    variances: Array  # of b given the posts
    counts: Counts  # of ratings, each with the weight 1/sqrt(its user's number of them)
    posted_counts: Array  # averaged over the rounds
    count_std: float
    residual_variance: float  # of a rating around g + b + offset
    public_trusted: bool = False  # the posts bear out what public people say of the items
    features_trusted: bool = False  # and what features do

    @property
    def center(self) -> float:
        return self.crowd.center

    @property
    def prior(self) -> Array:
        """What is expected of each item."""
        return self.center + self.effects

    @property
    def offset_reg(self) -> float:
        return self.residual_variance / self.crowd.between

    @property
    def activity(self) -> float:
        """A typical user's root of the number of ratings."""
        most = math.sqrt(len(self.effects))
        return min(max(1.0, float(self.posted_counts.sum()) / self.crowd.users), most)

    @property
    def sampling(self) -> float:
        """The users' own variance in a sum, per count: over all ratings the weights w = 1/sqrt(m) have the sum of squares
        ``users`` and the sum ``users`` times ``activity``."""
        return CLIPPED * self.residual_variance / self.activity


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
    means = _nothing_yet(settings, _ask_crowd(settings, curator))
    for _ in range(rounds):
        means = refined(means, settings, curator, "item_means", residual_bound, offset_reg)
    return means


def refined(
    means: Means,
    settings: Settings,
    curator: Curator,
    line: str,
    residual_bound: float | None = None,
    offset_reg: float | None = None,
) -> Means:
    """One more round of item means, around what is known, under a line of the plan with room for 2 n_items numbers."""
    bound = _bound(means, curator, line) if residual_bound is None else residual_bound
    damping = means.offset_reg if offset_reg is None else offset_reg
    posts = curator.ask(ItemMeans(means.prior, bound, damping, COUNT_WEIGHT, name=line))
    (sums, counts), std = posts[line], posts.stds[line]
    latest = Posted(Evidence(bound * sums, bound * std, means.effects), counts / COUNT_WEIGHT, std / COUNT_WEIGHT)
    return _combined(means, settings, (*means.rounds, latest))


def _ask_crowd(settings: Settings, curator: Curator) -> Crowd:
    return _ask_spread(settings, _ask_level(settings, curator), curator)


def _ask_level(settings: Settings, curator: Curator) -> float:
    """The mean of all users' means, its ratio of two noisy sums shrunk to the middle of the scale by their noise."""
    half = settings.spread / 2.0
    posts = curator.ask(Level(settings.center, half))
    (total, count), std = posts["level"], posts.stds["level"]
    count = max(float(count), std, 1e-9)
    ratio = min(max(float(total) / count, -1.0), 1.0)
    return settings.center + half * ratio * LEVEL_PRIOR / (LEVEL_PRIOR + 2.0 * (std / count) ** 2)


def _ask_spread(settings: Settings, center: float, curator: Curator) -> Crowd:
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
    share = _shrunk(inverse / weight, std * math.hypot(1.0, inverse / weight) / weight, USUAL_SHARE)
    error = cap * std * math.hypot(1.0, offsets / weight, share) / weight
    between = _shrunk(cap * offsets / weight - within * share, error, within / PULL)
    users, users_std = settings.domain.expected_users, 0.0
    if users is None:  # every user adds v + PULL v/m = 1
        users, users_std = max(means + PULL * inverse, std, 1.0), std * math.hypot(1.0, PULL)
    return Crowd(center, within, between, 1.0 / min(share, 1.0), float(users), users_std)


def _shrunk(estimate: float, error: float, usual: float) -> float:
    shrunk = (usual * error**2 + estimate * usual**2) / (error**2 + usual**2)
    return max(shrunk, LEAST * usual)


def _nothing_yet(settings: Settings, crowd: Crowd) -> Means:
    """Before any item mean: every item at the level, and as often rated as any other."""
    n_items = settings.n_items
    each = np.full(n_items, crowd.users * math.sqrt(crowd.typical) / n_items)
    known, spread = Counts(each, each**2, each), crowd.within * np.ones(n_items)
    return Means(crowd, (), np.zeros(n_items), spread, known, each, math.inf, crowd.within)


def _bound(means: Means, curator: Curator, line: str) -> float:
    """On a user's root mean square residual: one standard deviation where the noise decides, two where there is none.

    Between, by how much of an item mean's error is the users' own and not the post's noise, on average over ratings.
    """
    std = curator.noise(ItemMeans(means.effects, 1.0, 0.0, COUNT_WEIGHT, name=line))[line]
    own = means.counts.means / means.activity
    clear = own / (own + std**2 + 1e-30)
    return math.sqrt(means.residual_variance) * (1.0 + float(np.average(clear, weights=means.counts.means + 1e-30)))


def _combined(means: Means, settings: Settings, rounds: tuple[Posted, ...]) -> Means:
    """All rounds so far, each weighted by its precision."""
    crowd, stds = means.crowd, np.array([r.count_std for r in rounds])
    exact = stds.min() <= 0.0
    precision = np.ones(len(stds)) if exact else stds**-2.0
    posted = np.average([r.counts for r in rounds], axis=0, weights=precision)
    count_std = 0.0 if exact else 1.0 / math.sqrt(precision.sum())
    counts = count_posterior(posted, count_std)
    means = replace(means, rounds=rounds, counts=counts, posted_counts=posted, count_std=count_std)
    found = item_effects(
        [r.evidence for r in rounds], counts, means.sampling, settings.knowledge.features, settings.knowledge.effects
    )
    effects = np.clip(found.means, -settings.spread, settings.spread)
    left = max(crowd.within - found.spread, LEAST_LEFT * crowd.within)
    return replace(
        means,
        effects=effects,
        variances=found.variances,
        residual_variance=left,
        public_trusted=found.apart < math.inf,
        features_trusted=found.features_trusted,
    )
