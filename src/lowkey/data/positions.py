"""Vault room: who rated what, as a public fact, for methods that protect the values of ratings and not their places.

Asking for the positions of `Ratings` declares them public; the values stay closed. Only methods whose unit is
a rating value, or a user's row of values, do so, and they say it beside their epsilon.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Block, Ratings
from lowkey.errors import refuse


class Positions:
    """The observed cells, user by user. Some may be left out (`capped`); the others are numbered: their slots."""

    def __init__(
        self,
        n_items: int,
        offsets: npt.NDArray[np.int64],
        items: npt.NDArray[np.int32],
        keys: npt.NDArray[np.uint64],
        kept: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.n_items, self._offsets, self._items, self._keys = n_items, offsets, items, keys
        self._kept = np.ones(len(items), np.bool_) if kept is None else kept

    @classmethod
    def of(cls, ratings: Ratings) -> Self:
        """Declare the positions of these ratings public."""
        whole = ratings._open_whole()
        return cls(ratings.domain.n_items, whole.offsets, whole.items, whole.keys)

    def capped(self, most: int) -> Self:
        """At most `most` cells of each user, chosen by a hash of user and item: the values have no say in it."""
        if most < 1:
            refuse("max_ratings", got=repr(most), needed="1 or more", try_="max_ratings=50")
        rows = np.repeat(np.arange(self.n_users), np.diff(self._offsets))
        order = np.lexsort((splitmix64(self._keys[rows] ^ splitmix64(self._items.astype(np.uint64))), rows))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - self._offsets[rows]
        return type(self)(self.n_items, self._offsets, self._items, self._keys, place < most)

    @property
    def n_users(self) -> int:
        return len(self._keys)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_users, self.n_items

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many cells each user has among the slots."""
        sums = np.concatenate([[0], np.cumsum(self._kept)])
        return sums[self._offsets[1:]] - sums[self._offsets[:-1]]

    @cached_property
    def cells(self) -> npt.NDArray[np.int64]:
        """The slots' places in the flattened (n_users, n_items) matrix."""
        rows = np.repeat(np.arange(self.n_users, dtype=np.int64), np.diff(self._offsets))
        return (rows * self.n_items + self._items)[self._kept]

    @cached_property
    def _slots(self) -> npt.NDArray[np.int64]:
        return np.where(self._kept, np.cumsum(self._kept) - 1, -1)

    @cached_property
    def _by_key(self) -> npt.NDArray[np.int64]:
        return np.argsort(self._keys, kind="stable")

    @cached_property
    def keys_differ(self) -> bool:
        """Whether no two users with cells share a key. If some do, `slots` needs these in one block."""
        keys = self._keys[np.diff(self._offsets) > 0]
        return len(np.unique(keys)) == len(keys)

    def slots(self, block: Block) -> npt.NDArray[np.int64]:
        """The slot of every entry of a block, -1 if left out.

        A user is found by key, not by place in the data; users who share a key, in the order in which they stand.
        """
        rows = self._rows_of(block)
        starts = self._offsets[rows]
        counts = np.diff(block.offsets)
        entries = np.repeat(starts - block.offsets[:-1], counts) + np.arange(block.offsets[-1])
        same = np.array_equal(self._offsets[rows + 1] - starts, counts) and np.array_equal(
            self._items[entries], block.items
        )
        if not same or not np.array_equal(self._keys[rows], block.keys):
            raise TypeError("the positions are those of other data: take Positions.of the ratings that are swept")
        return self._slots[entries]

    def _rows_of(self, block: Block) -> npt.NDArray[np.int64]:
        order = np.argsort(block.keys, kind="stable")
        ranked, known = block.keys[order], self._keys[self._by_key]
        nth = np.empty(len(order), np.int64)  # how many users before this one in the block have the same key
        nth[order] = np.arange(len(order)) - np.searchsorted(ranked, ranked)
        here, there = (
            np.searchsorted(keys, block.keys, "right") - np.searchsorted(keys, block.keys) for keys in (ranked, known)
        )
        if np.any((here != there) & (np.diff(block.offsets) > 0)):
            raise TypeError("users who share a key are not all in this block: LocalEngine(block_size=n_users)")
        return self._by_key[np.minimum(np.searchsorted(known, block.keys) + nth, self.n_users - 1)]
