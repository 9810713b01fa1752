"""Vault room: a made-up crowd that picks items and rates them. Nothing in it is private: it is all drawn.

Each user draws from a stream of their own, keyed by (seed, user number), so a crowd can be made in pieces of any
size and comes out the same. Counts of ratings are lognormal; items are picked one after the other without return,
with odds = popularity, tilted towards the groups the user likes; a rating is mean + user bias + item bias
+ taste + noise, rounded to half stars from 0.5 to 5.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lowkey.errors import refuse

ACTIVITY_SPREAD = math.sqrt(2 * math.log(2.1))  # lognormal: the mean is 2.1 times the median, as in MovieLens
TOP_FIFTH_SHARE = 0.84  # the most popular 20 % of items hold this share of the ratings, as in MovieLens
PATIENCE = 20  # picks tried per item wanted before the slower, exact way is taken


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who rates, and what there is to rate. Arrays are per item."""

    seed: int
    n_users: int
    ratings_per_user: float
    popularity: npt.NDArray[np.float64]  # odds of being picked
    groups: npt.NDArray[np.int32]  # genre; a user's liking of group g is their factor g
    item_factors: npt.NDArray[np.float32]  # (n_items, rank)
    item_bias: npt.NDArray[np.float32]
    mean: float
    user_bias_std: float
    noise_std: float
    tilt: float  # how far liking a group decides what is picked; 0: not at all

    def draw(self, first: int, last: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Users `first` to `last` (excluded) as (offsets, items, ratings), items in the order they were picked."""
        members = np.argsort(self.groups, kind="stable").astype(np.int32)
        starts = np.searchsorted(self.groups[members], np.arange(int(self.groups.max()) + 2)).astype(np.int64)
        bias, factors, counts = self.traits(first, last)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        running = np.concatenate([np.cumsum(self.popularity[members[a:b]]) for a, b in itertools.pairwise(starts)])
        items, ratings = _draw(
            np.uint64(self.seed), first, offsets, members, starts, running, self.popularity, self.groups,
            self.item_factors, self.item_bias, self.mean + bias, factors, self.noise_std, self.tilt,
        )  # fmt: skip
        return offsets, items, ratings

    def traits(
        self, first: int, last: int
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Bias, factors and number of ratings of the users `first` to `last` (excluded)."""
        n_items, rank = self.item_factors.shape
        median = activity_median(self.ratings_per_user, n_items)
        normals = _trait_normals(np.uint64(self.seed), first, last, rank + 2)
        counts = _counts(normals[:, 0], median, n_items)
        return self.user_bias_std * normals[:, 1], normals[:, 2:].astype(np.float32), counts


def activity_median(ratings_per_user: float, n_items: int) -> float:
    """The median count whose lognormal, cut to 1..n_items, has the mean `ratings_per_user`."""
    if not 1 <= ratings_per_user <= 0.6 * n_items:
        refuse("ratings_per_user", got="too few or too many", needed="1 to 60 % of the items", try_="fewer, or more items")
    low, high = 1e-3, float(n_items)
    for _ in range(60):
        middle = math.sqrt(low * high)
        mean = _counts(_NORMAL_QUANTILES, middle, n_items).mean()
        low, high = (middle, high) if mean < ratings_per_user else (low, middle)
    return low


def popularity_by_rank(n_items: int, ratings_per_user: float) -> npt.NDArray[np.float64]:
    """Odds of the most popular item, the second, ...: Zipf-Mandelbrot, steep enough for `TOP_FIFTH_SHARE`.

    Nobody rates an item twice, so a steep law is flattened at its head. A user with k ratings picks item i with
    a chance of about 1 - exp(-L w_i), L such that the chances add up to k; the exponent is found by bisection.
    """
    counts = _counts(_NORMAL_QUANTILES, activity_median(ratings_per_user, n_items), n_items)
    points = min(n_items, 2000)  # ranks that stand for their neighbours
    ranks = (np.arange(points) + 0.5) * n_items / points
    each = n_items / points
    top = ranks < 0.2 * n_items
    low, high = 0.0, 6.0
    for _ in range(30):
        exponent = (low + high) / 2
        odds = _zipf(ranks, n_items, exponent)
        pace = np.geomspace(1e-3, 1e6, 400)[:, None] / odds.mean()
        chances = -np.expm1(-pace * odds / n_items)
        total, in_top = each * chances.sum(axis=1), each * chances[:, top].sum(axis=1)
        share = np.interp(counts, total, in_top).sum() / counts.sum()
        low, high = (exponent, high) if share < TOP_FIFTH_SHARE else (low, exponent)
    return _zipf(np.arange(n_items) + 0.5, n_items, low)


def _zipf(ranks: npt.NDArray[Any], n_items: int, exponent: float) -> npt.NDArray[np.float64]:
    odds = (ranks + 1 + 0.01 * n_items) ** -exponent
    return odds / odds[0]


def _counts(normals: npt.NDArray[np.float64], median: float, n_items: int) -> npt.NDArray[np.int64]:
    return np.clip(np.rint(median * np.exp(ACTIVITY_SPREAD * normals)), 1, n_items).astype(np.int64)


_NORMAL_QUANTILES = np.array([NormalDist().inv_cdf((i + 0.5) / 2000) for i in range(2000)])


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, nogil=True)(function)


