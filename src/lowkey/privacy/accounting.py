"""Gate room: what releases cost together, as (epsilon, delta), always rounded to the safe side.

A Gaussian release that one person moves by at most ``sensitivity`` is mu-GDP with mu = sensitivity / noise_std, and
several are ``total_mu``-GDP together, also adaptively. Their delta(epsilon) is a closed form; ``gaussian_delta``,
``gaussian_epsilon`` and ``gaussian_mu`` read it in three directions. What is not Gaussian is a dp_accounting event, or
a bare number (the epsilon of a pure mechanism), and goes through ``composed_epsilon``.

One convention: a mu, an event's noise multiplier and a pure epsilon hold *under the adjacency in force*, so nothing
here asks which one it is. dp_accounting's PLDAccountant (0.6.0) does not share it: it doubles a Gaussian's sensitivity
under REPLACE_ONE, refuses Laplace there and randomized response elsewhere, and prices a self-composed randomized
response as if it ran once. So events are taken apart here and composed as dp_accounting's loss distributions.

Paper: Balle and Wang 2018 (arXiv:1805.06530) equation 6; Dong, Roth and Su 2019 (arXiv:1905.02383); for ``rdp_epsilon``
DPALS (Chien et al. 2021) appendix A; for selection the weighted Gaussian of Gopi et al. 2020. Deviates: nowhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from dp_accounting import dp_event  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.pld import common  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.pld import privacy_loss_distribution as pld  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.privacy_accountant import NeighboringRelation  # pyright: ignore[reportMissingTypeStubs]
from dp_accounting.rdp import RdpAccountant  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtri  # pyright: ignore[reportMissingTypeStubs]

from lowkey.errors import refuse
from lowkey.privacy.sums import Adjacency

Event = dp_event.DpEvent | float  # a float is the epsilon of a pure mechanism

SIDES = {"add-remove": 1, "replace-one": 2}  # whose items a selection can betray
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
PLD_POINTS = 20_000  # on the axis of losses, at least
PLD_MAX_LOSS = 600.0  # e^loss must stay far from overflow


def total_mu(mus: Iterable[float]) -> float:
    """The mu of several Gaussian releases together: the root of the sum of squares, rounded up."""
    values = [_checked("mu", mu) for mu in mus if mu != 0.0]
    return _up(_up(math.hypot(*values))) if len(values) > 1 else sum(values, 0.0)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta for which mu-GDP is (epsilon, delta)-DP; never below the true value."""
    mu, epsilon = _checked("mu", mu), _checked("epsilon", epsilon)
    if mu == 0.0 or epsilon == math.inf:
        return 0.0
    return 1.0 if mu == math.inf else min(1.0, _up(math.exp(min(0.0, _log_delta(mu, epsilon)))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP is (epsilon, delta)-DP; never below the true value."""
    mu, delta = _checked("mu", mu), _checked("delta", delta, below=1.0)
    if mu in (0.0, math.inf) or delta == 0.0:
        return 0.0 if mu == 0.0 else math.inf
    target = math.log(delta)
    if _log_delta(mu, 0.0) <= target:
        return 0.0
    above = rdp_epsilon(mu * mu / 2.0, delta)
    while above < math.inf and _log_delta(mu, above) > target:
        above *= 2.0
    return _bisect(lambda epsilon: _log_delta(mu, epsilon) <= target, above, 0.0)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP is (epsilon, delta)-DP; never above the true value."""
    epsilon, delta = _checked("epsilon", epsilon), _checked("delta", delta, below=1.0)
    if epsilon == math.inf or delta == 0.0:
        return math.inf if epsilon == math.inf else 0.0
    target = math.log(delta)
    above = 2.0 * epsilon / (math.sqrt(2.0 * epsilon - 2.0 * target) + math.sqrt(-2.0 * target)) + delta
    while _log_delta(above, epsilon) <= target:
        above *= 2.0
    inside = 1.0 - 1e-10  # so that gaussian_epsilon(gaussian_mu(epsilon, delta), delta) <= epsilon, to the last bit
    return _bisect(lambda mu: _log_delta(mu, epsilon) <= target, 0.0, above) * inside


def rdp_epsilon(rho_squared: float, delta: float) -> float:
    """The papers' Rényi conversion rho^2 + 2 rho sqrt(ln(1/delta)), with rho^2 = mu^2/2: looser than the exact one."""
    rho_squared, delta = _checked("rho_squared", rho_squared), _checked("delta", delta, below=1.0)
    if rho_squared == 0.0 or delta == 0.0:
        return 0.0 if rho_squared == 0.0 else math.inf
    return rho_squared + 2.0 * math.sqrt(rho_squared) * math.sqrt(-math.log(delta))


def composed_epsilon(mu: float, events: Sequence[Event], delta: float) -> float:
    """Epsilon, at ``delta``, of Gaussian releases of total ``mu`` and of ``events``, composed (also adaptively).

    Events: Gaussian (they join ``mu``), Laplace, randomized response, pure epsilons, and compositions of these. The
    smaller of two upper bounds: the Gaussian part at ``delta`` plus the sum of the pure epsilons, which also answers
    delta = 0; and the pessimistic loss distribution of dp_accounting, where its own rounding is well below ``delta``.
    """
    gaussian, pure = _merged(mu, events)
    delta = _checked("delta", delta, below=1.0)
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
    return largest if fits(largest) else _bisect(fits, least, largest, tolerance=1e-4)


def second_opinion(mu: float, events: Sequence[Event], delta: float) -> float:
    """An upper bound on the same epsilon by another road, from dp_accounting alone, to hold against what was booked.

    Gaussians only: their discretised loss distribution, within 1e-5 of the closed form up to mu = 200. Otherwise the
    Rényi accountant; and for pure events alone also the sum of the epsilons read off their loss distributions.
    """
    gaussian, pure = _merged(mu, events)
    delta = _checked("delta", delta, below=1.0)
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
        opinions.append(0.0 if holds(0.0) else _bisect(holds, opinions[0], 0.0, tolerance=1e-8))
    if gaussian == 0.0 and largest < PLD_MAX_LOSS:
        singles = [(_distribution(event, _pure_epsilon(event) / 2.0**13, False), n) for event, n in pure.items()]
        opinions.append(sum(n * float(single.get_epsilon_for_delta(0.0)) for single, n in singles))
    return min(opinions)


def selection_delta(noise_std: float, threshold: float, max_items: int, *, adjacency: Adjacency = "add-remove") -> float:
    """The chance that noisy item counts over a threshold list an item which one user alone has; never below the truth.

    A user with m <= max_items items adds 1/sqrt(m) to each: a vector of norm 1, so on the items that others have too
    the counts are a Gaussian release. An item that nobody else has is listed if its own noise lifts 1/sqrt(m) over the
    threshold. All m such items stay unlisted with probability Phi((threshold - 1/sqrt(m))/noise_std)^m; delta is the
    rest, at the worst m. It is added to the Gaussian delta. Replace-one: twice, for the user who left and who came.
    """
    items, sides = _selection(noise_std, max_items, adjacency)
    if not math.isfinite(threshold):
        refuse("threshold", got=repr(threshold), needed="a finite number", try_="selection_threshold(...)")
    margins = (threshold - 1.0 / np.sqrt(items)) / noise_std
    listed = -np.expm1(items * log_ndtr(margins))
    rounding = 1e-12 + 1e-15 * (1.0 + np.abs(margins)) * (1.0 + abs(threshold)) / noise_std
    return min(1.0, _up(sides * float(np.max(listed * (1.0 + rounding)))))


def selection_threshold(noise_std: float, max_items: int, delta: float, *, adjacency: Adjacency = "add-remove") -> float:
    """The lowest threshold at which ``selection_delta`` is at most ``delta``: its inverse for each m, the largest."""
    items, sides = _selection(noise_std, max_items, adjacency)
    if not 0.0 < delta < 1.0:
        refuse("delta", got=repr(delta), needed="a number above 0 and below 1", try_="a tenth of the plan's delta")
    tails = -np.expm1(math.log1p(-delta / sides) / items)
    threshold = float(np.max(1.0 / np.sqrt(items) - noise_std * ndtri(tails)))
    step = 1e-13 * (abs(threshold) + noise_std)
    while selection_delta(noise_std, threshold, max_items, adjacency=adjacency) > delta:
        threshold, step = threshold + step, 2.0 * step
    return threshold


def _log_delta(mu: float, epsilon: float) -> float:
    """An upper bound on ln delta(epsilon), by about 2e-12.

    With a = epsilon/mu - mu/2 and b = a + mu: delta = Phi(-a) - e^epsilon Phi(-b) = Phi(-a) (1 - R(b)/R(a)), where
    R(t) = Phi(-t)/phi(t), since e^epsilon phi(b) = phi(a). Where the two nearly cancel, R(a) - R(b) is instead the
    integral of -R'(t) = 1 - t R(t) over [a, b]. The second summand of ``rounding`` is the error of a itself.
    """
    a, b = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    if a > 40.0:  # below the smallest positive float
        return -a * a / 2.0
    rounding = 2e-12 + 4e-16 * (10.0 + abs(a)) * b
    ratio = float(erfcx(b / math.sqrt(2.0))) / float(erfcx(a / math.sqrt(2.0)))  # 0 where the latter overflows
    if ratio < 0.9:
        return float(log_ndtr(-a)) + math.log1p(-ratio) + rounding
    t = a + mu * (NODES + 1.0) / 2.0
    integral = mu / 2.0 * float(WEIGHTS @ (1.0 - t * math.sqrt(math.pi / 2.0) * erfcx(t / math.sqrt(2.0))))
    return math.log(integral) - a * a / 2.0 - math.log(2.0 * math.pi) / 2.0 + rounding


def _bisect(holds: Callable[[float], bool], good: float, bad: float, tolerance: float = 1e-13) -> float:
    """The good end of a bracket narrowed to ``tolerance``; ``holds`` was true of it, whatever the rounding between."""
    while abs(good - bad) > tolerance * max(good, bad):
        middle = (good + bad) / 2.0
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _merged(mu: float, events: Sequence[Event]) -> tuple[float, Counter[Event]]:
    """The Gaussian releases as one mu, and how often each pure event happens."""
    mus = [_checked("mu", mu)]
    pure: Counter[Event] = Counter()
    for event, count in _leaves(events):
        if isinstance(event, dp_event.GaussianDpEvent):
            mus.append(_up(_inverse(event.noise_multiplier) * _up(math.sqrt(count))))
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
            yield event if isinstance(event, dp_event.DpEvent) else _checked("pure epsilon", event), times


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


def _selection(noise_std: float, max_items: int, adjacency: Adjacency) -> tuple[NDArray[np.float64], int]:
    if not 0.0 < noise_std < math.inf:
        refuse("noise_std", got=repr(noise_std), needed="a finite number above 0", try_="1 / (the mu of the counts)")
    if max_items < 1:
        refuse("max_items", got=repr(max_items), needed="1 or more", try_="the largest number of items of one user")
    if adjacency not in SIDES:
        refuse("adjacency", got=repr(adjacency), needed=" or ".join(SIDES), try_="adjacency='add-remove'")
    return np.arange(1.0, max_items + 1.0), SIDES[adjacency]


def _inverse(value: float) -> float:
    """1 / value, rounded up."""
    inverse = math.inf if _checked("noise", value) == 0.0 else 1.0 / value
    return inverse if inverse in (0.0, math.inf) or Fraction(inverse) * Fraction(value) >= 1 else _up(inverse)


def _sum(terms: list[float]) -> float:
    """The exact sum, rounded up: one pure epsilon alone stays what it is."""
    total = math.fsum(terms)
    return total if total == math.inf or math.fsum([*terms, -total]) <= 0.0 else _up(total)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _checked(what: str, value: float, below: float = math.inf) -> float:
    if not 0.0 <= value < below and not value == below == math.inf:
        needed = "a number of 0 or more" + ("" if below == math.inf else f" and below {below:g}")
        refuse(what, got=repr(value), needed=needed, try_="1e-6" if what == "delta" else "1.0")
    return float(value)
