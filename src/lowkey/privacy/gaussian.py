"""Gate room: Gaussian releases as (epsilon, delta), in closed form, always rounded to the safe side.

A Gaussian release that one person moves by at most ``sensitivity`` is mu-GDP with mu = sensitivity / noise_std, and
several are ``total_mu``-GDP together, also adaptively. Their delta(epsilon) is a closed form; ``gaussian_delta``,
``gaussian_epsilon`` and ``gaussian_mu`` read it in three directions. Whatever is not Gaussian: accounting.py.

Paper: Balle and Wang 2018 (arXiv:1805.06530) equation 6; Dong, Roth and Su 2019 (arXiv:1905.02383); for ``rdp_epsilon``
DPALS (Chien et al. 2021) appendix A; for selection the weighted Gaussian of Gopi et al. 2020. Deviates: nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtri  # pyright: ignore[reportMissingTypeStubs]

from lowkey.errors import refuse
from lowkey.privacy.sums import Adjacency

SIDES = {"add-remove": 1, "replace-one": 2}  # whose items a selection can betray
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def total_mu(mus: Iterable[float]) -> float:
    """The mu of several Gaussian releases together: the root of the sum of squares, rounded up."""
    values = [checked("mu", mu) for mu in mus if mu != 0.0]
    return rounded_up(rounded_up(math.hypot(*values))) if len(values) > 1 else sum(values, 0.0)


def mu_of_many(mu: float, times: int) -> float:
    """The root of ``times`` squares, rounded up: the square root and the product are off by half a unit each."""
    return mu if times == 1 or mu == 0.0 else rounded_up(rounded_up(mu * math.sqrt(times)))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta for which mu-GDP is (epsilon, delta)-DP; never below the true value."""
    mu, epsilon = checked("mu", mu), checked("epsilon", epsilon)
    if mu == 0.0 or epsilon == math.inf:
        return 0.0
    return 1.0 if mu == math.inf else min(1.0, rounded_up(math.exp(min(0.0, _log_delta(mu, epsilon)))))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon for which mu-GDP is (epsilon, delta)-DP; never below the true value."""
    mu, delta = checked("mu", mu), checked("delta", delta, below=1.0)
    if mu in (0.0, math.inf) or delta == 0.0:
        return 0.0 if mu == 0.0 else math.inf
    target = math.log(delta)
    if _log_delta(mu, 0.0) <= target:
        return 0.0
    above = rdp_epsilon(mu * mu / 2.0, delta)
    while above < math.inf and _log_delta(mu, above) > target:
        above *= 2.0
    return bisect(lambda epsilon: _log_delta(mu, epsilon) <= target, above, 0.0)


@lru_cache(maxsize=256)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP is (epsilon, delta)-DP; never above the true value."""
    epsilon, delta = checked("epsilon", epsilon), checked("delta", delta, below=1.0)
    if epsilon == math.inf or delta == 0.0:
        return math.inf if epsilon == math.inf else 0.0
    target = math.log(delta)
    above = 2.0 * epsilon / (math.sqrt(2.0 * epsilon - 2.0 * target) + math.sqrt(-2.0 * target)) + delta
    while _log_delta(above, epsilon) <= target:
        above *= 2.0
    inside = 1.0 - 1e-10  # so that gaussian_epsilon(gaussian_mu(epsilon, delta), delta) <= epsilon, to the last bit
    return bisect(lambda mu: _log_delta(mu, epsilon) <= target, 0.0, above) * inside


def rdp_epsilon(rho_squared: float, delta: float) -> float:
    """The papers' Rényi conversion rho^2 + 2 rho sqrt(ln(1/delta)), with rho^2 = mu^2/2: looser than the exact one."""
    rho_squared, delta = checked("rho_squared", rho_squared), checked("delta", delta, below=1.0)
    if rho_squared == 0.0 or delta == 0.0:
        return 0.0 if rho_squared == 0.0 else math.inf
    return rho_squared + 2.0 * math.sqrt(rho_squared) * math.sqrt(-math.log(delta))


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
    return min(1.0, rounded_up(sides * float(np.max(listed * (1.0 + rounding)))))


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


def bisect(holds: Callable[[float], bool], good: float, bad: float, tolerance: float = 1e-13) -> float:
    """The good end of a bracket narrowed to ``tolerance``; ``holds`` was true of it, whatever the rounding between."""
    while abs(good - bad) > tolerance * max(good, bad):
        middle = (good + bad) / 2.0
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _selection(noise_std: float, max_items: int, adjacency: Adjacency) -> tuple[NDArray[np.float64], int]:
    if not 0.0 < noise_std < math.inf:
        refuse("noise_std", got=repr(noise_std), needed="a finite number above 0", try_="1 / (the mu of the counts)")
    if max_items < 1:
        refuse("max_items", got=repr(max_items), needed="1 or more", try_="the largest number of items of one user")
    if adjacency not in SIDES:
        refuse("adjacency", got=repr(adjacency), needed=" or ".join(SIDES), try_="adjacency='add-remove'")
    return np.arange(1.0, max_items + 1.0), SIDES[adjacency]


def rounded_up(value: float) -> float:
    return math.nextafter(value, math.inf)


def checked(what: str, value: float, below: float = math.inf) -> float:
    if not 0.0 <= value < below and not value == below == math.inf:
        needed = "a number of 0 or more" + ("" if below == math.inf else f" and below {below:g}")
        refuse(what, got=repr(value), needed=needed, try_="1e-6" if what == "delta" else "1.0")
    return float(value)
