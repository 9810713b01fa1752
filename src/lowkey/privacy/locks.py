"""Gate room: locks on a ledger's file itself, whatever it is called: one writer at a time, and plans that are held.

They are locks of byte ranges far beyond the end of the file, which belong to an open file and end with it: no process
that was killed leaves one behind, two names of one file (links) lead to one lock, and nothing is truncated to take one.
Where the operating system has none of these (it is not Linux), one writer at a time remains, and plans are not held.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lowkey.errors import LedgerError

WRITER, HOLDS = 1 << 40, 1 << 41  # places in the file
OWNED_BY_THE_OPEN_FILE = hasattr(fcntl, "F_OFD_SETLKW")


def open_ledger(path: Path) -> int:
    """The file at a path, made if there is none. Never one that is not a plain file."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(0, "not a plain file")
    return file


@contextmanager
def one_writer(path: Path) -> Generator[int]:
    """The ledger's file, open and locked: the one that has this name now, not one that was moved away while we waited."""
    file = -1
    try:
        while file < 0:
            file = open_ledger(path)
            _lock(file, WRITER, wait=True)
            if not os.path.samestat(os.fstat(file), os.stat(path)):
                os.close(file)
                file = -1
    except OSError as error:
        if file >= 0:
            os.close(file)
        raise LedgerError(
            what=f"the ledger {path} can't be opened",
            got=error.strerror or type(error).__name__,
            needed="a plain file in an existing folder that can be written",
            try_="another path",
        ) from None
    try:
        yield file
    finally:
        os.close(file)


class Hold:
    """What a plan has not posted yet is kept for it as long as this lives; it ends with its owner, killed or not."""

    def __init__(self, path: Path | None, seq: int) -> None:
        self.seq = seq
        file = -1 if path is None else open_ledger(path)
        if file >= 0 and OWNED_BY_THE_OPEN_FILE:
            _lock(file, HOLDS + seq, wait=False)
        self.end = weakref.finalize(self, _close, file)

    @property
    def lives(self) -> bool:
        return self.end.alive


def is_held(file: int, seq: int) -> bool:
    """Whether somebody, in this process or another, holds the plan of this line."""
    if not OWNED_BY_THE_OPEN_FILE:
        return False
    answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, HOLDS + seq))
    return struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK


def _lock(file: int, place: int, *, wait: bool) -> None:
    if OWNED_BY_THE_OPEN_FILE:
        fcntl.fcntl(file, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, place))
    elif wait:
        fcntl.flock(file, fcntl.LOCK_EX)


def _flock(kind: int, place: int) -> bytes:
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)


def _close(file: int) -> None:
    if file >= 0:
        os.close(file)
