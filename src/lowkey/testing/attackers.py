"""Lab room: users who try to move a sum as far as they can: a gallery, users aligned with the posts, and users at size.

At size: rows over 256 items, a catalogue over 1,000, two threads, several blocks. A loop that works in chunks of 64, 128 or
256 never reaches a second one on the small table, nor what goes wrong there. The users hold from nothing to the whole
catalogue, in every block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numba import config

from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.testing.cases import Case, Row, as_row
from lowkey.testing.watching import Record, arrays_in

LOW, HIGH = 0, 9  # the ends of the ten levels of a rating


def gallery(domain: Domain, rows: list[Row]) -> dict[str, Row]:
    """Users of a kind that has broken a bound somewhere before."""
    n = domain.n_items
    position = np.arange(n)
    levels = {
        "empty": np.full(n, -1),
        "one rating, low": np.where(position == 3, LOW, -1),
        "one rating, high": np.where(position == n - 1, HIGH, -1),
        "two ratings, far apart": np.where(position == 0, LOW, np.where(position == 1, HIGH, -1)),
        "everything, all low": np.full(n, LOW),
        "everything, all high": np.full(n, HIGH),
        "everything, alternating": np.where(position % 2, HIGH, LOW),
        "everything, all but one low": np.where(position == 5, HIGH, LOW),
        "half, all high": np.where(position < n // 2, HIGH, -1),
        "a few, alternating": np.where(position < 5, np.where(position % 2, HIGH, LOW), -1),
        "a ladder": np.where(position < 10, position, -1),
    }
    users = {name: as_row(domain, values) for name, values in levels.items()}
    heavy = max(rows, key=lambda row: len(row[0]))
    light = min((row for row in rows if len(row[0])), key=lambda row: len(row[0]))
    return {**users, "a double of a heavy user": heavy, "a double of a light user": light}


def aligned(domain: Domain, known: Record) -> Iterator[tuple[str, Row]]:
    """Users built from the posts: high where a posted or learned direction is positive, low or nothing where not."""
    for source, direction in _directions(domain, known):
        positive = direction > np.median(direction)
        yield f"along {source}", as_row(domain, np.where(positive, HIGH, LOW))
        yield f"against {source}", as_row(domain, np.where(positive, LOW, HIGH))
        yield f"on the positive side of {source}", as_row(domain, np.where(positive, HIGH, -1))
        top = np.argsort(np.abs(direction))[-3:]
        few = np.full(domain.n_items, -1)
        few[top] = np.where(direction[top] > 0, HIGH, LOW)
        yield f"on the peaks of {source}", as_row(domain, few)


def _directions(domain: Domain, known: Record) -> Iterator[tuple[str, np.ndarray]]:
    n = domain.n_items
    arrays_ = {f"post {i}": np.asarray(entry.posted) for i, entry in enumerate(known.entries)}
    arrays_ |= {f"the model's {name}": np.asarray(array) for name, array in known.model.arrays.items()}
    for call_at, call in enumerate(known.calls):
        arrays_ |= {f"{name} of sweep {call_at}": array for name, array in arrays_in(call.sweep)}
    for source, array in arrays_.items():
        if array.size == n * (n + 1) // 2 and array.ndim == 1:
            full = np.zeros((n, n))
            full[np.triu_indices(n)] = array
            array = full + np.triu(full, 1).T
        if array.size == 0 or n not in array.shape or array.dtype.kind != "f":
            continue
        table = np.moveaxis(array, array.shape.index(n), 0).reshape(n, -1).astype(np.float64)
        left = np.linalg.svd(table, full_matrices=False)[0]
        for column in range(min(2, left.shape[1])):
            yield f"direction {column} of {source}", left[:, column]


N_ITEMS, N_USERS, BLOCK = 1030, 70, 24
THREADS = min(2, config.NUMBA_NUM_THREADS)  # pyright: ignore[reportAttributeAccessIssue]
SIZED = {
    "ratings": Domain(items=N_ITEMS, rating_range=(0.5, 5.0), expected_users=N_USERS),
    "binary": Domain(items=N_ITEMS, feedback="binary", expected_users=N_USERS),
}
COUNTS = (N_ITEMS, 300, 3, 0, 700, 40, 1, 129, 260, 513)


class SizedCase(Case):
    """A row of the small table's kind, on the large catalogue."""

    @property
    def domain(self) -> Domain:
        return SIZED[self.feedback]


def some_user(domain: Domain, count: int, taste: int, rng: np.random.Generator) -> Row:
    """``count`` random items, rated high where the item's parity is the user's."""
    levels = np.full(domain.n_items, -1)
    chosen = rng.choice(domain.n_items, count, replace=False)
    levels[chosen] = (chosen % 2 == taste) * 5 + rng.integers(0, 5, count)
    return as_row(domain, levels)


@cache
def sized_rows(feedback: str) -> list[Row]:
    rng, domain = np.random.default_rng(17), SIZED[feedback]
    return [some_user(domain, COUNTS[u % len(COUNTS)], u % 2, rng) for u in range(N_USERS)]


@cache
def long_rows(feedback: str) -> dict[str, Row]:
    """Users who have broken a bound, or would if a row were looked at in part: extreme, long, and uneven along the row."""
    domain, position = SIZED[feedback], np.arange(N_ITEMS)
    levels: dict[str, Any] = {
        "everything, alternating": np.where(position % 2, 9, 0),
        "everything, one high": np.where(position == N_ITEMS - 1, 9, 0),
        "calm, then loud beyond 256": np.where(position < 300, 4, np.where(position % 2, 9, 0)),
        "loud, then calm beyond 128": np.where(position < 128, np.where(position % 2, 9, 0), 4),
        "258 items, alternating": np.where(position < 258, np.where(position % 2, 9, 0), -1),
        "401 items, from the end": np.where(position >= N_ITEMS - 401, np.where(position % 2, 9, 0), -1),
        "everything alike": np.full(N_ITEMS, 9),
        "one item": np.where(position == 77, 9, -1),
        "two items, far apart": np.where(position == 0, 0, np.where(position == N_ITEMS - 1, 9, -1)),
        "nothing": np.full(N_ITEMS, -1),
    }
    return {name: as_row(domain, user) for name, user in levels.items()}


def sized_keys(n_users: int = N_USERS) -> np.ndarray:
    return splitmix64(np.arange(5000, 5000 + n_users, dtype=np.uint64))
