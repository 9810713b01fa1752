"""Public room: what an attacker can at best achieve against a ledger's posts, from the theory of hypothesis tests.

The attacker knows everything except whether one unit is in the data, and tests for it. ``false_alarms`` is the share of
absent units that the test accuses, ``detected`` the share of present ones. For Gaussian posts of total mu no test detects
more than 1 - G_mu(false_alarms), G_mu(a) = Phi(Phi^-1(1 - a) - mu) (Dong, Roth and Su 2019). A private selection with
chance d of betraying an item adds at most d; for pure mechanisms the two lines of (epsilon, delta) are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtr, ndtri

from lowkey.privacy.plan import Line
from lowkey.report.contents import Attack, Detection

FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)


def most_detected(false_alarms: float, lines: Sequence[Line], mu: float, epsilon: float, delta: float) -> float:
    """The largest share of present units that any test with these false alarms detects."""
    bound = two_line_detected(false_alarms, epsilon, delta)
    if is_gaussian(lines):
        own = sum(line.mechanism.own_delta for line in lines)
        one_way = _gaussian_detected(false_alarms, mu) + own  # the present unit's own items were betrayed
        other_way = _gaussian_detected(min(1.0, false_alarms + own), mu)
        bound = min(bound, max(one_way, other_way))
    return min(1.0, bound)


def best_success(lines: Sequence[Line], mu: float, epsilon: float, delta: float) -> float:
    """The best share of right guesses, when present and absent are equally likely before."""
    basic = basic_success(epsilon, delta)
    if not is_gaussian(lines):
        return basic
    own = sum(line.mechanism.own_delta for line in lines)
    return min(basic, float(ndtr(mu / 2.0)) + own / 2.0)


def basic_success(epsilon: float, delta: float) -> float:
    """e^eps/(1 + e^eps), plus what delta adds: (1 + (e^eps - 1 + 2 delta)/(e^eps + 1))/2."""
    odds = math.exp(-epsilon)
    return (1.0 + delta * odds) / (1.0 + odds)


def two_line_detected(false_alarms: float, epsilon: float, delta: float) -> float:
    """min(e^eps a + delta, 1 - e^-eps (1 - delta - a)): what (epsilon, delta) alone says."""
    growth = math.exp(min(epsilon, 700.0))
    return min(1.0, growth * false_alarms + delta, 1.0 - (1.0 - delta - false_alarms) / growth)


def is_gaussian(lines: Sequence[Line]) -> bool:
    return all(line.mechanism.mu > 0.0 for line in lines)


def describe_attack(lines: Sequence[Line], mu: float, epsilon: float, delta: float, unit: str) -> Attack:
    best = best_success(lines, mu, epsilon, delta)
    at_five = most_detected(0.05, lines, mu, epsilon, delta)
    words = (
        f"Take 100 {unit}s, of whom a fair coin put each into the data or left them out. An attacker who sees the release "
        f"and knows everything else, even all the other data, guesses at most {percent(best)} of them right on average; "
        f"tossing the coin again gets 50 %. If the attacker may falsely accuse 5 % of those left out, at most "
        f"{percent(at_five)} of those who are in the data are found; accusing people at random would find 5 %."
    )
    return Attack(
        basic_success=basic_success(epsilon, delta),
        best_success=best,
        in_words=words,
        detections=tuple(
            Detection(false_alarms=a, detected=most_detected(a, lines, mu, epsilon, delta)) for a in FALSE_ALARMS
        ),
        trade_off=f"the Gaussian trade-off curve at mu = {mu:.6g}"
        if is_gaussian(lines)
        else "the two lines of (epsilon, delta)",
    )


def statement(attack: Attack, unit: str) -> str:
    """One plain sentence for people who do not know the letters."""
    return (
        f"Whoever sees this release, and knows that it was made either with or without one {unit}'s data, can guess which "
        f"with at most {percent(attack.best_success)} success, whatever else they know; tossing a coin succeeds in 50 %."
    )


def percent(share: float) -> str:
    """A bound in percent, rounded up."""
    return f"{math.ceil(share * 1000.0 - 1e-9) / 10.0:.1f} %"


def _gaussian_detected(false_alarms: float, mu: float) -> float:
    return float(ndtr(mu - ndtri(1.0 - false_alarms))) if 0.0 < false_alarms < 1.0 else float(false_alarms >= 1.0)
