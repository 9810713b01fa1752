"""Vault room: ratings with times, closed; cut into the cohorts of a stream: who speaks at which release, with what.

A cohort's row is what the user had rated by the time of their release, so that all cohorts are made anew from one table at
any later time. When somebody speaks follows from the calendar, once; then it is on record (spoken.py). Whoever is erased is
in no cohort any more.
"""

# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lowkey.data.assemble import check_values, tidy_rows
from lowkey.data.calendar import Calendar, Ints
from lowkey.data.columns import (
    ColumnNames,
    catalogue_positions,
    check_known,
    check_word,
    encode,
    names_for,
    read_values,
    tidy_columns,
)
from lowkey.data.domain import Domain
from lowkey.data.formats import format_of, read_columns
from lowkey.data.ids import user_keys
from lowkey.data.ratings import Block, HeldRows, Ratings
from lowkey.data.readers import frame_columns
from lowkey.data.row_choice import flagged_only, whole_seconds
from lowkey.data.sources import existing_path
from lowkey.data.spoken import Spoken
from lowkey.errors import quotes_nobody, refuse
from lowkey.privacy.closed import Closed
from lowkey.privacy.stream import MOST_SPEAKERS


class TimedRatings(Closed):
    """Rows (user, item, value, time), ordered by user, then time.

    Examples
    --------
    >>> lk.TimedRatings.from_file("r.parquet", domain, user="u", item="i", time="t")  # doctest: +SKIP
    """

    __slots__ = ("_domain", "_items", "_keys", "_offsets", "_times", "_values")

    def __init__(self, domain: Domain, offsets: Ints, items: Any, values: Any, times: Ints, keys: Any) -> None:
        """For the readers: the arrays are taken over unchecked."""
        self._domain, self._offsets, self._items, self._values = domain, offsets, items, values
        self._times, self._keys = times, keys

    @classmethod
    @quotes_nobody
    def from_frame(
        cls,
        frame: Any,
        domain: Domain,
        *,
        user: str,
        item: str,
        time: str,
        rating: str | None = None,
        unknown_items: str = "error",
    ) -> TimedRatings:
        """A pandas, polars or Arrow table. Of a pair of user and item that occurs again, the later one counts."""
        names = timed_names(domain, user, item, rating, time)
        return cls._of(frame_columns(frame, names.as_list()), names, domain, unknown_items)

    @classmethod
    @quotes_nobody
    def from_file(
        cls,
        path: Any,
        domain: Domain,
        *,
        user: str,
        item: str,
        time: str,
        rating: str | None = None,
        unknown_items: str = "error",
        format: str | None = None,
    ) -> TimedRatings:
        """A file of any format that `read_ratings` reads, with a column of times."""
        names = timed_names(domain, user, item, rating, time)
        file = existing_path(path, "ratings file")
        table = read_columns(file, format_of(file, format), names, domain.item_ids.type)
        return cls._of(table, names, domain, unknown_items)

    @classmethod
    def _of(cls, table: Any, names: ColumnNames, domain: Domain, unknown_items: str) -> TimedRatings:
        check_word("unknown_items", unknown_items)
        assert names.time is not None
        if names.flag is not None:
            flagged_only(table, names.flag)
        times = whole_seconds(table.pop(names.time), names.time)
        tidy_columns(table, replace(names, time=None))
        items = catalogue_positions(table.pop(names.item), domain)
        check_known(items, names, unknown_items)
        users, values = encode(table.pop(names.user)), read_values(table, names)
        codes = users.ranks[users.codes]
        if values is not None:
            values = np.array(values)
            check_values(values, domain.scale, f"rating column {names.rating!r}")
        kept = np.flatnonzero(items >= 0)
        order = kept[np.lexsort((times[kept], codes[kept]))]
        counts = np.bincount(codes[order], minlength=len(users.ids))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        sorted_values = None if values is None else values[order]
        return cls(domain, offsets, items[order], sorted_values, times[order], user_keys(users.ids))

    @property
    def domain(self) -> Domain:
        return self._domain

    def _pieces(self, max_users: int) -> Iterator[tuple[Block, Ints]]:
        """Blocks of whole users with their times: for a cluster, which keeps them apart."""
        at = 0
        for block in HeldRows(self._offsets, self._items, self._values, self._keys).blocks(max_users):
            yield block, self._times[at : at + len(block.items)]
            at += len(block.items)

    def _settled(self, calendar: Calendar, release: int, spoken: Spoken) -> tuple[Spoken, list[Ratings]]:
        """Who has spoken once ``release`` is made, and the cohorts 1 ... ``release``, each with the rows of then."""
        settled, speaks = spoken.settled(self._keys, self._by_rule(calendar), release)
        cohorts = [self._cohort(calendar.speak(speaks, s), calendar.time_of(s)) for s in range(1, release + 1)]
        return settled, [Ratings(self._domain, rows) for rows in cohorts]

    def _rebuilt(self, calendar: Calendar, release: int) -> Spoken:
        """Who has spoken up to a release, by the rule alone."""
        return Spoken.rebuilt(self._keys, self._by_rule(calendar), release)

    def _by_rule(self, calendar: Calendar) -> Ints:
        return calendar.speaks_at(self._offsets, self._times)

    def _cohort(self, users: npt.NDArray[Any], until: int) -> HeldRows:
        check_speakers(len(users))
        starts, counts = self._offsets[users], np.diff(self._offsets)[users]
        rows = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(counts.sum())
        owner = np.repeat(np.arange(len(users)), counts)
        then = self._times[rows] <= until
        rows, owner = rows[then], owner[then]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(users)))]).astype(np.int64)
        values = None if self._values is None else self._values[rows]
        return HeldRows(*tidy_rows(offsets, self._items[rows], values, "last", "ratings"), self._keys[users])

    def _public_facts(self) -> str:
        return f"{self._domain.n_items} items, {self._domain.scale}, with times"


def check_speakers(count: int) -> None:
    if count >= MOST_SPEAKERS:
        refuse("stream", got="too many who speak at one release", needed="fewer than four million", try_="shorter periods")


def timed_names(domain: Domain, user: str, item: str, rating: str | None, time: str) -> ColumnNames:
    if domain.scale.counted:
        refuse("ratings with times", got="counts", needed="ratings or binary feedback", try_="feedback='binary'")
    return names_for(domain.scale, user, item, rating, time)
