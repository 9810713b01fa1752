"""Gate room: the list of releases, fixed from hyper-parameters before any data is seen, and its total price."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowkey.errors import PlanError, refuse
from lowkey.privacy.accounting import composed_epsilon, gaussian_mu, total_mu
from lowkey.privacy.guarantee import Guarantee, Unit
from lowkey.privacy.mechanisms import Gaussian, Mechanism, NoNoise, SymmetricGaussian, mechanism_from_json
from lowkey.privacy.noise import log_ratio
from lowkey.privacy.sums import Adjacency

ADJACENCIES = ("add-remove", "replace-one")


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
        parsed: dict[str, Any] = {**fields, "mechanism": mechanism_from_json(fields["mechanism"])}
        return cls(**parsed)


@dataclass(frozen=True)
class Request:
    """A line that still wants its noise: it gets ``share`` of the total mu^2, spread evenly over its posts."""

    name: str
    size: int
    share: float
    times: int = 1
    symmetric: bool = False
    note: str = ""


@dataclass(frozen=True)
class Price:
    """What a list of posts costs in all."""

    epsilon: float
    mu: float


def price(lines: Iterable[Line], delta: float) -> Price:
    """The composed price of ``lines`` at ``delta``: exact for Gaussian posts, plus what the sampler's resolution costs.

    Let P' be the sampled law and P the ideal one. Outside a set of probability below 1e-30, |log P'/P| <= a =
    ``log_ratio``, for both neighbours, so P'(S) <= e^a P(S) <= e^a (e^eps Q(S) + delta) <= e^(eps + 2a) Q'(S) + e^a delta.
    """
    lines = tuple(lines)
    mu = total_mu(line.mechanism.mu * math.sqrt(line.times) for line in lines)
    if not lines or math.isinf(mu):
        return Price(math.inf if lines else 0.0, mu)
    slack = log_ratio(sum(line.times * line.size for line in lines), mu)
    own_delta = sum(line.times * line.mechanism.own_delta for line in lines)
    left = (delta - own_delta) * (1.0 - 2.0 * slack) - (1e-30 if delta else 0.0)
    if left < 0.0 or (left == 0.0 and mu > 0.0):
        raise PlanError(
            what="delta is used up by private selection",
            got=f"delta = {delta:g} with {own_delta:g} of it for the selection",
            needed="a larger total",
            try_="raise delta or select with a smaller share of it",
        )
    pure = [line.mechanism.epsilon for line in lines for _ in range(line.times) if not line.mechanism.mu]
    return Price(composed_epsilon(mu, pure, left) + 2.0 * slack, mu)


@dataclass(frozen=True)
class Plan:
    """Every post of a fit, in no particular order, and what they cost together."""

    method: str
    lines: tuple[Line, ...]
    delta: float
    adjacency: Adjacency = "add-remove"
    unit: Unit = "user"
    public: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    sound: bool = True  # False where no epsilon holds for every data set, whatever the noise
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        names = [line.name for line in self.lines]
        if len(set(names)) != len(names):
            raise PlanError(
                what="a plan names a release twice", got=str(names), needed="one line per name", try_="use times=…"
            )
        if self.adjacency not in ADJACENCIES:
            refuse("adjacency", got=repr(self.adjacency), needed=" or ".join(ADJACENCIES), try_="adjacency='add-remove'")

    @classmethod
    def calibrated(cls, method: str, requests: Sequence[Request], *, epsilon: float, delta: float, **fields: Any) -> Plan:
        """Give each request its share so that the whole costs at most (epsilon, delta), and hardly less."""
        check_epsilon_delta(epsilon, delta)
        total = sum(r.share for r in requests)
        draws = sum(r.times * r.size for r in requests)
        slack = log_ratio(draws, gaussian_mu(epsilon, delta))
        mu = gaussian_mu(epsilon - 2.0 * slack, delta * (1.0 - 2.0 * slack) - 1e-30) * (1.0 - 1e-12)
        lines: list[Line] = []
        for r in requests:
            multiplier = 1.0 / (mu * math.sqrt(r.share / total / r.times))
            mechanism = SymmetricGaussian(multiplier) if r.symmetric else Gaussian(multiplier)
            lines.append(Line(r.name, mechanism, r.size, r.times, r.note))
        return cls(method, tuple(lines), delta, **fields)

    @property
    def price(self) -> Price:
        return price(self.lines, self.delta)

    def without_noise(self) -> Plan:
        """The same posts, exact: for the non-private baselines, which run the same code."""
        return replace(self, lines=tuple(replace(line, mechanism=NoNoise()) for line in self.lines))

    def guarantee(self) -> Guarantee:
        total = self.price
        epsilon = total.epsilon if self.sound else math.inf
        return Guarantee(epsilon, self.delta, total.mu, self.unit, self.adjacency, self.public, self.caveats)

    def table(self) -> str:
        """The plan as people read it: each release, its share of the budget and its noise."""
        mu_squared = self.price.mu**2
        rows = [f"{'release':<22}{'posts':>6}{'numbers each':>14}{'share':>8}{'noise multiplier':>18}"]
        for line in self.lines:
            share = line.times * line.mechanism.mu**2 / mu_squared if mu_squared else 0.0
            multiplier = getattr(line.mechanism, "noise_multiplier", math.nan)
            rows.append(f"{line.name:<22}{line.times:>6}{line.size:>14,}{share:>8.1%}{multiplier:>18.4g}  {line.note}")
        return "\n".join([f"{self.method}: {len(self.lines)} kinds of release", *rows, str(self.guarantee())])

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "lines": [line.to_json() for line in self.lines],
            "delta": self.delta,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "public": list(self.public),
            "caveats": list(self.caveats),
            "sound": self.sound,
            "settings": self.settings,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Plan:
        parsed: dict[str, Any] = dict(fields)
        parsed["lines"] = tuple(Line.from_json(line) for line in fields["lines"])
        parsed["public"], parsed["caveats"] = tuple(fields["public"]), tuple(fields["caveats"])
        return cls(**parsed)


def check_epsilon_delta(epsilon: float, delta: float) -> None:
    if not 0.0 < epsilon < math.inf:
        refuse("epsilon", got=repr(epsilon), needed="a finite number above 0", try_="epsilon=1.0 (smaller protects more)")
    if not 0.0 < delta < 1.0:
        refuse("delta", got=repr(delta), needed="a number between 0 and 1", try_="delta=1e-6, well below 1/users")
