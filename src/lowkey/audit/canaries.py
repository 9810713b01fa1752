"""Lab room: users who are each a method's own worst case, found by looking at what they would add to every post.

The posts of one fit are the *history*, forced from then on: the ratio of sensitivity to noise is fixed in the plan for
every history, so the auditor may choose the one under which somebody moves the posts most. Under a forced history a user
adds a fixed vector to each post; in units of the claimed noise its length is that user's own mu.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.privacy.noise import SeededNoise
from lowkey.testing.attackers import HIGH, LOW, aligned, gallery
from lowkey.testing.cases import Row, as_row, ratings_of
from lowkey.testing.noise_checks import widths
from lowkey.testing.replaying import contributions_of, record
from lowkey.testing.watching import Record

FACTORS = (1.0, 0.3, 0.05, 100.0)  # on the history's noise: the auditor may choose any history
CELLS = 4e7  # numbers that all contributions together may hold, about: 320 MB; and the noise of all runs
FEWEST, MOST_NUMBERS = 16, 4_000_000  # people whom there is always room for, and what one of them may move
PROBES = 150  # users of random kinds, from which the best kinds are learnt
OF_A_KIND = 12  # canaries, whatever their reach
BEYOND, FURTHER = -1, 100.0  # a kind of its own: users so far outside the scale that no reader lets them pass
Array = NDArray[np.float64]
Person = Any  # items, values and a key; or whatever the history's ``data`` takes


@dataclass(frozen=True, eq=False)
class History:
    """One fit's posts, and the crowd that they were made from."""

    known: Record
    domain: Domain
    rows: list[Row]
    keys: NDArray[np.uint64]
    reached: dict[str, float] = field(default_factory=dict[str, float])  # by post: the largest share under any history

    @property
    def crowd(self) -> list[Any]:
        return [(*row, int(key)) for row, key in zip(self.rows, self.keys, strict=True)]

    def data(self, people: list[Any]) -> Any:
        """People, closed as a fit takes them."""
        rows = [(items, values) for items, values, _ in people]
        return ratings_of(self.domain, rows, np.array([key for *_, key in people], np.uint64))

    def block(self, person: Any) -> Any:
        """One of them alone, bare as a kernel takes them."""
        return self.data([person])._open_whole()

    @cached_property
    def spans(self) -> list[slice]:
        """Where each post lies in the long vector of all of them."""
        ends = np.cumsum([0, *(entry.units.size for entry in self.known.entries)])
        return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    @cached_property
    def scale(self) -> Array:
        """Grid units in units of the noise that the ledger claims, for each number of the long vector."""
        known = self.known
        return np.concatenate(
            [
                np.broadcast_to(entry.statistic.grid.step / widths(entry, known.adjacency), entry.units.shape).ravel()
                for entry in known.entries
            ]
        )

    @property
    def mus(self) -> Array:
        """What each post is claimed to cost."""
        return np.array([entry.line.mechanism.mu for entry in self.known.entries])

    @property
    def mu(self) -> float:
        return math.hypot(*self.mus)

    def added_by(self, person: Person) -> Array:
        """What one user adds to all posts, in grid units; whole numbers."""
        parts = contributions_of(self.known, self.block(person))
        return np.concatenate([part.ravel() for part in parts]).astype(np.float64)

    def norms(self, units: Array) -> Array:
        """The mu of each vector at each post: (vectors, posts)."""
        starts = [span.start for span in self.spans]
        return np.sqrt(np.stack([np.add.reduceat(np.square(vector * self.scale), starts) for vector in units]))

    @property
    def room(self) -> int:
        """How many people's contributions are kept."""
        return max(FEWEST, int(CELLS / self.scale.size / 4))


@dataclass(frozen=True, eq=False)
class Canaries:
    """Pairs of users, of whom a coin lets the first or the second in; the second is nobody under add/remove."""

    firsts: list[Person]
    seconds: list[Person]  # empty under add/remove
    base: Array  # what the seconds add, in grid units: (pairs, numbers), or nothing
    shift: Array  # how far the posts move if the first is in and not the second
    reach: Array  # the mu of each pair at each post
    best: Array  # the largest mu at each post, of all within the scale who were tried
    chosen: int  # so many of the pairs, the first ones, are the worst for all posts together
    kinds: NDArray[np.int64]  # of each pair: how many ratings, or BEYOND. Noise may be too narrow for some kinds only

    @property
    def mu(self) -> Array:
        """Of the chosen pairs, for all posts together."""
        return np.sqrt((self.reach[: self.chosen] ** 2).sum(axis=1))


