"""Gate room: the append-only, hash-chained record of what was posted, with what noise; it recomputes the guarantee.

One JSON object a line: ``open``, then for every fit a ``plan``, and for every post a ``reserve`` (on disk before the
noise is drawn) and a ``commit`` (after). A stream is reserved once, and each of its posts is a ``part`` and a ``commit``
(parts.py). Every line carries the hash of the line before it; a side file ``.head`` remembers the last line that was
written in full. So a changed byte and a cut-off end are both seen, and a line that a crash left half-written, whose post
therefore never happened, is dropped. A reservation counts as spent, committed or not.

An old copy of ledger and ``.head`` together is a whole ledger, and whoever restores it gets the budget back. Only what was
written down elsewhere can tell: ``expect_head``, or an ``anchor`` file outside the ledger's folder (anchor.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowkey.errors import BudgetError, InputError, LedgerError
from lowkey.privacy.anchor import Anchor
from lowkey.privacy.chain import Head, Record, broken, record_hash, verify_chain, write_head
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.parts import Parts
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import Price, price

FORMAT = 1
START = "0" * 64
ODOMETER = (
    "This ledger has no total and holds {plans} plans. If a later one was chosen after seeing what an earlier one posted, "
    "epsilon is an odometer, what was spent so far, and no bound that was fixed before; a ledger with a total has one."
)


class Ledger:
    """In memory, or durable at ``path``, where several fits and several processes may share it and one ``total``.

    ``expect_head`` is a head that this ledger once had: one without it is refused. ``anchor`` is a file in another folder
    that keeps the last head: checked before every line and moved on after it.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        total: tuple[float, float] | None = None,
        expect_head: str | None = None,
        anchor: str | Path | None = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        self.records: list[Record] = []
        self._end = 0  # bytes of the file that are verified
        self._threads = threading.RLock()
        self._anchor = None if anchor is None else Anchor(Path(anchor), self.path)
        with self._locked():
            self._catch_up()
            if expect_head is not None:
                Head.parse(expect_head).check(self.records)
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

    @property
    def fingerprint(self) -> str:
        """The head with its number, to be kept elsewhere and given back as ``expect_head``."""
        return str(Head(len(self.records) - 1, self.head))

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
        for plan in plans[1:]:
            _check_units(plans[0], plan)  # 0.1 let some through that differ
        if delta is None:
            delta = self.total[1] if self.total else max(plan.delta for plan in plans)
        cost = self.price(delta)
        caveats = dict.fromkeys(caveat for plan in plans for caveat in plan.caveats)
        if self.total is None and len(plans) > 1:
            caveats[ODOMETER.format(plans=len(plans))] = None
        return Guarantee(
            cost if all(plan.sound for plan in plans) else cost.never(),
            plans[0].unit,
            tuple(dict.fromkeys(fact for plan in plans for fact in plan.public)),
            tuple(caveats),
            noise_is_private=all(r["noise_is_private"] for r in self.records if r["kind"] in ("reserve", "part")),
        )

    # Writing ---------------------------------------------------------------------------------------------------------
    def add_plan(self, plan: Plan) -> None:
        """Announce a fit. Fails before any data is touched if its whole plan does not fit what is left."""
        with self._locked():
            self._catch_up()
            for earlier in self.plans():
                _check_units(earlier, plan)
                if (
                    plan.schedule is not None
                    and earlier.schedule is not None
                    and earlier.schedule.name == plan.schedule.name
                ):
                    raise broken("a stream of this name is booked on it already")
            self._check_total(tuple(plan.lines))
            self._append({"kind": "plan", "plan": plan.to_json()})
            if plan.schedule is not None:  # in full, whatever comes of it
                booked = {"stream": plan.schedule.name, "releases": plan.schedule.horizon}
                for line in plan.lines:
                    self._append({"kind": "reserve", "line": line.to_json(), "statistic": booked, "noise_is_private": True})

    def reserve(self, line: Line, description: Record, *, noise_is_private: bool) -> int:
        """Put one post on record before it happens. Returns the number of the reservation."""
        one = replace(line, times=1)
        with self._locked():
            self._catch_up()
            self._check_total((one,))
            return self._append(
                {"kind": "reserve", "line": one.to_json(), "statistic": description, "noise_is_private": noise_is_private}
            )

    def parts(self, stream: str) -> Parts:
        """What was posted of a stream so far."""
        with self._locked():
            self._catch_up()
            return Parts.of(self.records, stream)

    def reserve_part(self, line: Line, stream: str, release: int, description: Record, *, noise_is_private: bool) -> int:
        """Put one post of a stream on record before it happens. It is paid for: the stream is."""
        with self._locked():
            self._catch_up()
            Parts.of(self.records, stream).check_next(line.name, release)
            return self._append(
                {
                    "kind": "part",
                    "stream": stream,
                    "name": line.name,
                    "release": release,
                    "statistic": description,
                    "noise_is_private": noise_is_private,
                }
            )

    def commit(self, reservation: int, sha256: str) -> None:
        """Put on record that the post happened, with the hash of the public array."""
        with self._locked():
            self._catch_up()
            if self.records[reservation]["kind"] == "part":
                Parts.of(self.records, self.records[reservation]["stream"]).check_commit(reservation)
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
        record["hash"] = record_hash(record)
        if self.path is not None:
            self._write(json.dumps(record, sort_keys=True) + "\n", record)
        self.records.append(record)
        if self._anchor is not None:  # after the line: an anchor that is behind its ledger is no contradiction
            self._anchor.move(record)
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
                write_head(self._side(".head"), record)
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

    # Reading ---------------------------------------------------------------------------------------------------------
    def _catch_up(self) -> None:
        """Read and verify what other writers have added since."""
        if self.path is None:
            return
        if self.path.exists():
            with open(self.path, "rb") as file:
                if file.seek(0, os.SEEK_END) < self._end:
                    raise broken("its end is missing")
                file.seek(self._end)
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self.records += verify_chain(whole, self.head, len(self.records))
            self._end += len(whole)
        head = self._side(".head")
        if head.exists():
            known = Head.read(head)
            if known is None or not known.is_in(self.records):
                raise broken("its end is missing or is not what was last written")
        elif len(self.records) > 1:
            raise broken("its .head file is missing")
        if self._anchor is not None:
            self._anchor.check(self.records)

    def _side(self, suffix: str) -> Path:
        assert self.path is not None
        return self.path.with_name(self.path.name + suffix)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """One writer at a time, over threads and over processes."""
        with self._threads:
            if self.path is None:
                yield
                return
            with self._file_lock():
                yield

    @contextmanager
    def _file_lock(self) -> Generator[None]:
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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_threads"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _threads=threading.RLock())

    def dumps(self) -> str:
        """The ledger as text, for a release."""
        return "".join(json.dumps(r, sort_keys=True) + "\n" for r in self.records)

    @classmethod
    def loads(cls, text: str | bytes) -> Ledger:
        """A ledger in memory from its text, with the chain checked."""
        ledger = cls()
        ledger.records = verify_chain(text.encode() if isinstance(text, str) else text, START, 0)
        if not ledger.records:
            raise broken("it is empty")
        return ledger


def _check_units(earlier: Plan, plan: Plan) -> None:
    if earlier.unit != plan.unit:
        raise InputError(
            what="fits that do not compose on one ledger",
            got=f"{plan.method}, which protects {plan.unit}",
            needed=f"{earlier.unit}, as {earlier.method} before",
            try_="the same unit and adjacency, or another ledger",
        )
