"""Vault room: users' rows on disk, in parts of whole users, streamed with read-ahead.

A part is how many users and entries there are, then offsets, keys, items and values, one after the other in a scratch file.
Only the part in use and the next one are in memory. The file has no name, and goes when the rows go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from lowkey.data.ratings import Block, HeldRows, Rows, check_max_users
from lowkey.data.scratch import Scratch


class StoredRows(Rows):
    """The parts in a scratch file, in order. `places` (see `over`) is applied as they are read."""

    __slots__ = ("_begins", "_places", "_scratch")

    def __init__(self, scratch: Scratch, parts: list[int], places: npt.NDArray[np.int32] | None = None) -> None:
        self._scratch, self._begins, self._places = scratch, parts, places

    def blocks(self, max_users: int) -> Iterator[Block]:
        check_max_users(max_users)
        for part in read_ahead(self._begins, self._read):
            yield from part.blocks(max_users)

    def over(self, places: npt.NDArray[np.int32]) -> StoredRows:
        return StoredRows(self._scratch, self._begins, places if self._places is None else places[self._places])

    def scratch_for_state(self) -> Scratch:
        """Beside the rows: as private, and gone as soon, as they are."""
        return Scratch(self._scratch.place)

    def _read(self, part: int) -> HeldRows:
        rows = read_part(self._scratch, part)
        return rows if self._places is None else rows.over(self._places)


def write_part(
    scratch: Scratch,
    offsets: npt.NDArray[np.int64],
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32] | None,
    keys: npt.NDArray[np.uint64],
) -> int:
    """Returns where the part is."""
    head = np.array([len(keys), len(items), values is not None], np.int64)
    return scratch.append([head, offsets, keys, items, *([] if values is None else [values])])


def read_part(scratch: Scratch, at: int) -> HeldRows:
    def array(kind: Any, size: int) -> Any:
        nonlocal at
        out = scratch.read(at, np.empty(size, kind))
        at += out.nbytes
        return out

    users, entries, has_values = (int(n) for n in array(np.int64, 3))
    offsets, keys, items = array(np.int64, users + 1), array(np.uint64, users), array(np.int32, entries)
    return HeldRows(offsets, items, array(np.float32, entries) if has_values else None, keys)


def read_ahead(parts: list[int], read: Callable[[int], HeldRows]) -> Iterator[HeldRows]:
    """The parts one after the other, each being read while the one before it is in use."""
    with ThreadPoolExecutor(1) as pool:
        reading = (pool.submit(read, part) for part in parts)  # submitted when asked for
        ahead = next(reading, None)
        while ahead is not None:
            part, ahead = ahead.result(), next(reading, None)
            yield part
            del part  # or it would be held while the next one is waited for
