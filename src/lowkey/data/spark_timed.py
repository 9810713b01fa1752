"""Vault room: ratings with times on a Spark cluster, cut into the cohorts of a stream where they are.

Each task has all rows of its users and makes of them what `TimedRatings` is here. The driver learns at which release each
user speaks, as the record of who has spoken (spoken.py) is kept there: 16 bytes a user; no rating leaves the executors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowkey.data.calendar import Calendar, Ints
from lowkey.data.columns import ColumnNames, check_word
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.spark_blocks import BLOCK_COLUMNS, BLOCK_SCHEMA, BLOCK_USERS, block_row, held_rows, one_row, partition_of
from lowkey.data.spark_errors import in_words, on_driver, on_executor
from lowkey.data.spark_rows import SparkRows, chosen_columns, gathered
from lowkey.data.spoken import Spoken
from lowkey.data.timed import TimedRatings, check_speakers, timed_names
from lowkey.errors import LowkeyError, quotes_nobody
from lowkey.privacy.closed import Closed

Keys = npt.NDArray[np.uint64]
SPEAKERS = pa.schema([("keys", pa.binary()), ("speak", pa.binary())])


@quotes_nobody
def timed_from_spark(
    frame: Any,
    domain: Domain,
    *,
    user: str,
    item: str,
    time: str,
    rating: str | None = None,
    partitions: int | None = None,
    unknown_items: str = "error",
) -> SparkTimedRatings:
    """The ratings with times in a Spark DataFrame, for ``Stream.release(…, engine=SparkEngine(spark))``.

    Parameters
    ----------
    frame, domain, user, item, rating, partitions, unknown_items
        As in `from_spark`.
    time : str
        The column of times. Of a pair of user and item that occurs again, the later one counts; of two at one time, the
        higher, as the rows of a frame have no order.

    Examples
    --------
    >>> rows = lk.timed_from_spark(frame, domain, user="who", item="film", time="when")  # doctest: +SKIP
    >>> stream.release(rows, engine=lk.SparkEngine(spark))  # doctest: +SKIP
    """
    check_word("unknown_items", unknown_items)
    names = timed_names(domain, user, item, rating, time)
    rows, _ = gathered(chosen_columns(frame, names), names, GroupTimed(names, domain, unknown_items), partitions)
    return SparkTimedRatings(domain, rows)


class SparkTimedRatings(Closed):
    """As `TimedRatings`, on a cluster: blocks of whole users, each entry with its time."""

    __slots__ = ("_domain", "_rows")

    def __init__(self, domain: Domain, rows: SparkRows) -> None:
        self._domain, self._rows = domain, rows

    @property
    def domain(self) -> Domain:
        return self._domain

    def _settled(self, calendar: Calendar, release: int, spoken: Spoken) -> tuple[Spoken, list[Ratings]]:
        """As of `TimedRatings`."""
        keys, by_rule = self._by_rule(calendar)
        settled, speaks = spoken.settled(keys, by_rule, release)
        cohorts = [self._cohort(keys[calendar.speak(speaks, s)], calendar.time_of(s)) for s in range(1, release + 1)]
        return settled, cohorts

    def _rebuilt(self, calendar: Calendar, release: int) -> Spoken:
        return Spoken.rebuilt(*self._by_rule(calendar), release)

    def _by_rule(self, calendar: Calendar) -> tuple[Keys, Ints]:
        """The users' keys, and at which release each speaks."""
        task, columns = on_executor(Speakers(self._domain, calendar)), "keys binary, speak binary"
        found: Any = on_driver(lambda: self._rows._open_frame().mapInArrow(task, columns).toArrow())
        keys, speak = (b"".join(cell.as_py() for cell in found[name]) for name in SPEAKERS.names)
        return np.frombuffer(keys, np.uint64), np.frombuffer(speak, np.int64)

    def _cohort(self, keys: Keys, until: int) -> Ratings:
        check_speakers(len(keys))
        blocks = self._rows._open_frame().mapInArrow(on_executor(Cohort(self._domain, np.sort(keys), until)), BLOCK_COLUMNS)
        return Ratings(self._domain, SparkRows(blocks, self._rows.partitions, self._rows))

    def _public_facts(self) -> str:
        return f"{self._domain.n_items} items, {self._domain.scale}, with times"


@dataclass(frozen=True)
class GroupTimed:
    """On an executor: all rows of some users, in any order, by user and time."""

    names: ColumnNames
    domain: Domain
    unknown_items: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        table = partition_of(batches)
        if table is None:
            return
        if self.names.rating is not None:
            table = table.sort_by(self.names.rating)  # rows arrive in any order, and of two at one time the last counts
        columns = {name: table.column(name) for name in self.names.as_list()}
        try:
            timed = TimedRatings._of(columns, self.names, self.domain, self.unknown_items)
        except LowkeyError as refusal:
            yield one_row(BLOCK_SCHEMA, refused=in_words(refusal))
            return
        for block, times in timed._pieces(BLOCK_USERS):
            yield block_row(block, self.domain.rating_range is not None, known=True, times=times.tobytes())


@dataclass(frozen=True)
class Speakers:
    """On an executor: at which release each user speaks, by the rule."""

    domain: Domain
    calendar: Calendar

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for timed in timed_in(batches, self.domain):
            by_rule = timed._by_rule(self.calendar)
            yield one_row(SPEAKERS, keys=timed._keys.tobytes(), speak=by_rule.tobytes())


@dataclass(frozen=True)
class Cohort:
    """On an executor: the rows of those who speak, as they were then."""

    domain: Domain
    keys: Keys  # sorted
    until: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for timed in timed_in(batches, self.domain):
            users = np.flatnonzero(np.isin(timed._keys, self.keys))
            if len(users):
                yield block_row(timed._cohort(users, self.until).whole(), self.domain.rating_range is not None)


def timed_in(batches: Iterator[Any], domain: Domain) -> Iterator[TimedRatings]:
    for batch in batches:
        for at in range(batch.num_rows):
            block, times = held_rows(batch, at).whole(), np.frombuffer(batch.column("times")[at].as_buffer(), np.int64)
            values = None if domain.rating_range is None else block.values
            yield TimedRatings(domain, block.offsets, block.items, values, times, block.keys)
