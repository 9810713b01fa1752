"""Gate room: the list of releases, fixed from hyper-parameters before any data is seen, and its total price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowkey.errors import LedgerError, PlanError, refuse
from lowkey.privacy.gaussian import gaussian_mu
from lowkey.privacy.guarantee import USER, Guarantee, Unit
from lowkey.privacy.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    NoNoise,
    SymmetricGaussian,
    ThresholdedGaussian,
)
from lowkey.privacy.noise import log_ratio
from lowkey.privacy.price import MOST_POSTS, Price, price
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.privacy.repeat_and_select import RepeatAndSelect
from lowkey.privacy.stream import Schedule

MOST_NUMBERS = 2**50  # of one post, as a line read from a file may say

# Of these, 0.1 wrote "user" where only the values of a user are hidden.
VALUES_ONLY = ("DPOneBit", "OneBit")


@dataclass(frozen=True)
class Line:
    """One kind of release: ``times`` posts of at most ``size`` numbers each, under one mechanism."""

    name: str
    mechanism: Mechanism
    size: int
    times: int = 1
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mechanism": self.mechanism.to_json(),
            "size": self.size,
            "times": self.times,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Line:
        if not (isinstance(fields["name"], str) and isinstance(fields.get("note", ""), str)):
            raise _misread("a name that is no text", "texts")
        for name, most in (("times", MOST_POSTS), ("size", MOST_NUMBERS)):
            if type(fields[name]) is not int or not 1 <= fields[name] <= most:
                raise _misread(f"a number of {name!r} that no plan has", f"a whole number from 1 to {most}")
        parsed: dict[str, Any] = {**fields, "mechanism": mechanism_from_json(fields["mechanism"])}
        return cls(**parsed)


@dataclass(frozen=True)
class Request:
    """A line that still wants its noise: it gets ``share`` of the total mu^2, spread evenly over its posts."""

    name: str
    size: int
    share: float
    times: int = 1
    mechanism: type[Gaussian] = Gaussian
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """Every post of a fit, in no particular order, and what they cost together.

    Examples
    --------
    >>> print(lk.DPBias(epsilon=1.0, delta=1e-6).plan(domain).table())  # doctest: +SKIP
    """

    method: str
    lines: tuple[Line, ...]
    delta: float
    unit: Unit = USER
    public: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    sound: bool = True  # False where no epsilon holds for every data set, whatever the noise
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    # Every line is then one release that comes in as many parts as the schedule has; its size is that of all of them.
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        names = [line.name for line in self.lines]
        if len(set(names)) != len(names):
            raise PlanError(
                what="a plan names a release twice", got=str(names), needed="one line per name", try_="use times=…"
            )
        if self.schedule is not None and any(
            line.times != 1 or line.mechanism.kind not in ("gaussian", "symmetric-gaussian") for line in self.lines
        ):
            raise PlanError(
                what="a stream of something else than Gaussian sums",
                got=str(names),
                needed="one Gaussian post of each name per release",
                try_="a method that posts each of its sums once",
            )

    @classmethod
    def calibrated(
        cls,
        method: str,
        requests: Sequence[Request],
        *,
        epsilon: float,
        delta: float,
        mu: float | None = None,
        **fields: Any,
    ) -> Plan:
        """Give each request its share so that the whole costs at most (epsilon, delta), and hardly less.

        ``mu``, where it is known already, is ``gaussian_mu(epsilon, delta)``; infinite: the posts are exact.
        """
        if mu == math.inf:
            lines = [Line(r.name, NoNoise(), r.size, r.times, r.note) for r in requests]
            return cls(method, tuple(lines), delta, **fields)
        check_epsilon_delta(epsilon, delta)
        schedule = fields.get("schedule")
        if schedule is not None:
            requests = [replace(r, size=r.size * schedule.horizon) for r in requests]
        total = sum(r.share for r in requests)
        draws = sum(r.times * r.size for r in requests)
        slack = log_ratio(draws, gaussian_mu(epsilon, delta) if mu is None else mu)
        mu = gaussian_mu(epsilon - 2.0 * slack, delta * (1.0 - 2.0 * slack) - 1e-30) * (1.0 - 1e-12)
        multipliers = [1.0 / (mu * math.sqrt(r.share / total / r.times)) for r in requests]
        noisy = [
            Line(r.name, r.mechanism(multiplier), r.size, r.times, r.note)
            for r, multiplier in zip(requests, multipliers, strict=True)
        ]
        return cls(method, tuple(noisy), delta, **fields)

    @property
    def price(self) -> Price:
        return price(self.lines, self.delta)

    def guarantee(self) -> Guarantee:
        return Guarantee(self.price if self.sound else self.price.never(), self.unit, self.public, self.caveats)

    def table(self) -> str:
        """The plan as people read it: each release, its share of the budget and its noise."""
        mu_squared = self.price.mu**2
        rows = [f"{'release':<22}{'posts':>6}{'numbers each':>14}{'share':>8}{'noise multiplier':>18}"]
        for line in self.lines:
            share = line.times * line.mechanism.mu**2 / mu_squared if mu_squared else 0.0
            rows.append(
                f"{line.name:<22}{line.times:>6}{line.size:>14,}{share:>8.1%}{line.mechanism.width:>18}  {line.note}"
            )
        return "\n".join([f"{self.method}: {len(self.lines)} kinds of release", *rows, str(self.guarantee())])

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "lines": [line.to_json() for line in self.lines],
            "delta": self.delta,
            "adjacency": self.unit.neighbours,
            "unit": self.unit.name,
            "public": list(self.public),
            "caveats": list(self.caveats),
            "sound": self.sound,
            "settings": self.settings,
            **({} if self.schedule is None else {"schedule": self.schedule.to_json()}),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Plan:
        parsed: dict[str, Any] = dict(fields)
        parsed["lines"] = tuple(Line.from_json(line) for line in fields["lines"])
        name, neighbours = parsed.pop("unit"), parsed.pop("adjacency")
        parsed["unit"] = Unit.named(
            "user-values" if name == "user" and fields["method"] in VALUES_ONLY else name, neighbours
        )
        if "schedule" in fields:
            parsed["schedule"] = Schedule.from_json(fields["schedule"])
        parsed["public"], parsed["caveats"] = tuple(fields["public"]), tuple(fields["caveats"])
        plan = cls(**parsed)
        if not all(isinstance(text, str) for text in (fields["method"], *fields["public"], *fields["caveats"])):
            raise _misread("words that are no text", "texts")
        if not (type(plan.delta) in (int, float) and 0.0 <= plan.delta < 1.0 and type(plan.sound) is bool):
            raise _misread("a delta that is none", "a number from 0 to 1")
        if not isinstance(fields.get("settings", {}), dict):
            raise _misread("settings of another kind", "names and values")
        return plan


def _misread(got: str, needed: str) -> LedgerError:
    return LedgerError(what="a line of a plan", got=got, needed=needed, try_="the ledger as it was written")


def check_epsilon_delta(epsilon: float, delta: float) -> None:
    if not 0.0 < epsilon < math.inf:
        refuse("epsilon", got=repr(epsilon), needed="a finite number above 0", try_="epsilon=1.0 (smaller protects more)")
    if not 0.0 < delta < 1.0:
        refuse("delta", got=repr(delta), needed="a number between 0 and 1", try_="delta=1e-6, well below 1/users")


KINDS: dict[str, type[Mechanism]] = {
    m.kind: m
    for m in (Gaussian, SymmetricGaussian, ThresholdedGaussian, Laplace, RandomizedResponse, RepeatAndSelect, NoNoise)
}

MOST = {"max_keys": 2**24}  # the price of a selection is computed for every number of keys up to it


def mechanism_from_json(fields: dict[str, Any]) -> Mechanism:
    """The inverse of ``to_json``. A kind that is not known has no known price, so nothing is said about it."""
    rest = dict(fields)
    kind = rest.pop("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LedgerError(
            what="a post of an unsupported kind",
            got=repr(kind)[:40],
            needed=", ".join(KINDS),
            try_="a newer version of lowkey",
        )
    for name, value in rest.items():
        if not (isinstance(value, str) or (type(value) in (int, float) and abs(value) <= MOST.get(name, math.inf))):
            raise LedgerError(
                what=f"a post of kind {kind!r}",
                got=f"something else as its {str(name)[:40]!r}",
                needed="a number that such a post can have",
                try_="the ledger as it was written",
            )
    return KINDS[kind](**rest)
