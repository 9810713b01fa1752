"""Gate room: a ledger's file: the chain of its lines, and the locks on it.

Each line carries the hash of the one before it, the last one is the head. A ledger that holds a line holds everything
before it as it was. One without it is behind: an old copy, or another one. An anchor is a head that is kept where the
ledger is not: what tells a restored old copy from the real one.

Locks are of byte ranges far beyond the end of the file, whatever it is called: one writer at a time, and plans that
are held. They belong to an open file and end with it: no process that was killed leaves one behind, two names of one
file (links) lead to one lock, and nothing is truncated to take one. Where the operating system has none of these (it
is not Linux), one writer at a time remains, and plans are not held.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import stat
import struct
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lowkey.errors import LedgerError, refuse

Record = dict[str, Any]
LEDGER = "ledger.jsonl"  # of a folder that has its own: a release, a stream, posts that are paid for
MAX_LINE = 1 << 22  # bytes


@dataclass(frozen=True)
class Head:
    """A line's hash, which stands for all lines up to it, and its number, which may be left out."""

    seq: int | None
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        seq, _, digest = text.strip().rpartition(":")
        if not ((seq.isdecimal() or not seq) and re.fullmatch("[0-9a-f]{64}", digest)):
            refuse("expect_head", got="something else", needed="NUMBER:HASH or HASH", try_="what `lowkey ledger head` says")
        return cls(int(seq) if seq else None, digest)

    @classmethod
    def read(cls, path: Path) -> Head | None:
        """The head in a file, or None where it can't be understood."""
        try:
            known = json.loads(path.read_text("utf-8"))
            return cls(int(known["seq"]), str(known["hash"]))
        except (ValueError, KeyError, TypeError):
            return None

    def is_in(self, records: Sequence[Record]) -> bool:
        if self.seq is None:
            return any(record["hash"] == self.hash for record in records)
        return 0 <= self.seq < len(records) and records[self.seq]["hash"] == self.hash

    def check(self, records: Sequence[Record]) -> None:
        """Refuse a ledger that never had this head."""
        if not self.is_in(records):
            raise LedgerError(
                what="the ledger is behind, or is another one",
                got=f"{len(records)} lines without the one that was kept as its head",
                needed="the ledger with everything that was spent since",
                try_="the latest copy; an older one would spend the same budget twice",
            )


def write_head(path: Path, record: Record) -> None:
    """Anybody who may read the ledger may read it. An older one under its name is behind, and still a head."""
    with whole_file(path, path.with_name(path.name + ".new"), mode=0o666, sync_name=False) as file:
        file.write(json.dumps({"seq": record["seq"], "hash": record["hash"]}).encode())


@contextmanager
def whole_file(path: Path, draft: Path | None = None, *, mode: int = 0o600, sync_name: bool = True) -> Generator[BinaryIO]:
    """A file that is there complete and on disk, or not at all. It is drafted beside its place."""
    draft = path.with_name(f".{path.name}.incomplete") if draft is None else draft
    with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode), "r+b") as file:
        yield file
        file.truncate()  # of an older draft, or of room that was made for this one
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    if sync_name:
        sync(path.parent)


def write_line(file: int, end: int, data: bytes, then: Callable[[], None]) -> None:
    """At the end, on disk, and what follows from it done; or none of it."""
    try:
        os.ftruncate(file, end)  # a torn line of a crashed writer, if any
        written = 0
        while written < len(data):
            written += os.pwrite(file, data[written:], end + written)
        os.fsync(file)
        then()
    except OSError:  # not for an interrupt: if the head is written already, the line must stay
        os.ftruncate(file, end)
        raise


def sync(path: Path) -> None:
    """A file, or the names in a folder, to the disk: what was announced must not be lost with the power."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def verify_chain(text: bytes, previous: str, seq: int) -> list[Record]:
    """Parse lines and check that each is the successor of the one before it."""
    records: list[Record] = []
    for line in text.split(b"\n")[:-1]:
        if len(line) > MAX_LINE:
            raise broken(f"line {seq + 1} is longer than any that is written")
        try:
            record = json.loads(line)
            canonical = json.dumps(record, sort_keys=True).encode()
            good = record["seq"] == seq and record["prev"] == previous and record["hash"] == record_hash(record)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise broken(f"line {seq + 1} can't be read") from None
        if not good or canonical != line:
            raise broken(f"line {seq + 1} is not what was written")
        records.append(record)
        previous, seq = record["hash"], seq + 1
    if text and not text.endswith(b"\n"):
        raise broken("its last line is cut")
    return records


def record_hash(record: Record) -> str:
    body = {key: value for key, value in record.items() if key != "hash"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def broken(how: str) -> LedgerError:
    return LedgerError(
        what="the ledger is damaged",
        got=how,
        needed="the file as it was written",
        try_="the latest copy; an older one gives back what was spent",
    )


class Anchor:
    """A file with a ledger's last head, outside the folder that a backup of the ledger brings back."""

    def __init__(self, path: Path, ledger: Path | None) -> None:
        if ledger is None:
            refuse("anchor", got="a ledger in memory", needed="a ledger on disk", try_="Ledger(path, anchor=…)")
        if path.resolve().is_relative_to(ledger.resolve().parent):
            refuse(
                "anchor",
                got="a file in the ledger's own folder, which is restored together with it",
                needed="another folder, better another machine",
                try_="a path elsewhere",
            )
        self.path = path

    def check(self, records: Sequence[Record]) -> None:
        """Refuse a ledger that is behind. Only a ledger that is new may have no anchor yet."""
        if not self.path.exists():
            if len(records) > 1:
                raise LedgerError(
                    what=f"the anchor {self.path} is missing",
                    got="a ledger that has lines already",
                    needed="the anchor that was kept for it",
                    try_="lowkey ledger head LEDGER --to ANCHOR, if you know that this ledger is the latest",
                )
            return
        known = Head.read(self.path)
        if known is None:
            raise LedgerError(
                what=f"the anchor {self.path}", got="something else", needed="a ledger's head", try_="the anchor as it was"
            )
        known.check(records)

    def move(self, record: Record) -> None:
        try:
            write_head(self.path, record)
        except OSError as error:
            raise LedgerError(
                what=f"the anchor {self.path} can't be written",
                got=error.strerror or type(error).__name__,
                needed="an existing folder that can be written",
                try_="the same again later; what was reserved counts, and nothing was posted",
            ) from None


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
