"""Gate room: the one door from private to public."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowkey.errors import PlanError
from lowkey.privacy.chain import Hold
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.kept import KeptPosts, Paid, check_committed
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import noised, sha256_of
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.parts import Parts
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Selection, Statistic, Unreleased, UnreleasedHistogram, UnreleasedPart

MOST_SHOWN = 1 << 23  # bytes of a plan's posts that go with a model made of them


class Billboard:
    """Public arrays come from here and from nowhere else.

    A fresh one serves one fit. One with a shared ``ledger`` composes several fits on the same people. One with ``kept``
    keeps every post before it is committed; a fit that was cut off goes on with those, and pays for none of them again
    (``pay_again``: but for those that were reserved and lost).

    Parameters
    ----------
    ledger : Ledger or path, optional
        Shared: composes several fits on the same people. A fresh one in memory by default.
    noise : NoiseSource, optional
        For tests; what it touches cannot be released.
    kept : KeptPosts, optional
        Where posts are kept, so that a fit that was cut off goes on.
    pay_again : bool
        Whether posts that were reserved and lost are paid for once more.

    Examples
    --------
    >>> board = lk.Billboard(lk.Ledger("people.jsonl", total=(4.0, 1e-6)))  # doctest: +SKIP
    >>> lk.DPBias(epsilon=1.0, delta=1e-6).fit(ratings, billboard=board)  # doctest: +SKIP
    """

    def __init__(
        self,
        ledger: Ledger | str | Path | None = None,
        *,
        noise: NoiseSource | None = None,
        kept: KeptPosts | None = None,
        pay_again: bool = False,
    ) -> None:
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self.noise = noise if noise is not None else NoiseSource()
        self.plan: Plan | None = None
        self.on_post: Callable[[str], Any] | None = None  # told the name of each post when it is made: public
        self.posted: dict[int, Any] | None = {}  # of this plan, by reservation; None: too large to go with a model
        self.kept, self._pay_again = kept, pay_again
        self._paid: dict[str, list[int]] = {}  # reservations whose posts are kept, and not yet used again
        self._left: dict[str, int] = {}
        self._settings = ""
        self._hold: Hold | None = None
        self._one_at_a_time = threading.Lock()

    def begin(self, plan: Plan, then: tuple[Line, ...] = (), settings: str = "") -> None:
        """Announce a fit: from here on exactly the posts of this plan are possible, and held for it while this lives.

        ``then`` are lines of a plan that will follow, on the same billboard: held too, so that it will fit. ``settings`` is
        a hash of all that the fit does with its posts: a kept one is used again only by a fit that has the same.
        """
        found = None if self.kept is None or plan.schedule is not None else Paid.of(self.ledger.records, self.kept, plan)
        if found is None:
            self._hold, lines, self._paid = self.ledger.add_plan(plan, then, instead=self._hold), plan.lines, {}
        else:
            self._hold = self.ledger.resume_plan(plan, found, instead=self._hold, pay_again=self._pay_again)
            lines, self._paid = found.left, {name: list(seqs) for name, seqs in found.posts.items()}
        self.plan, self._settings, self.posted = plan, settings, {}
        self._left = {line.name: 0 for line in plan.lines} | {line.name: line.times for line in lines}

    def end(self) -> None:
        """Give back what was announced and not posted."""
        if self._hold is not None:
            self._hold.end()
        self._hold = None

    def resume(self, stream: str) -> Parts:
        """Go on with a stream that is booked on the ledger: its next posts are possible. Returns what was posted."""
        parts = self.ledger.parts(stream)
        self.plan, self._left = parts.plan, {}
        return parts

    def paid(self, name: str, inputs: str = "") -> Any:
        """The next post of this name that was paid and kept when the fit was cut off, or None. It is used once."""
        if not self._paid.get(name):
            return None
        assert self.kept is not None
        reservation = self._paid[name].pop(0)
        posted = self.kept.find(reservation, name, self.key(reservation, inputs))
        if not check_committed(self.ledger.records, reservation, sha256_of(posted)):
            self.ledger.commit(reservation, sha256_of(posted))
        return self._shown(reservation, name, posted)

    def post(self, unreleased: Unreleased, inputs: str = "") -> Any:
        """In order: planned? within budget? reserve on disk; open; noise; keep; commit. Returns a read-only public array.

        ``inputs`` is a hash of the public inputs of the sum, for those who use the post again.
        """
        with self._one_at_a_time:  # two threads must not both find the last post of a line still unused
            line = self._planned(unreleased)
            if self.kept is not None:
                self.kept.make_room(unreleased.statistic.size)
            reservation = self._reserve(unreleased, line)
        posted, sha256 = self._release(unreleased, line)
        if self.kept is not None:
            self.kept.keep(reservation, line.name, self.key(reservation, inputs), posted)
        self.ledger.commit(reservation, sha256)
        return self._shown(reservation, line.name, posted)

    def _shown(self, reservation: int, name: str, posted: Any) -> Any:
        if self.posted is not None and not isinstance(posted, Selection):
            self.posted[reservation] = posted
            if sum(post.nbytes for post in self.posted.values()) > MOST_SHOWN:
                self.posted = None
        if self.on_post is not None:
            self.on_post(name)
        return posted

    def key(self, reservation: int, inputs: str) -> str:
        """What a kept post is known by: its inputs, the fit's settings, and a line that stands for all of the ledger."""
        known = inputs + self._settings + self.ledger.records[reservation]["hash"]
        return hashlib.sha256(known.encode()).hexdigest()[:16]

    def _reserve(self, unreleased: Unreleased, line: Line) -> int:
        assert self.plan is not None
        description, private = self._describe(line, unreleased.statistic), self.noise.private
        schedule = self.plan.schedule
        if schedule is None:
            plan = None if self._hold is None else self._hold.seq
            reservation = self.ledger.reserve(line, description, noise_is_private=private, plan=plan)
            self._left[line.name] -= 1
            return reservation
        assert isinstance(unreleased, UnreleasedPart)
        unreleased.check_whole()
        schedule.check_fits(unreleased.statistic, self.plan.unit.neighbours)
        return self.ledger.reserve_part(line, schedule.name, unreleased.release, description, noise_is_private=private)

    def _release(self, unreleased: Unreleased, line: Line) -> tuple[Any, str]:
        assert self.plan is not None
        units = unreleased._open()  # pyright: ignore[reportPrivateUsage]  # the one line that opens a private sum
        noisy, sha256 = noised(line.mechanism, units, unreleased.statistic, self.plan.unit.neighbours, self.noise)
        noisy.flags.writeable = False
        if isinstance(unreleased, UnreleasedHistogram):
            selected = unreleased._select(noisy)  # pyright: ignore[reportPrivateUsage]
            return selected, sha256_of(selected)
        return noisy, sha256

    def noise_std(self, statistic: Statistic) -> float | None:
        """How much noise a coordinate of this statistic gets (off the diagonal, if symmetric): public.

        None: answers are flipped, and nothing is added.
        """
        assert self.plan is not None
        return self._line(statistic.name).mechanism.noise_std(statistic, self.plan.unit.neighbours)

    @property
    def guarantee(self) -> Guarantee:
        return self.ledger.guarantee()

    def _line(self, name: str) -> Line:
        for line in self.plan.lines if self.plan else ():
            if line.name == name:
                return line
        raise _unplanned(name, "nothing of that name")

    def _planned(self, unreleased: Unreleased) -> Line:
        statistic = unreleased.statistic
        line = self._line(statistic.name)
        assert self.plan is not None
        schedule = self.plan.schedule
        stream = unreleased.stream if isinstance(unreleased, UnreleasedPart) else None
        if stream != (None if schedule is None else schedule.name):
            raise _unplanned(line.name, "the parts of one stream, or posts without one")
        if schedule is None and self._left[line.name] < 1:
            raise _unplanned(line.name, f"{line.times} posts, all used")
        size = line.size if schedule is None else line.size // schedule.horizon
        if statistic.size > size:
            raise _unplanned(line.name, f"at most {size} numbers, not {statistic.size}")
        return line

    def _describe(self, line: Line, statistic: Statistic) -> dict[str, Any]:
        """What the ledger says of a post, for people; the price is in the line."""
        assert self.plan is not None
        sensitivity = statistic.sensitivity.under(self.plan.unit.neighbours)
        return {
            "shape": list(statistic.shape),
            "layout": statistic.layout,
            "grid": statistic.grid.exponent,
            "sensitivity": sensitivity,
            "norm": statistic.sensitivity.norm,
            "noise_std": line.mechanism.noise_std(statistic, self.plan.unit.neighbours),
        }


def _unplanned(name: str, planned: str) -> PlanError:
    return PlanError(
        what=f"{name!r} is not in the plan", got="a post", needed=f"what was planned: {planned}", try_="add it to the plan"
    )
