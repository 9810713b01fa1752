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
from lowkey.kernels.level import HALF, Level, Spread
from lowkey.methods.base import Settings
from lowkey.methods.counts import Counts, count_posterior
from lowkey.methods.curator import Curator
from lowkey.methods.effects import Evidence, item_effects
from lowkey.privacy.plan import Request

COUNT_WEIGHT = 0.8  # counts get two fifths of the price of sums and counts together: lists are ranked by them, too
MOST_COUNT_WEIGHT = 2.5  # of a crowd too small for item effects: there counts get six sevenths
SIGNAL_FOR_EFFECTS = 5.0  # of a crowd: effects are lost in noise below, soon all of them
ROUNDS = 2  # of item means: the second one around what the first one found
LEVEL_PRIOR = 0.25  # of half the range, squared: how far from the middle of its scale a crowd's mean lies
REACH = 0.5  # of the rating range: further from the level no rating counts
USUAL_VARIANCE = 0.08  # of the rating range, squared: of all ratings around the level, where the post says nothing
USUAL_BETWEEN = 0.3  # of it is what users differ by, and at most
MOST_BETWEEN = 0.9
LEAST = 0.02  # of the usual variances: nothing is believed to be smaller
FAR_BELOW = -30.0  # standard errors
ONE_SIDED = 0.15  # of a rating's standard deviation: how far all effects together may be moved by clips on a skewed scale
LEAST_LEFT = 0.3  # of the variance within users: what item effects leave of it at least
UNKNOWN_CROWD = (0.05, 0.05)  # shares of level and spread where no number of users is expected
ENOUGH = (0.005, 0.02)  # of mu^2 for each of them: users with a rating or two say little of their spread
CROWD_FOR_LEVEL, CROWD_FOR_SPREAD = 40.0, 80.0  # users times mu: crowds so small get all that they can

Array = NDArray[np.float64]


class Crowd(NamedTuple):
    """What level and spread say of the users."""

    center: float  # g, the level
    within: float  # variance of a user's own ratings: items' effects are still in it
    between: float  # variance of users' offsets
    users: float  # as expected, or else as posted
    users_std: float  # 0 if expected
    center_std: float = 0.0  # the error of the level that its noise makes


class Posted(NamedTuple):
    """A round of item means."""

    evidence: Evidence
    counts: Array
    count_std: float
    left: float  # of the square of a residual, by its bound


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
        return self.crowd.within / self.crowd.between

    @property
    def offset_variance(self) -> float:
        """What item effects explain of ratings, they explain of users' means alike."""
        return self.residual_variance / self.offset_reg

    def leveled(self, effects: Array, variance: float) -> Array:
        """``effects`` without what clips have moved them by, all together: of ratings that are mostly near the end of
        their scale, the lowest are clipped. The level is clipped by nobody, so on average over ratings effects are 0, as
        far as it is known. ``variance`` is that of what was clipped.
        """
        moved = float(np.average(effects, weights=self.counts.means + 1e-30))
        clips, level = ONE_SIDED**2 * variance, self.crowd.center_std**2
        return effects - moved * clips / (clips + level + 1e-30)

    @property
    def activity(self) -> float:
        """A typical user's root of the number of ratings."""
        most = math.sqrt(len(self.effects))
        return min(max(1.0, float(self.posted_counts.sum()) / self.crowd.users), most)

    @property
    def sampling(self) -> float:
        """The users' own variance in a sum, per count: over all ratings the weights w = 1/sqrt(m) have the sum of squares
        ``users`` and the sum ``users`` times ``activity``."""
        return self.rounds[-1].left * self.residual_variance / self.activity


def level_shares(settings: Settings, share: float) -> tuple[float, float]:
    """Of the budget for means, what level and spread get: up to 0.4 and 0.3 for a crowd that would be lost in the noise."""
    users = settings.domain.expected_users
    if users is None:
        return UNKNOWN_CROWD
    crowd = settings.budget.signal * max(users, 1)
    level, spread = (CROWD_FOR_LEVEL / crowd) ** 2, (CROWD_FOR_SPREAD / crowd) ** 2
    return min(max(level, ENOUGH[0]) / share, 0.4), min(max(spread, ENOUGH[1]) / share, 0.3)


