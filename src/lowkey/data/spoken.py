"""Vault room: who has spoken in a stream, and at which release: kept between releases, private, and decisive.

Users are under hashes with a key of the stream's own. A record stays when a user's data are erased, so that nobody comes
back and speaks a second time. The file is written whole or not at all, before the parts of its release are posted; its size
does not tell how many have spoken. It has the head of the public ledger at that time: a state that is old, damaged, or of
another stream or another copy of the ledger is refused. (Nothing of it goes into the ledger, not even a hash: that would be
a release.)
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from hashlib import shake_256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowkey.errors import LedgerError
from lowkey.privacy.chain import Head, whole_file
from lowkey.privacy.closed import Closed
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.noise import secret_bytes

FILE = "spoken.npz"
ROOM = 1 << 16  # users: the file has room for so many, or for a power of two of them; the rest of it is random
Ints = npt.NDArray[np.int64]


class Spoken(Closed):
    """Of each user who has spoken, a hash and the release. ``release`` is the last one that it was settled for."""

    __slots__ = ("_marks", "_secret", "release")

    def __init__(self, secret: bytes, marks: dict[bytes, int], release: int) -> None:
        self._secret, self._marks, self.release = secret, marks, release

    @classmethod
    def fresh(cls) -> Spoken:
        return cls(secret_bytes(32), {}, 0)

    @classmethod
    def rebuilt(cls, keys: npt.NDArray[np.uint64], by_rule: Ints, release: int) -> Spoken:
        """The state after a release, where it is lost: by the rule alone."""
        spoken = cls.fresh()
        for s in range(1, release + 1):
            spoken, _ = spoken.settled(keys, by_rule, s)
        return spoken

    def settled(self, keys: npt.NDArray[np.uint64], by_rule: Ints, release: int) -> tuple[Spoken, Ints]:
        """When everybody speaks: as was recorded; else by the rule, though not before ``release``, which is being made."""
        hashes = [self._hash(key) for key in keys.tolist()]
        found = np.array([self._marks.get(mark, -1) for mark in hashes], np.int64)
        speaks = np.where(found >= 0, found, np.maximum(by_rule, release))
        new = {hashes[u]: release for u in np.flatnonzero((found < 0) & (speaks == release)).tolist()}
        return Spoken(self._secret, {**self._marks, **new}, max(self.release, release)), speaks

    def _hash(self, key: int) -> bytes:
        return hashlib.blake2b(key.to_bytes(8, "little"), digest_size=16, key=self._secret).digest()

    # On disk ---------------------------------------------------------------------------------------------------------
    def write(self, folder: Path, stream: str, ledger: Ledger) -> None:
        room = max(ROOM, 1 << (len(self._marks) - 1).bit_length()) - len(self._marks)
        filled = {**self._marks, **dict.fromkeys(_pieces(shake_256(secret_bytes(32)).digest(16 * room)), 0)}
        order = sorted(filled)
        marks = np.frombuffer(b"".join(order), np.uint8).reshape(-1, 16)
        releases = np.array([filled[mark] for mark in order], np.int64)
        facts = {"stream": stream, "release": self.release, "head": ledger.fingerprint}
        arrays = {"secret": np.frombuffer(self._secret, np.uint8), "marks": marks, "releases": releases}
        facts["check"] = _check(facts, arrays)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            with whole_file(folder / FILE) as file:
                np.savez(file, facts=np.array(json.dumps(facts)), **arrays)
        except OSError as error:
            raise LedgerError(
                what="the private state of this stream can't be written",
                got=error.strerror or type(error).__name__,
                needed="a disk with room and permission",
                try_="the same again, with room: nothing of this release was posted",
            ) from None

    @classmethod
    def read(cls, folder: Path, stream: str, ledger: Ledger) -> Spoken:
        """The state after the last release that the ledger has, or of one that was begun."""
        made = ledger.parts(stream).complete
        path = folder / FILE
        if not path.exists():
            if made:
                raise _refused("none")
            return cls.fresh()
        try:
            if sum(part.file_size for part in zipfile.ZipFile(path).filelist) > path.stat().st_size:
                raise ValueError("it was written without compression")
            with np.load(path, allow_pickle=False) as held:
                facts: dict[str, Any] = json.loads(str(held["facts"]))
                arrays = {name: held[name] for name in ("secret", "marks", "releases")}
            whole = facts.pop("check") == _check(facts, arrays)
        except Exception:
            raise _refused("one that is damaged") from None
        if not whole:
            raise _refused("one that is damaged")
        if facts["stream"] != stream:
            raise _refused("that of another stream")
        if not Head.parse(facts["head"]).is_in(ledger.records):
            raise _refused("that of another copy of the ledger")
        if facts["release"] not in (made, made + 1):
            raise _refused("an old one" if facts["release"] < made else "one that is ahead of the ledger")
        used = np.flatnonzero(arrays["releases"])
        marks = dict(zip(_pieces(arrays["marks"][used].tobytes()), arrays["releases"][used].tolist(), strict=True))
        return cls(arrays["secret"].tobytes(), marks, facts["release"])

    def _public_facts(self) -> str:
        return f"release {self.release}"


def _pieces(data: bytes) -> list[bytes]:
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def _check(facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _refused(got: str) -> LedgerError:
    return LedgerError(
        what="the private state of this stream",
        got=got,
        needed="the state as it was when the last release was made: it says who has spoken",
        try_="the latest copy of the folder; or rebuild=True, sound if ratings were only added since",
    )
