"""Gate room: what a ledger's lines say: what was planned, spent, is held and is left, and what is promised for all of it.

What is left is an epsilon to ask for. The price of Gaussian posts grows with mu, so the largest mu that fits beside what
was spent and what fits under way hold is found by halving, with the very price that the ledger refuses by; a plan made for
an epsilon has a smaller mu than the epsilon's own, so that what is named here fits.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lowkey.errors import BudgetError, InputError, LedgerError, LowkeyError, PlanError
from lowkey.privacy.chain import Head, Record, broken
from lowkey.privacy.gaussian import bisect, gaussian_epsilon, gaussian_mu
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import Price, at_most, price

START = "0" * 64
NUMBERS = 1 << 24  # of a fit that is not known yet: only the resolution of the sampler follows from it
LEAST = 1e-3  # an epsilon below it buys nothing
ODOMETER = (
    "This ledger has no total and holds {plans} plans. If a later one was chosen after seeing what an earlier one posted, "
    "epsilon is an odometer, what was spent so far, and no bound that was fixed before; a ledger with a total has one."
)


KINDS: dict[str, dict[str, type]] = {  # what such a line says besides
    "reserve": {"noise_is_private": bool, "statistic": dict},
    "part": {"stream": str, "name": str, "release": int, "noise_is_private": bool, "statistic": dict},
    "commit": {"reservation": int, "sha256": str},
}


class Reading:
    """What lines say, read one after the other: a ledger of thousands of posts is not read again for the next."""

    def __init__(self) -> None:
        self.last: Record | None = None
        self.count = 0
        self.total: tuple[float, float] | None = None
        self.plans: list[Plan] = []
        self.spent: list[Line] = []
        self.posts: Counter[Line] = Counter()

    def follows(self, records: list[Record]) -> bool:
        return self.count == 0 or (self.count <= len(records) and records[self.count - 1] is self.last)

    def take(self, record: Record) -> None:
        """One more line. What no writer of ours writes is refused, whatever it is."""
        try:
            self._take(record)
        except LowkeyError:
            raise
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError, RecursionError):
            raise broken(f"line {self.count + 1} can't be understood") from None
        self.last, self.count = record, self.count + 1

    def _take(self, record: Record) -> None:
        for name, kind in KINDS.get(record["kind"], {}).items():
            if type(record[name]) is not kind:
                raise TypeError
        match record["kind"]:
            case "open" | "total":
                self.total = None if record["total"] is None else (float(record["total"][0]), float(record["total"][1]))
            case "plan":
                self.plans.append(Plan.from_json(record["plan"]))
            case "reserve":
                line = Line.from_json(record["line"])
                self.spent.append(line)
                self.posts[line] += 1
            case "part":
                pass
            case "commit":
                if not 0 <= record["reservation"] < self.count:
                    raise ValueError
            case _:
                raise ValueError


class Book:
    """The lines of a ledger, read: nothing here writes."""

    path: Path | None = None  # of the file, where there is one
    records: list[Record]
    _reading: Reading | None = None

    def _read(self) -> Reading:
        if self._reading is None or not self._reading.follows(self.records):
            self._reading = Reading()
        for record in self.records[self._reading.count :]:
            self._reading.take(record)
        return self._reading

    @property
    def total(self) -> tuple[float, float] | None:
        """The (epsilon, delta) that all posts together may not exceed, or None."""
        return self._read().total

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
        return list(self._read().plans)

    def spent(self) -> list[Line]:
        """Every post that was reserved, as one line each."""
        return list(self._read().spent)

    def price(self, delta: float, more: tuple[Line, ...] = ()) -> Price:
        """Of all posts, those that are alike taken together, and of ``more``."""
        posts = self._read().posts
        return price((*(replace(line, times=line.times * count) for line, count in posts.items()), *more), delta)

    def check_total(self, more: Sequence[Line], held: Sequence[Line] = (), delta: float | None = None) -> None:
        """Refuse ``more`` that does not fit beside what was spent and is held; a fit's own ``delta`` is for words."""
        if self.total is not None and self.price(self.total[1], (*held, *more)).epsilon > self.total[0]:
            raise too_much(self, more, held, delta)

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """What holds for everyone in the data, for all posts on this ledger together."""
        plans = self.plans()
        if not plans:
            raise LedgerError(what="no guarantee yet", got="a ledger without a plan", needed="a fit", try_="fit first")
        for plan in plans[1:]:
            check_units(plans[0], plan)  # 0.1 let some through that differ
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

    def dumps(self) -> str:
        """The ledger as text, for a release."""
        return "".join(json.dumps(r, sort_keys=True) + "\n" for r in self.records)


