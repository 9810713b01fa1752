"""Gate room: the parts of a stream on a ledger: which are posted, which may be posted next, and which never again.

The stream is booked when it is planned: each of its lines is reserved once, in full, whatever comes of it. Every post under
it is then a ``part`` (on disk before its noise is drawn) and a ``commit``. Parts of a name come in order, without gaps.
A part that was never committed never left the gate: it may be drawn again, and from then on the older draw may not be
committed. A part that was committed is posted, for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowkey.errors import PlanError
from lowkey.privacy.chain import Record
from lowkey.privacy.plan import Plan


@dataclass(frozen=True)
class Parts:
    """The parts of one stream, as the records of a ledger tell."""

    seq: int  # the line on which the stream was planned
    plan: Plan
    drawn: dict[tuple[str, int], int]  # name and release: the number of its last ``part`` line
    posted: dict[tuple[str, int], str]  # name and release: the hash of what was posted

    @classmethod
    def of(cls, records: Sequence[Record], stream: str) -> Parts:
        plans = [r for r in records if r["kind"] == "plan" and r["plan"].get("schedule", {}).get("name") == stream]
        if len(plans) != 1:
            raise PlanError(
                what="a part of a stream",
                got="a stream that is not on this ledger",
                needed="the ledger on which the stream was booked",
                try_="the stream's own folder",
            )
        drawn = {(r["name"], r["release"]): r["seq"] for r in records if r["kind"] == "part" and r["stream"] == stream}
        named = {r["seq"]: (r["name"], r["release"]) for r in records if r["kind"] == "part" and r["stream"] == stream}
        commits = [r for r in records if r["kind"] == "commit" and r["reservation"] in named]
        posted = {named[r["reservation"]]: r["sha256"] for r in commits}
        return cls(plans[0]["seq"], Plan.from_json(plans[0]["plan"]), drawn, posted)

    def last(self, name: str) -> int:
        """The number of the last release of which this was posted; 0: none."""
        return max((release for posted, release in self.posted if posted == name), default=0)

    @property
    def complete(self) -> int:
        """The number of the last release of which everything was posted."""
        return min(self.last(line.name) for line in self.plan.lines)

    def check_next(self, name: str, release: int) -> None:
        assert self.plan.schedule is not None
        self.plan.schedule.check_release(release)
        if release != self.last(name) + 1:
            raise PlanError(
                what=f"release {release} of {name!r}",
                got="a release that is posted" if release <= self.last(name) else "one that is not due",
                needed=f"release {self.last(name) + 1}: each is posted once, in order, also those of missed weeks",
                try_="what was posted, which is kept; drawn again, it would have to be paid again",
            )

    def check_commit(self, seq: int) -> None:
        """Only the last draw of a part may become its post, and only one."""
        part = next((part for part, drawn in self.drawn.items() if drawn == seq), None)
        if part is None or part in self.posted:
            raise PlanError(
                what="a part of a stream that was drawn",
                got="another draw of it",
                needed="one post of each part",
                try_="what was posted",
            )
