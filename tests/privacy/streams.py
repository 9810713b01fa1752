"""The replay harness for streams: all releases on neighbouring data, with the posts of the first forced upon the second.

``record`` runs a whole stream and keeps every raw sum and every post. ``replay`` runs it on a neighbour under the same
posts: everything public must be equal, and the raw sums of *all* releases together may differ by the declared sensitivity
of one, compared exactly, in whole grid units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bounds import allowed_power, norm_power
from replay import Violation

import lowkey as lk
from lowkey.privacy.mechanisms import sha256_of
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.sums import Statistic, UnreleasedPart

DAY = 86_400
CALENDAR = lk.Calendar(first=14 * DAY, every=7 * DAY, wait=3 * DAY, patience=21 * DAY, least=3)


@dataclass
class StreamRecord:
    units: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    posted: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    statistics: dict[str, Statistic] = field(default_factory=dict)
    cohorts: list[frozenset[int]] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)


def table(n_users: int = 80, n_items: int = 40, weeks: int = 8, seed: int = 0) -> pd.DataFrame:
    """Users who come over the weeks, in no order, and rate for a month; some too little to speak early."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(n_users):
        begin = int(rng.integers(0, weeks * 7 * DAY))
        for item in rng.choice(n_items, rng.integers(1, 12), replace=False):
            rows.append((user, item, float(rng.integers(1, 6)), begin + int(rng.integers(0, 28 * DAY))))
    return pd.DataFrame(rows, columns=["user", "item", "rating", "time"]).sample(frac=1.0, random_state=seed)


def timed(frame: pd.DataFrame, domain: lk.Domain) -> lk.TimedRatings:
    return lk.TimedRatings.from_frame(frame, domain, user="user", item="item", rating="rating", time="time")


def speaks(frame: pd.DataFrame, calendar: lk.Calendar = CALENDAR) -> dict[int, int]:
    """At which release each user speaks, release by release, as the rule's words say."""
    found = {}
    for user, rows in frame.groupby("user"):
        times = rows["time"].to_numpy()
        for release in range(1, 1000):
            now = calendar.time_of(release)
            known = now - times.min()
            if (known >= calendar.wait and np.sum(times <= now) >= calendar.least) or known >= calendar.patience:
                found[int(user)] = release
                break
    return found


def stream_of(
    folder: Path, method: Any, domain: lk.Domain, releases: int, seed: int = 1, calendar: Any = CALENDAR, **options: Any
) -> lk.Stream:
    return lk.Stream(folder, method, domain, calendar, releases, noise=SeededNoise(seed), **options)


def record(stream: lk.Stream, ratings: lk.TimedRatings) -> StreamRecord:
    found, board = StreamRecord(), stream.billboard
    release_one = type(board)._release.__get__(board)

    def keeping(unreleased: Any, line: Any) -> Any:
        assert isinstance(unreleased, UnreleasedPart)
        part = line.name, unreleased.release
        found.units[part] = np.array(unreleased._units)
        found.statistics[line.name] = unreleased.statistic
        found.posted[part], sha256 = release_one(unreleased, line)
        return found.posted[part], sha256

    board._release = keeping
    _run(stream, ratings, found)
    return found


def replay(known: StreamRecord, stream: lk.Stream, ratings: lk.TimedRatings) -> dict[str, float]:
    """The norm of the whole shift of each name, as a share of the declared sensitivity."""
    found, board = StreamRecord(), stream.billboard
    adjacency = board.plan.unit.neighbours
    moved: dict[str, int] = dict.fromkeys(known.statistics, 0)

    def forced(unreleased: Any, line: Any) -> Any:
        part = line.name, unreleased.release
        if unreleased.statistic != known.statistics[line.name]:
            raise Violation(f"{part}: the statistic depends on the data")
        moved[line.name] += norm_power(unreleased.statistic, unreleased._open() - known.units[part])
        return known.posted[part], sha256_of(known.posted[part])

    board._release = forced
    _run(stream, ratings, found)
    for ours, theirs in zip(found.models, known.models, strict=True):
        for name, array in ours.arrays.items():
            if not np.array_equal(array, theirs.arrays[name]):
                raise Violation("a model depends on the data beyond the posts")
    shares = {}
    for name, power in moved.items():
        allowed = allowed_power(known.statistics[name], adjacency)
        shares[name] = math.sqrt(Fraction(power) / allowed)
        if power > allowed:
            raise Violation(f"{name!r}: one user moves the whole stream by {shares[name]:.6g} times what is declared")
    return shares


def check_rule(first: StreamRecord, other: StreamRecord) -> None:
    """Under another public history the same people speak at the same releases."""
    if first.cohorts != other.cohorts:
        raise Violation("when a user speaks depends on what was posted")


def check_fresh_noise(known: StreamRecord) -> None:
    """No two posts share their noise. Of independent rows of 40 numbers, |correlation| > 0.95 has a chance below 1e-19."""
    drawn = [posted - known.units[part] * known.statistics[part[0]].grid.step for part, posted in known.posted.items()]
    for i, row in enumerate(drawn):
        for earlier in drawn[:i]:
            n = min(row.size, earlier.size)
            if abs(np.corrcoef(row.ravel()[:n], earlier.ravel()[:n])[0, 1]) > 0.95:
                raise Violation("a post uses the noise of another one again")


def _run(stream: lk.Stream, ratings: lk.TimedRatings, found: StreamRecord) -> None:
    for _ in range(stream.schedule.horizon):
        found.models.append(stream.release(ratings))
    cohorts = stream._cohorts(ratings, stream.schedule.horizon)
    found.cohorts = [frozenset(cohort._open_keys().tolist()) for cohort in cohorts]
