"""Lab room: what a suite is run on: an estimator with small settings, and made-up users who reach every corner of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.data.ratings import HeldRows, Ratings

N_ITEMS, N_USERS = 16, 30
DOMAINS = {
    "ratings": Domain(items=[f"film {i:02d}" for i in range(N_ITEMS)], rating_range=(0.5, 5.0), expected_users=N_USERS),
    "binary": Domain(items=range(100, 100 + N_ITEMS), feedback="binary", expected_users=N_USERS),
}
Row = tuple[np.ndarray, np.ndarray]  # rising item positions, and their values (all 1 for binary feedback)


@dataclass(frozen=True, eq=False)
class Case:
    """One estimator on one feedback kind.

    ``settings`` is a small configuration in which everything of the method happens: every kind of release is posted, every
    cap and clip can be reached by one user on a catalogue of 16 items (so max_ratings below 16, rank at least 2, n_iter at
    least 2). ``whole`` are settings without caps, for the check whose answer a child can check. ``baseline`` is the
    non-private estimator, if there is one, that the method nearly equals when its noise is switched off, with ``twin``
    the settings under which it does.
    """

    estimator: Any  # a class
    feedback: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    baseline: Callable[[], Any] | None = None
    twin: Mapping[str, Any] = field(default_factory=dict)
    whole: Mapping[str, Any] = field(default_factory=dict)  # settings under which every item gets its part
    note: str = ""
    personal: bool = True  # what it recommends depends on the history
    protects: str = "users"  # or "values": who rated what is public, and a neighbour has other values of the unit
    one_block: bool = False  # its pass needs all users at once
    spends: float = 0.999  # of epsilon, at least; less where the posts may decide to leave a part of the plan unposted

    def __str__(self) -> str:
        return f"{self.estimator.__name__}-{self.feedback}" + (f"-{self.note}" if self.note else "")

    @property
    def private(self) -> bool:
        return self.estimator.private

    @property
    def domain(self) -> Domain:
        return DOMAINS[self.feedback]

    def make(self, **changes: Any) -> Any:
        """A fresh estimator, at epsilon = 1 and delta = 1e-6 if it is private, unless ``changes`` say otherwise."""
        budget = {"epsilon": 1.0, "delta": 1e-6} if self.private else {}
        return self.estimator(**{**budget, **self.settings, **changes})


def stars(domain: Domain) -> np.ndarray:
    """The values that a user may give: ten steps over the range, or 1."""
    limits = domain.rating_range
    return np.ones(10, np.float32) if limits is None else np.linspace(*limits, 10).astype(np.float32)


def as_row(domain: Domain, levels: np.ndarray) -> Row:
    """A user from one number per item: -1 for not rated, else one of the ten ``stars``."""
    items = np.flatnonzero(levels >= 0).astype(np.int32)
    return items, stars(domain)[levels[items]]


def base_rows(domain: Domain, n_users: int = N_USERS, seed: int = 7) -> list[Row]:
    """Users of two tastes and every activity from none to the whole catalogue."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for u in range(n_users):
        count = min(u % (domain.n_items + 3), domain.n_items)
        likes = (np.arange(domain.n_items) % 2 == u % 2) * 5 + rng.integers(0, 5, domain.n_items)
        levels = np.full(domain.n_items, -1)
        chosen = rng.choice(domain.n_items, count, replace=False)
        levels[chosen] = likes[chosen]
        rows.append(as_row(domain, levels))
    return rows


def ratings_of(domain: Domain, rows: list[Row], keys: np.ndarray) -> Ratings:
    """Rows and keys as the closed container that estimators take."""
    offsets = np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])]).astype(np.int64)
    items = np.concatenate([np.zeros(0, np.int32), *(items for items, _ in rows)])
    values = np.concatenate([np.zeros(0, np.float32), *(values for _, values in rows)]).astype(np.float32)
    return Ratings(domain, HeldRows(offsets, items, None if domain.feedback == "binary" else values, keys))


def base_keys(n_users: int = N_USERS) -> np.ndarray:
    """Keys as of users with the ids 1000, 1001, ..."""
    return splitmix64(np.arange(1000, 1000 + n_users, dtype=np.uint64))


def base_ratings(domain: Domain) -> Ratings:
    return ratings_of(domain, base_rows(domain), base_keys())
