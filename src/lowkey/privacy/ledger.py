"""Gate room: the append-only, hash-chained record of what was posted, with what noise; it recomputes the guarantee.

One JSON object a line: ``open``, then for every fit a ``plan``, and for every post a ``reserve`` (on disk before the
noise is drawn) and a ``commit`` (after). Every line carries the hash of the line before it; a side file ``.head``
remembers the last line that was written in full. So a changed byte and a cut-off end are both seen, and a line that a
crash left half-written, whose post therefore never happened, is dropped. A reservation counts as spent, committed or not.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowkey.errors import BudgetError, InputError, LedgerError
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.plan import Line, Plan, Price, price

FORMAT = 1
START = "0" * 64
Record = dict[str, Any]


class Ledger:
    """In memory, or durable at ``path``, where several fits and several processes may share it and one ``total``."""

    def __init__(self, path: str | Path | None = None, *, total: tuple[float, float] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.records: list[Record] = []
        self._end = 0  # bytes of the file that are verified
        with self._locked():
            self._catch_up()
            if not self.records:
                self._append({"kind": "open", "format": FORMAT, "total": list(total) if total else None})
            elif total is not None and self.total != tuple(total):
                raise InputError(
                    what=f"the ledger {self.path} has another total",
                    got=f"(epsilon, delta) = {tuple(total)}",
                    needed=f"{self.total}, as when it was opened",
                    try_="leave the total out to use the ledger's own",
                )

    @property
    def total(self) -> tuple[float, float] | None:
        """The (epsilon, delta) that all posts together may not exceed, or None."""
        total = self.records[0]["total"]
        return None if total is None else (total[0], total[1])

    @property
    def head(self) -> str:
        """The hash of the last line: it stands for the whole ledger."""
        return self.records[-1]["hash"] if self.records else START

    # What has been spent ---------------------------------------------------------------------------------------------
    def plans(self) -> list[Plan]:
        return [Plan.from_json(r["plan"]) for r in self.records if r["kind"] == "plan"]

    def spent(self) -> list[Line]:
        """Every post that was reserved, as one line each."""
        return [Line.from_json(r["line"]) for r in self.records if r["kind"] == "reserve"]

    def price(self, delta: float, more: tuple[Line, ...] = ()) -> Price:
        return price((*self.spent(), *more), delta)

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """What holds for everyone in the data, for all posts on this ledger together."""
        plans = self.plans()
        if not plans:
            raise LedgerError(what="no guarantee yet", got="a ledger without a plan", needed="a fit", try_="fit first")
        if delta is None:
            delta = self.total[1] if self.total else max(plan.delta for plan in plans)
        cost = self.price(delta)
        return Guarantee(
            cost.epsilon if all(plan.sound for plan in plans) else math.inf,
            delta,
            cost.mu,
            plans[0].unit,
            plans[0].adjacency,
            tuple(dict.fromkeys(fact for plan in plans for fact in plan.public)),
            tuple(dict.fromkeys(caveat for plan in plans for caveat in plan.caveats)),
            noise_is_private=all(r["noise_is_private"] for r in self.records if r["kind"] == "reserve"),
        )

    # Writing ---------------------------------------------------------------------------------------------------------
    def add_plan(self, plan: Plan) -> None:
        """Announce a fit. Fails before any data is touched if its whole plan does not fit what is left."""
        with self._locked():
            self._catch_up()
            for earlier in self.plans():
                if (earlier.unit, earlier.adjacency) != (plan.unit, plan.adjacency):
                    raise InputError(
                        what="fits that do not compose on one ledger",
                        got=f"unit {plan.unit}, adjacency {plan.adjacency}",
                        needed=f"unit {earlier.unit}, adjacency {earlier.adjacency}, as before",
                        try_="use the same adjacency, or another ledger",
                    )
            self._check_total(tuple(plan.lines))
            self._append({"kind": "plan", "plan": plan.to_json()})

    def reserve(self, line: Line, description: Record, *, noise_is_private: bool) -> int:
        """Put one post on record before it happens. Returns the number of the reservation."""
        one = replace(line, times=1)
        with self._locked():
            self._catch_up()
            self._check_total((one,))
            return self._append(
                {"kind": "reserve", "line": one.to_json(), "statistic": description, "noise_is_private": noise_is_private}
            )

    def commit(self, reservation: int, sha256: str) -> None:
        """Put on record that the post happened, with the hash of the public array."""
        with self._locked():
            self._catch_up()
            self._append({"kind": "commit", "reservation": reservation, "sha256": sha256})

    def _check_total(self, more: tuple[Line, ...]) -> None:
        if self.total is None:
            return
        epsilon, delta = self.total
        if self.price(delta, more).epsilon > epsilon:
            spent = self.price(delta).epsilon
            raise BudgetError(
                what="the budget of these people is used up",
                got=f"{spent:.4g} of epsilon = {epsilon:g} spent at delta = {delta:g}, and this needs more than is left",
                needed="posts that fit the total",
                try_="a smaller epsilon for this fit; what has been spent can't be bought back",
            )

    def _append(self, record: Record) -> int:
        record = {"seq": len(self.records), **record, "prev": self.head}
        record["hash"] = _hash(record)
        if self.path is not None:
            self._write(json.dumps(record, sort_keys=True) + "\n", record)
        self.records.append(record)
        return record["seq"]

    def _write(self, text: str, record: Record) -> None:
        assert self.path is not None
        data = text.encode()
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(file, self._end)  # a torn line of a crashed writer, if any
                written = 0
                while written < len(data):
                    written += os.pwrite(file, data[written:], self._end + written)
                os.fsync(file)
                self._write_head(record)
            except OSError:  # not for an interrupt: if the head is written already, the line must stay
                os.ftruncate(file, self._end)
                raise
            finally:
                os.close(file)
            if record["seq"] == 0:  # the names of new files are on disk only when their folder is
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except OSError as error:
            raise LedgerError(
                what=f"the ledger {self.path} can't be written",
                got=error.strerror or type(error).__name__,
                needed="a disk with room and permission",
                try_="free some space; nothing was posted",
            ) from None
        self._end += len(data)

    def _write_head(self, record: Record) -> None:
        temporary = self._side(".head.new")
        with open(temporary, "w") as file:
            json.dump({"seq": record["seq"], "hash": record["hash"]}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._side(".head"))

    # Reading ---------------------------------------------------------------------------------------------------------
    def _catch_up(self) -> None:
        """Read and verify what other writers have added since."""
        if self.path is None:
            return
        if self.path.exists():
            with open(self.path, "rb") as file:
                if file.seek(0, os.SEEK_END) < self._end:
                    raise _broken("its end is missing")
                file.seek(self._end)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self.records += verify_chain(whole, self.head, len(self.records))
            self._end += len(whole)
        head = self._side(".head")
        if head.exists():
            try:
                known: Record = json.loads(head.read_text())
                intact = (known["seq"], known["hash"]) in {(r["seq"], r["hash"]) for r in self.records[known["seq"] :]}
            except (ValueError, KeyError, TypeError, IndexError):
                intact = False
            if not intact:
                raise _broken("its end is missing or is not what was last written")
        elif len(self.records) > 1:
            raise _broken("its .head file is missing")

    def _side(self, suffix: str) -> Path:
        assert self.path is not None
        return self.path.with_name(self.path.name + suffix)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """One writer at a time, over processes too."""
        if self.path is None:
            yield
            return
        try:
            lock = open(self._side(".lock"), "w")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise LedgerError(
                what=f"the ledger {self.path} can't be opened",
                got=error.strerror or type(error).__name__,
                needed="an existing folder that can be written",
                try_="another path",
            ) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def dumps(self) -> str:
        """The ledger as text, for a release."""
        return "".join(json.dumps(r, sort_keys=True) + "\n" for r in self.records)

    @classmethod
    def loads(cls, text: str | bytes) -> Ledger:
        """A ledger in memory from its text, with the chain checked."""
        ledger = cls()
        ledger.records = verify_chain(text.encode() if isinstance(text, str) else text, START, 0)
        if not ledger.records:
            raise _broken("it is empty")
        return ledger


def verify_chain(text: bytes, previous: str, seq: int) -> list[Record]:
    """Parse lines and check that each is the successor of the one before it."""
    records: list[Record] = []
    for line in text.split(b"\n")[:-1]:
        try:
            record = json.loads(line)
            canonical = json.dumps(record, sort_keys=True).encode()
            good = record["seq"] == seq and record["prev"] == previous and record["hash"] == _hash(record)
        except (ValueError, KeyError, TypeError):
            raise _broken(f"line {seq + 1} can't be read") from None
        if not good or canonical != line:
            raise _broken(f"line {seq + 1} is not what was written")
        records.append(record)
        previous, seq = record["hash"], seq + 1
    if text and not text.endswith(b"\n"):
        raise _broken("its last line is cut")
    return records


def _hash(record: Record) -> str:
    body = {key: value for key, value in record.items() if key != "hash"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _broken(how: str) -> LedgerError:
    return LedgerError(
        what="the ledger is damaged", got=how, needed="the file as it was written", try_="restore it from a copy"
    )
