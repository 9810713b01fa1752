"""Gate room: the append-only, hash-chained record of what was posted, with what noise; it recomputes the guarantee.

One JSON object a line: ``open``, then for every fit a ``plan``, and for every post a ``reserve`` (on disk before the
noise is drawn) and a ``commit`` (after). A stream is reserved once, and each of its posts is a ``part`` and a ``commit``
(parts.py). A plan is announced only if all of it fits beside what others have announced and still hold: of two that race
for the last of a budget, the first gets it and the second spends nothing. Every line carries the hash of the line before
it; a side file ``.head`` remembers the last line that was written in full. So a changed byte and a cut-off end are both
seen, and a line that a crash left half-written, whose post therefore never happened, is dropped. A reservation counts as
spent, committed or not.

An old copy of ledger and ``.head`` together is a whole ledger, and whoever restores it gets the budget back. Only what was
written down elsewhere can tell: ``expect_head``, or an ``anchor`` file outside the ledger's folder (chain.py). The
``open`` line has an id of its own, so that no two ledgers share a head.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
import weakref
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowkey.errors import BudgetError, LedgerError, refuse
from lowkey.privacy.book import START, Book, check_units, held_lines
from lowkey.privacy.chain import (
    Anchor,
    Head,
    Hold,
    Record,
    broken,
    is_held,
    one_writer,
    record_hash,
    sync,
    verify_chain,
    write_head,
    write_line,
)
from lowkey.privacy.kept import Paid
from lowkey.privacy.parts import Parts
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.stream import Schedule

FORMAT = 1
UNWRITTEN = {
    "reserve": "nothing was posted, and its reservation counts if the disk kept it",
    "commit": "the post was made and counts, though nobody sees it",
}


class Ledger(Book):
    """In memory, or durable at ``path``, where several fits and several processes may share it and one ``total``.

    Parameters
    ----------
    path, total : path, (epsilon, delta), optional
        The file, which is made if it does not exist, and what all posts together may not exceed.
    expect_head, anchor : str, path, optional
        A head that this ledger once had; a file in another folder that keeps the last one. A ledger without it is refused.

    Examples
    --------
    >>> lk.Ledger("people.jsonl", total=(4.0, 1e-6)).guarantee()  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        total: tuple[float, float] | None = None,
        expect_head: str | None = None,
        anchor: str | Path | None = None,
    ) -> None:
        self.path = None if path is None else Path(path).resolve()  # a link and what it points to are one ledger
        self._head_file = Path() if self.path is None else self.path.with_name(self.path.name + ".head")
        self.records: list[Record] = []
        self._end = 0  # bytes of the file that are verified
        self._file = -1  # while it is locked
        self._holds: weakref.WeakValueDictionary[int, Hold] = weakref.WeakValueDictionary()
        self._threads = threading.RLock()
        self._anchor = None if anchor is None else Anchor(Path(anchor), self.path)
        expected = None if expect_head is None else Head.parse(expect_head)
        if self.path is not None and not self.path.exists():  # what others know of it is asked before it is made
            self._check_known(expected)
        with self._locked():
            self._catch_up()
            self._check_known(expected)
            if not self.records:
                self._append(
                    {
                        "kind": "open",
                        "format": FORMAT,
                        "id": uuid.uuid4().hex,
                        "total": None if total is None else list(total),
                    }
                )
            elif total is not None and self.total is None:
                self._limit(total)
            elif total is not None and self.total != tuple(total):
                got, needed = f"(epsilon, delta) = {tuple(total)}", f"{self.total}, as when it was opened"
                refuse(f"the ledger {self.path} has another total", got=got, needed=needed, try_="leaving it out")

    def _check_known(self, expected: Head | None) -> None:
        if expected is not None:
            expected.check(self.records)
        if self._anchor is not None:
            self._anchor.check(self.records)

    def _limit(self, total: tuple[float, float]) -> None:
        """Give a ledger that has no total one; what it holds already must fit."""
        if self.spent() and self.price(total[1]).epsilon > total[0]:
            raise BudgetError(
                what="a total for a ledger that had none",
                got=f"epsilon = {total[0]:g} at delta = {total[1]:g}, and more is spent already",
                needed="a total that holds what was spent",
                try_="a larger total",
            )
        self._append({"kind": "total", "total": list(total)})

    # Writing ---------------------------------------------------------------------------------------------------------
    def add_plan(self, plan: Plan, then: tuple[Line, ...] = (), instead: Hold | None = None) -> Hold:
        """Announce a fit. Fails before any data is touched if its whole plan does not fit what is left.

        All of it, and the lines of ``then`` that a later plan will have, is held for as long as what this returns lives;
        what was held ``instead`` is given back.
        """
        with self._locked():
            self._catch_up()
            for earlier in self.plans():
                check_units(earlier, plan)
                if plan.schedule and earlier.schedule and earlier.schedule.name == plan.schedule.name:
                    raise broken("a stream of this name is booked on it already")
            if instead is not None:
                instead.end()
            self.check_total((*plan.lines, *then), held_lines(self.records, self._is_held), plan.delta)
            hold = Hold(self.path, len(self.records))
            held = {"then": [line.to_json() for line in then]} if then else {}
            self._append({"kind": "plan", "plan": plan.to_json(), **held})
            self._holds[hold.seq] = hold
            if plan.schedule is not None:
                self._book(hold.seq, plan, plan.schedule)
            return hold

    def _book(self, seq: int, plan: Plan, schedule: Schedule) -> None:
        """A stream is reserved in full, whatever comes of it. Where that was cut off, it is done before the first part."""
        done = {r["line"]["name"] for r in self.records if r["kind"] == "reserve" and r.get("plan") == seq}
        missing = tuple(line for line in plan.lines if line.name not in done)
        self.check_total(missing)
        booked = {"stream": schedule.name, "releases": schedule.horizon}
        for line in missing:
            record = {"kind": "reserve", "line": line.to_json(), "statistic": booked, "noise_is_private": True}
            self._append({**record, "plan": seq})

    def resume_plan(self, plan: Plan, paid: Paid, *, instead: Hold | None = None, pay_again: bool = False) -> Hold:
        """Go on with a plan that was cut off: what it has left to post is held again, if it still fits.

        A post that was reserved and lost counts, and its reservation is never used: with ``pay_again`` what is left is
        announced anew, and costs that much more.
        """
        with self._locked():
            self._catch_up()
            paid.check_free(self._is_held(paid.latest))
            if instead is not None:
                instead.end()
            self.check_total(paid.left, held_lines(self.records, self._is_held), plan.delta)
            goes_on = paid.goes_on(self.records)
            if not goes_on and not pay_again:
                raise paid.unpaid(plan, self.price(plan.delta, paid.left))
            hold = Hold(self.path, paid.latest if goes_on else len(self.records))
            if not goes_on:
                self._append({"kind": "plan", "plan": replace(plan, lines=paid.left).to_json(), "again": paid.plan})
            self._holds[hold.seq] = hold
            return hold

    def _is_held(self, seq: int) -> bool:
        ours = self._holds.get(seq)
        return ours.lives if ours is not None else self._file >= 0 and is_held(self._file, seq)

    def reserve(self, line: Line, description: Record, *, noise_is_private: bool, plan: int | None = None) -> int:
        """Put one post on record before it happens, as part of the plan on line ``plan``. Returns its number."""
        one = replace(line, times=1)
        record = {"kind": "reserve", "line": one.to_json(), "statistic": description, "noise_is_private": noise_is_private}
        with self._locked():
            self._catch_up()
            self.check_total((one,))
            return self._append(record if plan is None else {**record, "plan": plan})

    def parts(self, stream: str) -> Parts:
        """What was posted of a stream so far."""
        with self._locked():
            self._catch_up()
            return Parts.of(self.records, stream)

    def reserve_part(self, line: Line, stream: str, release: int, description: Record, *, noise_is_private: bool) -> int:
        """Put one post of a stream on record before it happens. It is paid for: the stream is."""
        with self._locked():
            self._catch_up()
            parts = Parts.of(self.records, stream)
            parts.check_next(line.name, release)
            assert parts.plan.schedule is not None
            self._book(parts.seq, parts.plan, parts.plan.schedule)
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

    def held(self) -> list[Line]:
        """What fits under way have announced and not posted yet."""
        with self._locked():
            self._catch_up()
            return held_lines(self.records, self._is_held)

    def _append(self, record: Record) -> int:
        record = {"seq": len(self.records), **record, "prev": self.head}
        record["hash"] = record_hash(record)
        if self.path is not None:
            data = (json.dumps(record, sort_keys=True) + "\n").encode()
            try:
                write_line(self._file, self._end, data, lambda: write_head(self._head_file, record))
                if record["seq"] == 0:
                    sync(self.path.parent)
            except OSError as error:
                raise LedgerError(
                    what=f"the ledger {self.path} can't be written",
                    got=error.strerror or type(error).__name__,
                    needed="a disk with room and permission",
                    try_=f"freeing some space; {UNWRITTEN.get(record['kind'], 'nothing was posted')}",
                ) from None
            self._end += len(data)
        self.records.append(record)
        if self._anchor is not None:  # after the line: an anchor that is behind its ledger is no contradiction
            self._anchor.move(record)
        return record["seq"]

    # Reading ---------------------------------------------------------------------------------------------------------
    def _catch_up(self) -> None:
        """Read and verify what other writers have added since."""
        if self.path is None:
            return
        size = os.fstat(self._file).st_size
        if size < self._end:
            raise broken("its end is missing")
        text = b""
        while len(text) < size - self._end and (part := os.pread(self._file, size - self._end, self._end + len(text))):
            text += part
        whole = text[: text.rfind(b"\n") + 1]
        self.records += verify_chain(whole, self.head, len(self.records))
        self._end += len(whole)
        if self._head_file.exists():
            known = Head.read(self._head_file)
            if known is None or not known.is_in(self.records):
                raise broken("its end is missing or is not what was last written")
        elif len(self.records) > 1:
            raise broken("its .head file is missing")
        if self._anchor is not None:
            self._anchor.check(self.records)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """One writer at a time, over threads and over processes."""
        with self._threads, nullcontext(-1) if self.path is None else one_writer(self.path) as self._file:
            try:
                yield
            finally:
                self._file = -1

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_threads", "_holds")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _threads=threading.RLock(), _holds=weakref.WeakValueDictionary())

    @classmethod
    def loads(cls, text: str | bytes) -> Ledger:
        """A ledger in memory from its text, with the chain checked."""
        ledger = cls()
        ledger.records = verify_chain(text.encode() if isinstance(text, str) else text, START, 0)
        if not ledger.records:
            raise broken("it is empty")
        return ledger
