"""Lab room: users at size: rows over 256 items, a catalogue over 1,000, two threads, several blocks.

A loop that works in chunks of 64, 128 or 256 never reaches a second one on the small table, nor what goes wrong there.
The users here hold from nothing to the whole catalogue, in every block.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import config

from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.testing.cases import Case, Row, as_row

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