def means_requests(settings: Settings, share: float, rounds: int = ROUNDS) -> list[Request]:
    """The lines of the plan for ``ask_means``: together ``share`` of mu^2, if all shares of the plan add up to 1."""
    level, spread = level_shares(settings, share)
    note = "sums and counts, bounded jointly"
    return [
        Request("level", 2, share * level, note="of all ratings"),
        Request("spread", 4, share * spread, note="within and between users"),
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
    bound, weight = residual_bound, COUNT_WEIGHT
    if bound is None:
        weight = _count_weight(settings, means.crowd)
        bound = _bound(means, curator, ItemMeans(means.effects, 1.0, 0.0, weight, name=line))
    damping = means.offset_reg if offset_reg is None else offset_reg
    posts = curator.ask(ItemMeans(means.prior, bound, damping, weight, name=line))
    (sums, counts), std = posts[line], posts.stds[line]
    left = _left_by_clip(bound / math.sqrt(means.residual_variance))
    latest = Posted(Evidence(bound * sums, bound * std, means.effects), counts / weight, std / weight, left)
    return _combined(means, settings, (*means.rounds, latest))


def _count_weight(settings: Settings, crowd: Crowd) -> float:
    """Counts stand out of the noise before effects do: where these are lost, the price goes to those."""
    signal = settings.budget.signal * crowd.users / math.sqrt(settings.n_items)
    return min(COUNT_WEIGHT * max(SIGNAL_FOR_EFFECTS / signal, 1.0) ** 2, MOST_COUNT_WEIGHT)


def _ask_crowd(settings: Settings, curator: Curator) -> Crowd:
    return _ask_spread(settings, *_ask_level(settings, curator), curator)


def _ask_level(settings: Settings, curator: Curator) -> tuple[float, float]:
    """The mean of all users' means, its ratio of two noisy sums shrunk to the middle of the scale by their noise; and the
    error that is left of it."""
    half = settings.spread / 2.0
    posts = curator.ask(Level(settings.center, half))
    (total, count), std = posts["level"], posts.stds["level"]
    count = max(float(count), std, 1e-9)
    ratio = min(max(float(total) / count, -1.0), 1.0)
    noise = 2.0 * (std / count) ** 2
    known = LEVEL_PRIOR / (LEVEL_PRIOR + noise)
    return settings.center + half * ratio * known, half * math.sqrt(noise * known)


def _ask_spread(settings: Settings, center: float, center_std: float, curator: Curator) -> Crowd:
    """Variances by moments: of all ratings, and what those of a user have in common; what is left is within users.

    A ratio y/n of sums with noise ``std`` has the standard error std sqrt(1 + (y/n)^2)/n.
    """
    reach = REACH * settings.spread
    posts = curator.ask(Spread(center, reach))
    (alike, square, weight, ones), std = map(float, posts["spread"]), posts.stds["spread"]
    weight = max(weight, std, 1e-9)

    def variance(share: float, error: float, usual: float) -> float:
        return _shrunk(reach**2 * share, reach**2 * error * math.hypot(1.0, share) / weight, usual)

    whole = variance(square / weight, std, USUAL_VARIANCE * settings.spread**2)
    between = min(variance(HALF * alike / weight, HALF * std, USUAL_BETWEEN * whole), MOST_BETWEEN * whole)
    users, users_std = settings.domain.expected_users, 0.0
    if users is None:
        users, users_std = max(ones, std, HALF) / HALF, std / HALF
    return Crowd(center, whole - between, between, float(users), users_std, center_std)


def _shrunk(estimate: float, error: float, usual: float) -> float:
    """The mean of x > 0 given ``estimate`` = x + N(0, error^2), x being ``usual`` on average, with density x e^(-2x/usual).

    That is an integral over a normal density cut off at 0, of mean m = estimate - 2 error^2/usual.
    """
    if error <= 0.0:
        return max(estimate, LEAST * usual)
    m = estimate / error - 2.0 * error / usual
    if m < FAR_BELOW:
        return -2.0 * error / m  # what it is like there
    first = m + math.sqrt(2.0 / math.pi) * math.exp(-m * m / 2.0) / math.erfc(-m / math.sqrt(2.0))
    return max(error * (m + 1.0 / first), LEAST * usual)


def _nothing_yet(settings: Settings, crowd: Crowd) -> Means:
    """Before any item mean: every item at the level, and as often rated as any other."""
    n_items = settings.n_items
    each = np.full(n_items, crowd.users / n_items)
    known, spread = Counts(each, each**2, each), crowd.within * np.ones(n_items)
    return Means(crowd, (), np.zeros(n_items), spread, known, each, math.inf, crowd.within)


def _bound(means: Means, curator: Curator, sweep: ItemMeans) -> float:
    """On a user's root mean square residual: one standard deviation where the noise decides, two where there is none.

    Between, by how much of an item mean's error is the users' own and not the post's noise, on average over ratings.
    """
    std = curator.noise(sweep)[sweep.name]
    own = means.counts.means / means.activity
    clear = own / (own + std**2 + 1e-30)
    return math.sqrt(means.residual_variance) * (1.0 + float(np.average(clear, weights=means.counts.means + 1e-30)))


def _left_by_clip(bound: float) -> float:
    """E[min(z^2, bound^2)] of a standard normal z."""
    outside = math.erfc(bound / math.sqrt(2.0))
    return 1.0 - outside - bound * math.sqrt(2.0 / math.pi) * math.exp(-bound * bound / 2.0) + bound * bound * outside


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
    effects = np.clip(means.leveled(found.means, means.residual_variance), -settings.spread, settings.spread)
    left = max(crowd.within - found.spread, LEAST_LEFT * crowd.within)
    return replace(
        means,
        effects=effects,
        variances=found.variances,
        residual_variance=left,
        public_trusted=found.apart < math.inf,
        features_trusted=found.features_trusted,
    )