def check_units(earlier: Plan, plan: Plan) -> None:
    if earlier.unit != plan.unit:
        raise InputError(
            what="fits that do not compose on one ledger",
            got=f"{plan.method}, which protects {plan.unit}",
            needed=f"{earlier.unit}, as {earlier.method} before",
            try_="the same unit and adjacency, or another ledger",
        )


def held_lines(records: Sequence[Record], is_held: Callable[[int], bool]) -> list[Line]:
    """Of every plan whose line is held: its posts that are still to come, and what it holds for the plan after it."""
    posted: Counter[tuple[int, str]] = Counter()
    for record in records:
        if record["kind"] == "reserve" and "plan" in record:
            posted[record["plan"], record["line"]["name"]] += record["line"]["times"]
    held: list[Line] = []
    for record in records:
        if record["kind"] != "plan" or not is_held(record["seq"]):
            continue
        for line in Plan.from_json(record["plan"]).lines:
            left = line.times - posted[record["seq"], line.name]
            held += [replace(line, times=left)] if left > 0 else []
        held += map(Line.from_json, record.get("then", []))
    return held


def fitting_mu(
    book: Book, total: tuple[float, float], held: Sequence[Line] = (), numbers: int = NUMBERS, own_delta: float = 0.0
) -> float:
    """The largest mu of further Gaussian posts, so many numbers in all, beside which the total holds; 0 if none does."""
    epsilon, delta = total

    def fits(mu: float) -> bool:
        try:
            return book.price(delta - own_delta, (*held, Line("more", Gaussian(1.0 / mu), numbers))).epsilon <= epsilon
        except PlanError:  # delta is used up
            return False

    if own_delta >= delta:
        return 0.0
    least, most = gaussian_mu(LEAST / 2.0, delta), gaussian_mu(epsilon, delta)
    return bisect(fits, least, most, 1e-9) if least < most and fits(least) else 0.0


def epsilon_of(mu: float, delta: float) -> float:
    """The epsilon to ask for, four digits rounded down; 0 where it would buy nothing."""
    epsilon = gaussian_epsilon(mu, delta) if mu > 0.0 and delta > 0.0 else 0.0
    if epsilon < LEAST:
        return 0.0
    digits = 10.0 ** (3 - math.floor(math.log10(epsilon)))
    return math.floor(epsilon * (1.0 - 1e-7) * digits) / digits


def too_much(book: Book, more: Sequence[Line], held: Sequence[Line], delta: float | None) -> BudgetError:
    """What a spend is refused with: what would fit in its place, for the delta that was asked for."""
    assert book.total is not None
    epsilon, of_total = book.total
    numbers = max(1, sum(line.times * line.size for line in more))
    own = sum(line.times * line.mechanism.own_delta for line in more)
    asked = of_total if delta is None else delta
    fits = epsilon_of(fitting_mu(book, book.total, held, numbers, own), asked - own)
    where = "" if book.path is None else f" lowkey ledger plan {book.path} divides it;"
    return BudgetError(
        what=f"the budget of these people {'would be' if fits else 'is'} used up",
        got=f"{at_most(book.price(of_total).epsilon, 4)} of epsilon = {epsilon:g} spent at delta = {of_total:g}"
        + (", fits that are under way" if held else "")
        + ", and this needs more than is left",
        needed=f"at most epsilon = {fits:g} at delta = {asked:g}" if fits else "nothing more on this ledger",
        try_=(f"epsilon={fits:g}, which fits;{where}" if fits else "what was released, which may be used for ever;")
        + " what has been spent can't be bought back",
    )
