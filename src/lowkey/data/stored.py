"""Vault room: users' rows on disk, in parts of whole users, streamed with read-ahead.

A part is one file: how many users and entries, then offsets, keys, items and values, one after the other. Only the part in
use and the next one are in memory. The folder is private, like the rows in it, and goes when the rows go.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowkey.data.rows import Block, HeldRows, Rows, check_max_users
from lowkey.data.scratch import Scratch


class StoredRows(Rows):
    """The parts in a scratch folder, in order. `places` (see `over`) is applied as they are read."""

    __slots__ = ("_files", "_places", "_scratch")

    def __init__(self, scratch: Scratch, files: list[Path], places: npt.NDArray[np.int32] | None = None) -> None:
        self._scratch, self._files, self._places = scratch, files, places

    def blocks(self, max_users: int) -> Iterator[Block]:
        check_max_users(max_users)
        for part in read_ahead(self._files, self._read):
            yield from part.blocks(max_users)

    def over(self, places: npt.NDArray[np.int32]) -> StoredRows:
        return StoredRows(self._scratch, self._files, places if self._places is None else places[self._places])

    def state_folder(self) -> Path:
        """Beside the rows: as private, and gone as soon, as they are."""
        return Path(tempfile.mkdtemp(prefix="state-", dir=self._scratch.path))

    def _read(self, file: Path) -> HeldRows:
        rows = read_part(file)
        return rows if self._places is None else rows.over(self._places)


def write_part(
    file: Path,
    offsets: npt.NDArray[np.int64],
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32] | None,
    keys: npt.NDArray[np.uint64],
) -> None:
    head = np.array([len(keys), len(items), values is not None], np.int64)
    with open(file, "wb") as out:
        for array in (head, offsets, keys, items, *([] if values is None else [values])):
            out.write(array.view(np.uint8).data)


def read_part(file: Path) -> HeldRows:
    with open(file, "rb") as stored:

        def array(kind: Any, size: int) -> Any:
            # readinto lets go of Python's lock, which fromfile does not: the next part is read while this one is in use
            out = np.empty(size, kind)
            if stored.readinto(out.view(np.uint8).data) != out.nbytes:
                raise OSError("a part of the scratch folder is shorter than it was written")
            return out

        users, entries, has_values = (int(n) for n in array(np.int64, 3))
        offsets, keys, items = array(np.int64, users + 1), array(np.uint64, users), array(np.int32, entries)
        return HeldRows(offsets, items, array(np.float32, entries) if has_values else None, keys)


def read_ahead(files: list[Path], read: Callable[[Path], HeldRows]) -> Iterator[HeldRows]:
    """The parts one after the other, each being read while the one before it is in use."""
    with ThreadPoolExecutor(1) as pool:
        reading = (pool.submit(read, file) for file in files)  # submitted when asked for
        ahead = next(reading, None)
        while ahead is not None:
            part, ahead = ahead.result(), next(reading, None)
            yield part
            del part  # or it would be held while the next one is waited for