def choose_history(make: Any, domain: Domain, rows: list[Row], keys: NDArray[np.uint64], seed: int) -> History:
    """The history, of four, under which the worst of some users comes nearest to the claim of the whole plan."""
    best, reached = list[tuple[float, History]](), dict[str, float]()
    for factor in FACTORS:
        known = record(make(), domain, rows, keys, SeededNoise(seed, factor), checked=False)
        history = History(known, domain, rows, keys)
        if (numbers := history.scale.size) > MOST_NUMBERS:
            needed = f"at most {MOST_NUMBERS:,}"
            refuse("an audit", got=f"posts of {numbers:,} numbers", needed=needed, try_="a smaller head, rank or catalogue")
        planned = math.sqrt(sum(line.times * line.mechanism.mu**2 for line in known.plan.lines))
        rng = np.random.default_rng(seed)
        probes = [_crafted(domain, _kind(domain, rng), rng) for _ in range(min(PROBES // 3, history.room))]
        beyond = [(*row, 1) for row in _stretched(domain, list(gallery(domain, rows).values()))[: history.room]]
        mus = history.norms(np.stack([history.added_by(person) for person in (*probes, *beyond)]))
        for entry, most in zip(known.entries, (mus / history.mus).max(axis=0), strict=True):
            reached[entry.statistic.name] = max(float(most), reached.get(entry.statistic.name, 0.0))
        share = float(np.sqrt((mus[: len(probes)] ** 2).sum(axis=1)).max()) / planned
        if not best or share > best[-1][0] + 0.005:
            best.append((share, history))
    return replace(best[-1][1], reached=reached)


def worst_canaries(history: History, count: int, rng: np.random.Generator) -> Canaries:
    """``count`` users or pairs with the largest mu; beside them the worst of each post, and some of every kind."""
    people, units, kinds = _candidates(history, min(count, history.room), rng)
    firsts, seconds, base = np.arange(len(people)), list[int](), np.zeros((0, units.shape[1]))
    shift = units
    if history.known.adjacency == "replace-one":
        firsts, seconds = _far_pairs((units * history.scale).astype(np.float32))
        base, kinds = units[seconds], np.minimum(kinds[firsts], kinds[seconds])
        shift = units[firsts] - base
    reach = history.norms(shift)
    within = np.flatnonzero(kinds != BEYOND)
    top = within[np.argsort(-(reach[within] ** 2).sum(axis=1), kind="stable")[:count]]
    others = [np.flatnonzero(kinds == kind)[:OF_A_KIND] for kind in np.unique(kinds)]
    others.append(within[reach[within].argmax(axis=0)])
    picked = np.concatenate([top, np.setdiff1d(np.concatenate(others), top)])
    pairs = [people[firsts[i]] for i in picked], [people[seconds[i]] for i in picked] if len(seconds) else []
    base = base[picked] if len(seconds) else base
    return Canaries(*pairs, base, shift[picked], reach[picked], reach[within].max(axis=0), len(top), kinds[picked])


def typical_canaries(history: History, count: int, rng: np.random.Generator) -> Canaries:
    """Members of the crowd, as they are, in place of the worst case: under add/remove."""
    places = rng.permutation(len(history.rows))[:count]
    people: list[Person] = [(*history.rows[i], int(rng.integers(1, 2**62))) for i in places]
    units = np.stack([history.added_by(person) for person in people])
    mus = history.norms(units)
    kinds = np.array([len(items) for items, *_ in people])
    return Canaries(people, [], np.zeros((0, units.shape[1])), units, mus, mus.max(axis=0), len(people), kinds)


def _candidates(history: History, count: int, rng: np.random.Generator) -> tuple[list[Person], Array, NDArray[np.int64]]:
    """Users of a gallery, along the posts' directions and of random kinds; then more of the kinds that did best."""
    domain, room = history.domain, history.room
    kinds = [_kind(domain, rng) for _ in range(min(PROBES, room))]
    shown = list(gallery(domain, history.rows).values())
    if history.known.adjacency == "replace-one":
        count *= 2
    further = _stretched(domain, shown)[:room]
    known = [*further, *[*shown, *(row for _, row in aligned(domain, history.known))][: min(2 * count, room)]]
    people = [(*row, int(rng.integers(1, 2**62))) for row in known]
    people += [_crafted(domain, kind, rng) for kind in kinds]
    units = [history.added_by(person) for person in people]
    mus = np.sqrt((history.norms(np.stack(units)) ** 2).sum(axis=1))
    best = np.argsort(-mus[-len(kinds) :], kind="stable")[: max(2, len(kinds) // 15)]
    for _ in range(int(1.2 * count)):
        people.append(_crafted(domain, kinds[rng.choice(best)], rng))
        units.append(history.added_by(people[-1]))
    return people, np.stack(units), np.array([BEYOND] * len(further) + [len(items) for items, *_ in people[len(further) :]])


def _stretched(domain: Domain, rows: list[Row]) -> list[Row]:
    """The same users far beyond the scale. No reader lets them pass, but a kernel's bounds must hold for them too."""
    if domain.rating_range is None:
        return []
    middle = np.float32(sum(domain.rating_range) / 2.0)
    return [(items, middle + np.float32(FURTHER) * (values - middle)) for items, values in rows if len(items)]


def _kind(domain: Domain, rng: np.random.Generator) -> tuple[int, int]:
    """How many items a user has, and how they are rated: at random ends, all high, or in turn."""
    lengths = [m for m in (1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 128, 300) if m < domain.n_items]
    return int(rng.choice([*lengths, domain.n_items])), int(rng.integers(3))


def _crafted(domain: Domain, kind: tuple[int, int], rng: np.random.Generator) -> Person:
    length, style = kind
    levels = np.full(domain.n_items, -1)
    ends = (rng.choice([LOW, HIGH], length), np.full(length, HIGH), np.where(np.arange(length) % 2, HIGH, LOW))
    levels[rng.choice(domain.n_items, length, replace=False)] = ends[style]
    return *as_row(domain, levels), int(rng.integers(1, 2**62))


def _far_pairs(points: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs that lie far apart, each user in one of them: the furthest first."""
    squares = (points**2).sum(axis=1)
    distances = np.triu(squares[:, None] + squares - 2.0 * points @ points.T, 1)
    free, firsts, seconds = np.ones(len(points), bool), list[int](), list[int]()
    for pair in np.argsort(-distances, axis=None, kind="stable"):
        i, j = divmod(int(pair), len(points))
        if free[i] and free[j] and i != j:
            free[i] = free[j] = False
            firsts.append(i)
            seconds.append(j)
            if 2 * len(firsts) >= len(points) - 1:
                break
    return np.array(firsts), np.array(seconds)
