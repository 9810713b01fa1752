"""Lab room: the replay harness: whole fits on neighbours, with the public history of the first forced upon the second.

``record`` runs a fit on D and keeps every raw sum and every post. ``replay`` runs it on a neighbour and posts the same
values again, so both runs see the same billboard. Then everything that is public must be equal (plan, order, noise,
statistics, arguments of the sweeps, the finished model), and the raw sums may differ by the declared sensitivity, which
is compared exactly, in whole grid units. ``contributions`` is the cheap form for many users: by additivity, what a user
adds to a sum is the sum over that user alone. Only the whole replay sees a coupling between users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads

from lowkey.data.domain import Domain
from lowkey.data.ratings import Block
from lowkey.privacy.noise import NoiseSource
from lowkey.testing.cases import Row, ratings_of
from lowkey.testing.noise_checks import check_books, check_noise
from lowkey.testing.watching import (
    ForcingBillboard,
    Record,
    RecordingBillboard,
    Violation,
    WatchingEngine,
    counted_openings,
    same,
)


def record(
    estimator: Any,
    domain: Domain,
    rows: list[Row],
    keys: np.ndarray,
    noise: NoiseSource,
    engine: WatchingEngine | None = None,
    checked: bool = True,
) -> Record:
    """Run a fit on D and keep everything. Raises if its own books do not balance or its noise is not what was booked.

    ``checked=False`` for whoever looks at these with other means.
    """
    engine = WatchingEngine() if engine is None else engine
    billboard = RecordingBillboard(noise, engine)
    with counted_openings() as openings, one_thread():
        estimator.fit(ratings_of(domain, rows, keys), engine=engine, billboard=billboard)
    assert billboard.plan is not None
    found = Record(billboard.plan, billboard.entries, engine.calls, estimator.model_, len(openings))
    if checked:
        check_books(found)
    if checked and getattr(noise, "factor", 1.0) == 1.0:  # else the noise is wrong on purpose, for another public history
        check_noise(found, noise)
    return found


def replay(known: Record, estimator: Any, domain: Domain, rows: list[Row], keys: np.ndarray, threads: int = 1) -> float:
    """Run the neighbour against the record; returns the largest move as a share of the declared sensitivity."""
    return max(replay_shares(known, estimator, domain, rows, keys, threads).values(), default=0.0)


def replay_shares(
    known: Record, estimator: Any, domain: Domain, rows: list[Row], keys: np.ndarray, threads: int = 1
) -> dict[str, float]:
    """The same, for each post by its name."""
    billboard = ForcingBillboard(known)
    engine = WatchingEngine(block_size=1000, threads=threads, expected=known.calls)
    with one_thread():
        estimator.fit(ratings_of(domain, rows, keys), engine=engine, billboard=billboard)
    if (billboard.at, len(engine.calls)) != (len(known.entries), len(known.calls)):
        raise Violation("the neighbour's fit posts or sweeps less often")
    ours, theirs = estimator.model_, known.model
    for part in ("method", "rule", "settings", "arrays"):
        if not same(getattr(ours, part), getattr(theirs, part)):
            raise Violation(f"the model's {part} depend on the data beyond the posts: something was released unbooked")
    return billboard.shares


def contributions(known: Record, row: Row, key: int) -> list[np.ndarray]:
    """What one user adds to each posted sum of the recorded run, in grid units."""
    items, values = row
    block = Block(np.array([0, len(items)]), items, np.asarray(values, np.float32), np.array([key], np.uint64))
    return contributions_of(known, block)


def contributions_of(known: Record, block: Any) -> list[np.ndarray]:
    """The same of a block, of whatever kind."""
    sums: list[dict[str, np.ndarray]] = []
    locals_: list[Any] = []
    with one_thread():
        for call in known.calls:
            parts = {s.name: np.zeros(s.shape, np.int64) for s in call.statistics}
            local = None if call.local_from is None else locals_[call.local_from]
            locals_.append(call.sweep.run(block, local, parts))
            sums.append(parts)
    return [sums[entry.call][entry.statistic.name] for entry in known.entries]


@contextmanager
def one_thread() -> Iterator[None]:
    """For tiny data: handing a few rows to a second thread takes longer than working on them."""
    before = get_num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(before)
