"""Gate room: what a ledger's lines say: what was planned and spent, and what is promised for all of it together."""

from __future__ import annotations

import json

from lowkey.errors import InputError, LedgerError
from lowkey.privacy.chain import Head, Record
from lowkey.privacy.guarantee import Guarantee
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import Price, price

START = "0" * 64
ODOMETER = (
    "This ledger has no total and holds {plans} plans. If a later one was chosen after seeing what an earlier one posted, "
    "epsilon is an odometer, what was spent so far, and no bound that was fixed before; a ledger with a total has one."
)


class Book:
    """The lines of a ledger, read: nothing here writes."""

    records: list[Record]

    @property
    def total(self) -> tuple[float, float] | None:
        """The (epsilon, delta) that all posts together may not exceed, or None."""
        total = next((r["total"] for r in reversed(self.records) if r["kind"] in ("total", "open")), None)
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