@_compiled
def _scramble(number):  # pyright: ignore
    z = number
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_compiled
def _open_stream(stream, seed, user, purpose):  # pyright: ignore
    stream[0] = _scramble(_scramble(_scramble(seed) + np.uint64(user)) + np.uint64(purpose))


@_compiled
def _uniform(stream):  # pyright: ignore
    """Inside (0, 1): half a step above the 53-bit grid, so that its logarithm is finite."""
    stream[0] += np.uint64(0x9E3779B97F4A7C15)
    return ((_scramble(stream[0]) >> np.uint64(11)) + 0.5) * 2.0**-53


@_compiled
def _normal(stream):  # pyright: ignore
    return math.sqrt(-2.0 * math.log(_uniform(stream))) * math.cos(2.0 * math.pi * _uniform(stream))


@_compiled
def _trait_normals(seed, first, last, width):  # pyright: ignore
    out = np.empty((last - first, width))
    stream = np.empty(1, np.uint64)
    for user in range(first, last):
        _open_stream(stream, seed, user, 1)
        for column in range(width):
            out[user - first, column] = _normal(stream)
    return out


@_compiled
def _draw(  # pyright: ignore
    seed, first, offsets, members, starts, running, popularity, groups, item_factors, item_bias, levels, factors,
    noise_std, tilt,
):  # fmt: skip
    n_items, rank = item_factors.shape
    n_groups = starts.size - 1
    items = np.empty(offsets[-1], np.int32)
    ratings = np.empty(offsets[-1], np.float32)
    picked_by = np.full(n_items, -1, np.int64)
    stream = np.empty(1, np.uint64)
    liking = np.empty(n_groups)
    chances = np.empty(n_groups)
    for user in range(offsets.size - 1):
        _open_stream(stream, seed, first + user, 2)
        total = 0.0
        for group in range(n_groups):
            liking[group] = math.exp(tilt * factors[user, group]) if tilt != 0.0 else 1.0
            if starts[group + 1] > starts[group]:
                total += liking[group] * running[starts[group + 1] - 1]
            chances[group] = total
        at, stop = offsets[user], offsets[user + 1]
        tries = PATIENCE * (stop - at)
        while at < stop and tries > 0:
            tries -= 1
            group = min(np.searchsorted(chances, _uniform(stream) * total), n_groups - 1)
            begin, end = starts[group], starts[group + 1]
            place = np.searchsorted(running[begin:end], _uniform(stream) * running[end - 1])
            item = members[min(begin + place, end - 1)]
            if picked_by[item] != user:
                picked_by[item] = user
                items[at] = item
                at += 1
        if at < stop:
            # An exponential race among the items left has the same law as going on picking one by one.
            times = np.empty(n_items)
            for item in range(n_items):
                times[item] = -math.log(_uniform(stream)) / (popularity[item] * liking[groups[item]])
                if picked_by[item] == user:
                    times[item] = np.inf
            items[at:stop] = np.argsort(times)[: stop - at]
        for at in range(offsets[user], stop):
            item = items[at]
            level = levels[user] + item_bias[item] + noise_std * _normal(stream)
            for factor in range(rank):
                level += factors[user, factor] * item_factors[item, factor]
            ratings[at] = min(max(math.floor(2.0 * level + 0.5) / 2.0, 0.5), 5.0)
    return items, ratings
