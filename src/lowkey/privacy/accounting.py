"""Gate room: what releases cost together, as (epsilon, delta), always rounded to the safe side.

Gaussian releases have a closed form (gaussian.py, whose names are also here). What is not Gaussian is a dp_accounting
event, or a bare number (the epsilon of a pure mechanism), and goes through ``composed_epsilon``.

One convention: a mu, an event's noise multiplier and a pure epsilon hold *under the adjacency in force*, so nothing
here asks which one it is. dp_accounting's PLDAccountant (0.6.0) does not share it: it doubles a Gaussian's sensitivity
under REPLACE_ONE, refuses Laplace there and randomized response elsewhere, and prices a self-composed randomized
response as if it ran once. So events are taken apart here and composed as dp_accounting's loss distributions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from dp_accounting import dp_event  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.pld import common  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.pld import privacy_loss_distribution as pld  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.privacy_accountant import NeighboringRelation  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.rdp import RdpAccountant  # pyright: ignore[reportMissingTypeStubs]

from lowkey.errors import refuse
from lowkey.privacy.gaussian import (
    bisect,
    checked,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    rdp_epsilon,
    rounded_up,
    selection_delta,
    selection_threshold,
    total_mu,
)

__all__ = [
    "Event",
    "calibrated_scale",
    "composed_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "rdp_epsilon",
    "second_opinion",
    "selection_delta",
    "selection_threshold",
    "total_mu",
]

Event = dp_event.DpEvent | float  # a float is the epsilon of a pure mechanism

PLD_POINTS = 20_000  # on the axis of losses, at least
PLD_MAX_LOSS = 600.0  # e^loss must stay far from overflow


def composed_epsilon(mu: float, events: Sequence[Event], delta: float) -> float:
    """Epsilon, at ``delta``, of Gaussian releases of total ``mu`` and of ``events``, composed (also adaptively).

    Events: Gaussian (they join ``mu``), Laplace, randomized response, pure epsilons, and compositions of these. The
    smaller of two upper bounds: the Gaussian part at ``delta`` plus the sum of the pure epsilons, which also answers
    delta = 0; and the pessimistic loss distribution of dp_accounting, where its own rounding is well below ``delta``.
    """
    gaussian, pure = _merged(mu, events)
    delta = checked("delta", delta, below=1.0)
    most = _sum([_pure_epsilon(event) for event in pure.elements()])
    added = _sum([gaussian_epsilon(gaussian, delta), most])
    rounding = 2e-13 * (1 + pure.total())  # of the FFTs, in the worst case
    if not pure or not 0.0 < added < PLD_MAX_LOSS or delta < 10.0 * rounding:
        return added
    unit = _pure_epsilon(pure.most_common(1)[0][0])  # a power of two divides it, so that it is not rounded
    interval = unit / 2.0 ** math.ceil(math.log2(unit * PLD_POINTS / (2.0 * most + gaussian * (gaussian + 20.0))))
    whole = pld.identity(interval)
    for event, count in pure.items():
        whole = whole.compose(_distribution(event, interval).self_compose(count))
    if gaussian > 0.0:
        whole = whole.compose(pld.from_gaussian_mechanism(1.0 / gaussian, value_discretization_interval=interval))
    return min(added, float(whole.get_epsilon_for_delta(delta - rounding)) * (1.0 + 1e-9))


def calibrated_scale(mu: float, events: Sequence[Event], epsilon: float, delta: float) -> float:
    """The factor on ``mu`` that takes ``composed_epsilon`` up to ``epsilon``, not above (to 1e-4); ``events`` stay."""
    if not 0.0 < mu < math.inf:
        refuse("mu", got=repr(mu), needed="a finite number above 0", try_="total_mu of the releases to be scaled")
    largest = gaussian_mu(epsilon, delta) / mu * (1.0 - 1e-15)
    least = 1e-6 * largest
    spent = composed_epsilon(least * mu, events, delta)
    if spent > epsilon:
        refuse("epsilon", got=repr(epsilon), needed=f"at least the {spent:.6g} of the events", try_="noisier events")
    fits: Callable[[float], bool] = lambda scale: composed_epsilon(scale * mu, events, delta) <= epsilon
    return largest if fits(largest) else bisect(fits, least, largest, tolerance=1e-4)


def second_opinion(mu: float, events: Sequence[Event], delta: float) -> float:
    """An upper bound on the same epsilon by another road, from dp_accounting alone, to hold against what was booked.

    Gaussians only: their discretised loss distribution, within 1e-5 of the closed form up to mu = 200. Otherwise the
    Rényi accountant; and for pure events alone also the sum of the epsilons read off their loss distributions.
    """
    gaussian, pure = _merged(mu, events)
    delta = checked("delta", delta, below=1.0)
    largest = max(map(_pure_epsilon, pure), default=0.0)
    if math.inf in (gaussian, largest):
        return math.inf
    # This accountant takes Gaussian and Laplace events as they are, whatever the relation.
    accountant = RdpAccountant(list(1.0 + np.geomspace(0.011, 1e6, 400)), NeighboringRelation.REPLACE_ONE)
    if gaussian > 0.0:
        accountant.compose(dp_event.GaussianDpEvent(1.0 / gaussian))
    for event, count in pure.items():
        accountant.compose(event if isinstance(event, dp_event.DpEvent) else _dominating(event), count)
    opinions = [float(accountant.get_epsilon(delta))]
    if not pure and 0.0 < gaussian <= 200.0:  # not by get_epsilon_for_delta, which is coarse where e^loss overflows
        single = pld.from_gaussian_mechanism(1.0 / gaussian, value_discretization_interval=gaussian * 1e-3)
        holds: Callable[[float], bool] = lambda epsilon: float(single.get_delta_for_epsilon(epsilon)) <= delta
        opinions.append(0.0 if holds(0.0) else bisect(holds, opinions[0], 0.0, tolerance=1e-8))
    if gaussian == 0.0 and largest < PLD_MAX_LOSS:
        singles = [(_distribution(event, _pure_epsilon(event) / 2.0**13, False), n) for event, n in pure.items()]
        opinions.append(sum(n * float(single.get_epsilon_for_delta(0.0)) for single, n in singles))
    return min(opinions)


def _merged(mu: float, events: Sequence[Event]) -> tuple[float, Counter[Event]]:
    """The Gaussian releases as one mu, and how often each pure event happens."""
    mus = [checked("mu", mu)]
    pure: Counter[Event] = Counter()
    for event, count in _leaves(events):
        if isinstance(event, dp_event.GaussianDpEvent):
            mus.append(rounded_up(_inverse(event.noise_multiplier) * rounded_up(math.sqrt(count))))
        elif _pure_epsilon(event) > 0.0:
            pure[event] += count
    return total_mu(mus), pure


def _leaves(events: Iterable[Event], times: int = 1) -> Iterator[tuple[Event, int]]:
    for event in events:
        if isinstance(event, dp_event.ComposedDpEvent):
            yield from _leaves(event.events, times)
        elif isinstance(event, dp_event.SelfComposedDpEvent):
            if event.count < 1:
                refuse("count", got=repr(event.count), needed="1 or more", try_="leaving the event out")
            yield from _leaves([event.event], times * event.count)
        elif not isinstance(event, dp_event.NoOpDpEvent):
            yield event if isinstance(event, dp_event.DpEvent) else checked("pure epsilon", event), times


def _pure_epsilon(event: Event) -> float:
    if isinstance(event, float):
        return event
    if isinstance(event, dp_event.LaplaceDpEvent):
        return _inverse(event.noise_multiplier)
    if isinstance(event, dp_event.RandomizedResponseDpEvent) and event.noise_parameter <= 1.0 <= event.num_buckets:
        odds = event.num_buckets * (1.0 - event.noise_parameter)  # times 1/p: those of the true answer, less 1
        return math.log1p(odds * _inverse(event.noise_parameter)) * (1.0 + 1e-15) if odds > 0.0 else 0.0
    if isinstance(event, dp_event.NonPrivateDpEvent):
        return math.inf
    return refuse("event", got=repr(event), needed="Gaussian, Laplace, randomized response", try_="its pure epsilon")


def _dominating(epsilon: float) -> dp_event.DpEvent:
    """Two-way randomized response dominates every pure mechanism of its epsilon; no Rényi divergence is above that."""
    if epsilon > PLD_MAX_LOSS:
        return dp_event.ZCDpEvent(rho=0.0, xi=epsilon)
    return dp_event.RandomizedResponseDpEvent(2.0 / (1.0 + math.exp(epsilon)), 2)


def _distribution(event: Event, interval: float, connect_dots: bool = True) -> pld.PrivacyLossDistribution:
    """The pessimistic loss distribution of one pure event; of a bare epsilon, the one that dominates all."""
    if isinstance(event, dp_event.LaplaceDpEvent):  # without dots it is looser, and has no stray mass at infinity
        return pld.from_laplace_mechanism(event.noise_multiplier, 1.0, True, interval, 1.0, connect_dots)
    if isinstance(event, dp_event.RandomizedResponseDpEvent):
        return pld.from_randomized_response(event.noise_parameter, event.num_buckets, True, interval)
    return pld.from_privacy_parameters(common.DifferentialPrivacyParameters(_pure_epsilon(event), 0.0), interval)


def _inverse(value: float) -> float:
    """1 / value, rounded up."""
    inverse = math.inf if checked("noise", value) == 0.0 else 1.0 / value
    return inverse if inverse in (0.0, math.inf) or Fraction(inverse) * Fraction(value) >= 1 else rounded_up(inverse)


def _sum(terms: list[float]) -> float:
    """The exact sum, rounded up: one pure epsilon alone stays what it is."""
    total = math.fsum(terms)
    return total if total == math.inf or math.fsum([*terms, -total]) <= 0.0 else rounded_up(total)
