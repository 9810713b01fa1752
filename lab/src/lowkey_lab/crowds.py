"""Lab room: crowds of takers, made up or cut out of public data: the feasibility model is made from some, tried on others.

``training()`` and ``unseen()`` share no data set, no kind but two (factors and groups) and no seed. NOT PRIVATE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from lowkey_lab.anyone import rows_of

ROWS_AT_ONCE = 4_000_000  # scores
MADE = 88  # training crowds


class Crowd(NamedTuple):
    """Rows of who took what; ``tested`` of them are held out, the others are the crowd."""

    name: str
    rows: Any
    tested: int


class Shape(NamedTuple):
    users: int
    n_items: int
    ratings: float  # of a user
    exponent: float = 0.8  # popularity falls like 1/rank^exponent
    strength: float = 1.5  # of tastes
    kinds: int = 6  # of tastes


def lengths_of(rng: np.random.Generator, shape: Shape) -> Any:
    """Of the rows: geometric, or with a longer or a shorter tail."""
    law = rng.integers(3)
    if law == 0:
        found = 1 + rng.geometric(1.0 / max(shape.ratings - 1.0, 1.0), shape.users)
    elif law == 1:
        found = np.ceil(np.exp(rng.normal(math.log(shape.ratings) - 0.5, 1.0, shape.users)))
    else:
        found = 1 + rng.poisson(max(shape.ratings - 1.0, 0.5), shape.users)
    return np.clip(found, 1, shape.n_items // 2).astype(int)


def drawn(rng: np.random.Generator, lengths: Any, n_items: int, odds: Callable[[slice], Any]) -> Any:
    """Every user takes as many items as said, without repeats, by these odds (logarithms, users by items)."""
    taken = []
    for low in range(0, len(lengths), step := max(1, ROWS_AT_ONCE // n_items)):
        part = slice(low, min(low + step, len(lengths)))
        scores = odds(part)
        order = np.argsort(-(scores + rng.gumbel(size=scores.shape)), axis=1)
        taken += [row[:length] for row, length in zip(order, lengths[part], strict=True)]
    return as_rows(taken, n_items)


def as_rows(taken: list[Any], n_items: int) -> Any:
    owners = np.repeat(np.arange(len(taken)), [len(row) for row in taken])
    values = np.ones(len(owners))
    return scipy.sparse.csr_array((values, (owners, np.concatenate(taken))), shape=(len(taken), n_items))


def popular(rng: np.random.Generator, shape: Shape) -> Any:
    return -shape.exponent * np.log(np.arange(1, shape.n_items + 1))[rng.permutation(shape.n_items)]


def factors(rng: np.random.Generator, shape: Shape) -> Any:
    """Popularity is tilted by Gaussian factors."""
    odds, lengths = popular(rng, shape), lengths_of(rng, shape)
    left = rng.normal(size=(shape.users, shape.kinds))
    right = rng.normal(0.0, shape.strength / math.sqrt(shape.kinds), (shape.kinds, shape.n_items))
    return drawn(rng, lengths, shape.n_items, lambda part: odds + left[part] @ right)


def groups(rng: np.random.Generator, shape: Shape) -> Any:
    """A user belongs to one group, and prefers its items."""
    odds, lengths = popular(rng, shape), lengths_of(rng, shape)
    of_items = rng.integers(shape.kinds, size=shape.n_items)
    of_users = rng.choice(shape.kinds, shape.users, p=rng.dirichlet(np.full(shape.kinds, 2.0)))
    return drawn(rng, lengths, shape.n_items, lambda part: odds + shape.strength * (of_users[part, None] == of_items))


def topics(rng: np.random.Generator, shape: Shape) -> Any:
    """A user mixes topics, and a topic has few items."""
    base, lengths = np.exp(popular(rng, shape)), lengths_of(rng, shape)
    of_topics = rng.gamma(0.1, size=(shape.kinds, shape.n_items)) * base
    of_topics /= of_topics.sum(1, keepdims=True)
    mixed, tilt = rng.dirichlet(np.full(shape.kinds, 0.3), shape.users), 1.0 - math.exp(-shape.strength)

    def odds(part: slice) -> Any:
        return np.log((1.0 - tilt) * base / base.sum() + tilt * mixed[part] @ of_topics + 1e-12)

    return drawn(rng, lengths, shape.n_items, odds)


def bundles(rng: np.random.Generator, shape: Shape) -> Any:
    """Items come in small bundles: who takes one of them takes others of it; the rest is taken one by one."""
    size, together = int(rng.integers(3, 9)), 1.0 - math.exp(-0.7 * shape.strength)
    odds, taken = np.exp(popular(rng, shape)), []
    chances = odds / odds.sum()
    for length in lengths_of(rng, shape):
        firsts, row = rng.choice(shape.n_items, length, p=chances), set()
        for first in firsts:
            row.add(int(first))
            rest = first // size * size + np.arange(size)
            row.update(int(item) for item in rest[rng.random(size) < together * rng.random() ** 2] if item < shape.n_items)
            if len(row) >= length:
                break
        taken.append(np.array(sorted(row)))
    return as_rows(taken, shape.n_items)


def walks(rng: np.random.Generator, shape: Shape) -> Any:
    """Items have a few neighbours each; who took one takes a neighbour of it next, or any item."""
    odds, taken = np.exp(popular(rng, shape)), []
    chances, follow = odds / odds.sum(), 1.0 - math.exp(-0.6 * shape.strength)
    neighbours = rng.choice(shape.n_items, (shape.n_items, int(rng.integers(2, 9))), p=chances)
    for length in lengths_of(rng, shape):
        firsts = rng.choice(shape.n_items, 3 * length, p=chances)
        follows, ways = rng.random(3 * length) < follow, rng.integers(neighbours.shape[1], size=3 * length)
        row, at = {int(firsts[0])}, int(firsts[0])
        for step in range(1, 3 * length):
            at = int(neighbours[at, ways[step]] if follows[step] else firsts[step])
            row.add(at)
            if len(row) >= length:
                break
        taken.append(np.array(sorted(row)))
    return as_rows(taken, shape.n_items)


def places(rng: np.random.Generator, shape: Shape) -> Any:
    """Items and users live on a map, and what is near is taken."""
    odds, lengths = popular(rng, shape), lengths_of(rng, shape)
    homes, where = rng.random((shape.users, 2)), rng.random((shape.n_items, 2))

    def near(part: slice) -> Any:
        return odds - 2.0 * shape.strength * np.linalg.norm(homes[part, None] - where, axis=2)

    return drawn(rng, lengths, shape.n_items, near)


def copies(rng: np.random.Generator, shape: Shape) -> Any:
    """One after the other takes items of somebody before, and others that are popular: fashions grow by themselves."""
    odds, taken = np.exp(popular(rng, shape)), []
    chances, copied = odds / odds.sum(), 1.0 - math.exp(-0.5 * shape.strength)
    for u, length in enumerate(lengths_of(rng, shape)):
        row = set(rng.choice(shape.n_items, length, p=chances).tolist())
        if u >= 20:
            other = taken[rng.integers(u)]
            kept = rng.permutation(sorted(row))[: math.ceil((1.0 - copied) * len(row))]
            row = {*kept.tolist(), *other[rng.random(len(other)) < copied].tolist()}
        taken.append(np.array(sorted(row)))
    return as_rows([taken[u] for u in rng.permutation(len(taken))], shape.n_items)


def some(rows: Any, users: int, tested: int, seed: int) -> Any:
    chosen = np.random.default_rng([seed, users]).permutation(rows.shape[0])[: users + tested]
    return scipy.sparse.csr_array(rows[np.sort(chosen)])


def core(name: str, items: int, least: int, liked: float | None = None) -> Any:
    """The most taken items, and who took at least so many of them."""
    rows: Any = rows_of(name, "lists" if liked is None else "ratings").tocoo()
    kept = np.full(rows.nnz, True) if liked is None else rows.data >= liked
    rows = scipy.sparse.csr_array((np.ones(int(kept.sum())), (rows.row[kept], rows.col[kept])), shape=rows.shape)
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    rows = rows[:, np.sort(np.argsort(-counts, kind="stable")[:items])]
    return scipy.sparse.csr_array(rows[np.diff(rows.indptr) >= least])


TRAINING_CORES: tuple[tuple[str, int, int, float | None, tuple[int, ...]], ...] = (
    *(("ml-100k", items, 5, None, (350, 650)) for items in (300, 700, 1682)),
    ("ml-100k", 1682, 5, 4.0, (600,)),
    *(("jester", 100, 3, liked, (500, 3000)) for liked in (-5.0, 0.0, 3.0, 6.0)),
    ("jester", 100, 3, 4.0, (1000, 5000, 18_000)),
    *(("ciaodvd", items, least, None, (10**6,)) for items, least in ((200, 3), (700, 3), (1500, 5), (4000, 8))),
    *(("book-crossing", items, least, None, (10**6,)) for items, least in ((300, 2), (1000, 3), (2000, 5), (4000, 10))),
)


def training() -> Iterator[Crowd]:
    for name, items, least, liked, sizes in TRAINING_CORES:
        rows = core(name, items, least, liked)
        for size in sizes:
            tested = min(max(rows.shape[0] - size, rows.shape[0] // 5), 3000)
            chosen = some(rows, min(size, rows.shape[0] - tested), tested, 7)
            yield Crowd(f"{name} {items} {size}", chosen, tested)
    for i in range(MADE):
        rng = np.random.default_rng([5, i])
        make = (factors, groups, topics, walks, factors, bundles, topics, walks)[i % 8]

        def between(low: float, high: float, rng: np.random.Generator = rng) -> float:
            return math.exp(rng.uniform(math.log(low), math.log(high)))

        n_items, tested = int(between(100, 1500)), 2000
        users, ratings = int(between(300, 15_000)) + tested, between(3, min(100.0, n_items / 5))
        shape = Shape(users, n_items, ratings, rng.uniform(0.5, 1.4), rng.uniform(0.8, 3.0), int(between(3, 40)))
        yield Crowd(f"{make.__name__} {i}", make(rng, shape), tested)


FACTS = ((1500, 300, 20.0), (4000, 800, 30.0), (8000, 400, 8.0), (1000, 1500, 60.0))  # users, items, ratings of a user
TESTED, SEED = 2000, 78
TESTED_MADE = 12_000  # where gains are small, fewer would tell little


def unseen(draw: int = 0) -> Iterator[Crowd]:
    """Crowds that no constant was made from: two data sets, and four kinds of takers that share users and items."""
    for name, sizes in (("ml-1m", (800, 1800, 4000)), ("msweb", (600, 2500, 12_000))):
        rows = rows_of(name, "lists")
        for size in sizes:
            tested = min(rows.shape[0] - size, TESTED_MADE) if name == "msweb" else TESTED
            yield Crowd(f"{name}, {size:,} users", some(rows, size, tested, SEED + draw), tested)
    for users, n_items, ratings in FACTS:
        for i, make in enumerate((factors, groups, places, copies)):
            rng = np.random.default_rng([SEED + draw, i, n_items])
            rows = make(rng, Shape(users + TESTED_MADE, n_items, ratings))
            yield Crowd(f"{make.__name__}, {users:,} users", rows, TESTED_MADE)
