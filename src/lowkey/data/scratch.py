"""Vault room: disk for private rows that do not fit in memory: a file without a name.

It is made in a place next to the data (where such data may lie already) unless the caller names another, and has no name
from the first byte on. So there is nothing to tidy up: when the rows are let go of, and when the process ends or is killed,
however, the operating system has the space back. (What a loss of power leaves is free space that was not wiped.)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import InputError


class Scratch:
    """Arrays in a nameless file in the folder ``place``, one after the other. Reading is safe among threads and forks."""

    def __init__(self, place: Path) -> None:
        self.place, self._end = place, 0
        try:
            # Held for as long as the rows are. Mode 0600 until it is nameless.
            self._file = tempfile.TemporaryFile(buffering=0, prefix=".lowkey-", dir=place)  # noqa: SIM115
        except OSError as error:
            raise InputError(
                what=f"scratch file in {str(place)!r}",
                got=error.strerror or type(error).__name__,
                needed="a place on disk where private rows may be written for the time of the fit",
                try_="scratch='/a/private/disk'",
            ) from None

    def append(self, arrays: Iterable[NDArray[Any]]) -> int:
        """Write arrays; returns where the first one begins."""
        begin = self._end
        for array in arrays:
            data = memoryview(array.reshape(-1).view(np.uint8).data)
            while data:
                written = os.pwrite(self._file.fileno(), data, self._end)
                data, self._end = data[written:], self._end + written
        return begin

    def read(self, at: int, out: NDArray[Any]) -> NDArray[Any]:
        """Fill an array from a place on."""
        rest = memoryview(out.reshape(-1).view(np.uint8).data)
        while rest:  # preadv lets go of Python's lock: the next part is read while this one is in use
            count = os.preadv(self._file.fileno(), [rest], at)
            if count == 0:
                raise OSError("the scratch file is shorter than it was written")
            rest, at = rest[count:], at + count
        return out

    def close(self) -> None:
        """Now, rather than when nobody needs it any more."""
        self._file.close()


@contextmanager
def kept_if_done(scratch: Scratch) -> Generator[Scratch]:
    """Given back at once if what fills it fails or is interrupted."""
    try:
        yield scratch
    except BaseException:
        scratch.close()
        raise


def scratch_place(asked: str | Path | None, data: Path) -> Path:
    """The place asked for; else next to the data where that can be written, or wherever temporary files go."""
    beside = data.resolve().parent
    if asked is not None:
        return Path(asked)
    return beside if os.access(beside, os.W_OK) else Path(tempfile.gettempdir())
