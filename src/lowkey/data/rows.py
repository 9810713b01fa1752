"""Vault room: users' rows over numbered items, wherever they are held, cut into blocks of whole users.

`Rows` is what the ratings stand on. Held in memory they are `HeldRows`; `stored.py` has rows on disk, `spark_rows.py` rows
on a cluster. Which it is changes no sum: a contribution depends on one user's row and key alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from lowkey.data.assemble import read_only, tidy_rows
from lowkey.data.ids import splitmix64
from lowkey.data.scratch import Scratch
from lowkey.errors import refuse
from lowkey.privacy.closed import Closed

ROW_SEED = np.uint64(0x10_3E7_0F_A_2085)  # the key of an empty row; any number would do
_scrambled: Any = njit(cache=True, nogil=True)(splitmix64)
NO_KEYS = read_only(np.zeros(0, np.uint64))


class Block(NamedTuple):
    """Some whole users. User `u` of the block has the entries `offsets[u]:offsets[u + 1]`."""

    offsets: npt.NDArray[np.int64]  # (n_users + 1,), starts at 0
    items: npt.NDArray[np.int32]  # (n_entries,), catalogue positions, rising within a user
    values: npt.NDArray[np.float32]  # (n_entries,), ratings within the range; all 1 for binary feedback
    keys: npt.NDArray[np.uint64]  # (n_users,), a hash of each user's id or items: seeds per-user draws
    item_keys: npt.NDArray[np.uint64] = NO_KEYS  # (n_items,), a hash of each item's id, where the catalogue is private


class Rows(Closed):
    """Users' rows. For engines and readers only: blocks are bare."""

    __slots__ = ()

    @abstractmethod
    def blocks(self, max_users: int) -> Iterator[Block]:
        """The rows as blocks of at most `max_users` whole users, the same ones in the same order every time."""

    @abstractmethod
    def over(self, places: npt.NDArray[np.int32]) -> Rows:
        """The same users over other items: item `i` becomes `places[i]`, and is left out where that is -1."""

    def whole(self) -> Block:
        """All rows in one block."""
        blocks = list(self.blocks(1 << 40))
        if len(blocks) == 1:
            return blocks[0]
        none = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], [np.zeros(0, np.uint64)]
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(block.offsets) for block in blocks)])
        joined: list[Any] = [np.concatenate([*empty, *(b[at] for b in blocks)]) for at, empty in enumerate(none, 1)]
        return Block(read_only(np.cumsum(counts)), *map(read_only, joined))

    def scratch_for_state(self) -> Scratch | None:
        """Room on disk for what these users keep between passes, None where that is held in memory."""
        return None

    def _public_facts(self) -> str:
        return "users' rows"


class HeldRows(Rows):
    """Users' rows in memory."""

    __slots__ = ("_items", "_keys", "_offsets", "_values")

    def __init__(
        self,
        offsets: npt.NDArray[np.int64],
        items: npt.NDArray[np.int32],
        values: npt.NDArray[np.float32] | None,
        keys: npt.NDArray[np.uint64],
    ) -> None:
        """The arrays are taken over unchecked."""
        self._offsets, self._items, self._keys = read_only(offsets), read_only(items), read_only(keys)
        # binary feedback keeps no values: a block's ones are made when the block is cut
        self._values = None if values is None else read_only(values)

    def blocks(self, max_users: int) -> Iterator[Block]:
        check_max_users(max_users)
        for first in range(0, len(self._keys), max_users):
            yield self._cut(first, min(first + max_users, len(self._keys)))

    def over(self, places: npt.NDArray[np.int32]) -> HeldRows:
        positions = places[self._items]
        kept = positions >= 0
        before = np.concatenate([[0], np.cumsum(kept)])  # entries kept before each entry
        offsets, items = before[self._offsets].astype(np.int64), positions[kept]
        values = None if self._values is None else self._values[kept].copy()
        # items rise within a row here, and in another order there
        return HeldRows(*tidy_rows(offsets, items, values, "error", "ratings"), self._keys)

    def whole(self) -> Block:
        return self._cut(0, len(self._keys))

    def _cut(self, first: int, last: int) -> Block:
        begin, end = self._offsets[first], self._offsets[last]
        values = np.ones(end - begin, np.float32) if self._values is None else self._values[begin:end]
        return Block(
            read_only(self._offsets[first : last + 1] - begin),
            self._items[begin:end],
            read_only(values),
            self._keys[first:last],
        )


def check_max_users(max_users: int) -> None:
    if max_users < 1:
        refuse("max_users", got="less than one", needed="at least one user per block", try_="max_users=1000")


def row_keys(offsets: npt.NDArray[np.int64], items: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
    """One 64-bit key per row, for users who have no id: a hash of its items, which rise within the row.

    What is drawn for a user must not change when somebody else comes or goes. A row number does: everybody behind a user
    who leaves moves up. The items of the own row do not, in whatever order the rows stand. They are counted in catalogue
    order, so a row has the same key wherever it was read. Two users with the same items share a key, and so what is drawn
    for them: each still adds what follows from the own row, the own key and public values alone, which is all that a bound
    rests on. Ratings have no part in the key: where positions are public and values are protected, the key is public.
    """
    keys: Any = _row_keys(offsets, items)
    return keys


@njit(cache=True, nogil=True)
def _row_keys(offsets, items):
    keys = np.empty(len(offsets) - 1, np.uint64)
    for u in range(len(keys)):
        key = ROW_SEED
        for at in range(offsets[u], offsets[u + 1]):
            key = _scrambled(key ^ _scrambled(np.uint64(items[at])))
        keys[u] = key
    return keys
