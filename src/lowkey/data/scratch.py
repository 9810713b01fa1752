"""Vault room: a folder for private rows that do not fit in memory: its owner's alone, and gone afterwards.

It has mode 0700, lies next to the data (where such data may lie already) unless the caller names another place, and is
removed when the rows are let go of, at the latest when the process ends. A process that is killed cannot tidy up: what it
left is removed by the next one that works in the same place, which knows it by a lock that nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lowkey.errors import InputError

PREFIX = ".lowkey-scratch-"
LOCK = "lock"


class Scratch:
    """A private folder at `path`. `place` is the folder in which it is made."""

    def __init__(self, place: Path) -> None:
        remove_leftovers(place)
        try:
            made = Path(tempfile.mkdtemp(prefix=".lowkey-new-", dir=place))  # mode 0700
        except OSError as error:
            raise InputError(
                what=f"scratch folder in {str(place)!r}",
                got=error.strerror or type(error).__name__,
                needed="a place on disk where private rows may be written for the time of the fit",
                try_="scratch='/a/private/disk'",
            ) from None
        # Locked before it has its name: whoever sees the name finds the lock held.
        self._lock = os.open(made / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = made.rename(made.with_name(made.name.replace(".lowkey-new-", PREFIX)))
        self._remove = weakref.finalize(self, _remove, self.path, self._lock, os.getpid())

    def remove(self) -> None:
        """Now, rather than when nobody needs it any more."""
        self._remove()


@contextmanager
def kept_if_done(scratch: Scratch) -> Generator[Scratch]:
    """Removed at once if what fills it fails or is interrupted."""
    try:
        yield scratch
    except BaseException:
        scratch.remove()
        raise


def scratch_place(asked: str | Path | None, data: Path) -> Path:
    """The place asked for; else next to the data where that can be written, or wherever temporary files go."""
    beside = data.resolve().parent
    if asked is not None:
        return Path(asked)
    return beside if os.access(beside, os.W_OK) else Path(tempfile.gettempdir())


def remove_leftovers(place: Path) -> None:
    """Folders of processes that died."""
    for folder in place.glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR)
        except OSError:
            continue  # somebody else's, or just being removed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # in use
        finally:
            os.close(lock)


def _remove(path: Path, lock: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has the folder too, and must leave it
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
