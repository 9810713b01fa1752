"""Gate room: what a list of posts costs in all, and what the best attacker gets for that price.

The attacker knows everything except which of two neighbouring data sets was used, and tests for it. ``false_alarms`` is
the share of the ones that the test takes for the others. For Gaussian posts of total mu no test detects more than
1 - G_mu(false_alarms), G_mu(a) = Phi(Phi^-1(1 - a) - mu), and no guess is right more often than Phi(mu/2) (Dong, Roth and
Su 2019): exact, and tighter than what (epsilon, delta) says. A private selection with chance d of betraying an item adds
at most d. For other posts the two lines of (epsilon, delta) are used. Every "at most" in the package is computed here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import TYPE_CHECKING

from scipy.special import ndtr, ndtri  # pyright: ignore[reportMissingTypeStubs]

from lowkey.errors import PlanError
from lowkey.privacy.gaussian import gaussian_epsilon, mu_of_many, total_mu
from lowkey.privacy.noise import log_ratio

if TYPE_CHECKING:
    from lowkey.privacy.plan import Line

MOST_POSTS = 10**6  # on one ledger: above it, adding up would take time or memory without bound
ROUNDING = 1.0 + 1e-12  # of the normal distribution's functions


@dataclass(frozen=True)
class Price:
    """(epsilon, delta) of posts together; with ``gaussian`` also their whole trade-off curve, from ``mu``."""

    epsilon: float
    delta: float
    mu: float
    gaussian: bool = False  # every post is Gaussian, so that mu says everything
    own_delta: float = 0.0  # of private selections: part of delta
    slack: float = 0.0  # how far the sampler's log-probabilities may be off: part of epsilon

    def never(self) -> Price:
        """The price where no epsilon holds, whatever the noise."""
        return replace(self, epsilon=math.inf, gaussian=False)

    @property
    def best_guess(self) -> float:
        """The largest share of right guesses, when both data sets are equally likely before."""
        odds = math.exp(-self.epsilon)
        basic = (1.0 + self.delta * odds) / (1.0 + odds)  # (e^eps + delta)/(1 + e^eps), Kairouz et al. 2015
        if not self.gaussian:
            return min(1.0, basic)
        exact = (float(ndtr(self.mu / 2.0)) + self.own_delta / 2.0) * self._sampled
        return min(1.0, basic, exact)

    def detected(self, false_alarms: float) -> float:
        """The largest share of the ones that any test detects which accuses this share of the others."""
        growth = math.exp(min(self.epsilon, 700.0))
        bound = min(growth * false_alarms + self.delta, 1.0 - (1.0 - self.delta - false_alarms) / growth)
        if self.gaussian:
            one_way = self._curve(false_alarms) + self.own_delta  # the present unit's own items were betrayed
            other_way = self._curve(min(1.0, false_alarms + self.own_delta))
            bound = min(bound, max(one_way, other_way))
        return min(1.0, bound)

    @property
    def trade_off(self) -> str:
        """How the bounds above were computed."""
        return (
            f"the Gaussian trade-off curve at mu = {self.mu:.6g}" if self.gaussian else "the two lines of (epsilon, delta)"
        )

    def _curve(self, false_alarms: float) -> float:
        # The sampled law is within e^slack of the ideal one, on both sides: for its false alarms and what it detects.
        alarms = false_alarms * self._sampled
        if not 0.0 < alarms < 1.0:
            return float(alarms >= 1.0)
        return min(1.0, float(ndtr(self.mu - ndtri(1.0 - alarms))) * self._sampled)

    @property
    def _sampled(self) -> float:
        return math.exp(self.slack) * ROUNDING


def price(lines: Iterable[Line], delta: float) -> Price:
    """The composed price of ``lines`` at ``delta``: exact for Gaussian posts, plus what the sampler's resolution costs.

    Let P' be the sampled law and P the ideal one. Outside a set of probability below 1e-30, |log P'/P| <= a =
    ``log_ratio``, for both neighbours, so P'(S) <= e^a P(S) <= e^a (e^eps Q(S) + delta) <= e^(eps + 2a) Q'(S) + e^a delta.
    """
    lines = tuple(lines)
    for line in lines:
        if not line.mechanism.mu + line.mechanism.epsilon > 0.0:
            raise PlanError(
                what=f"{line.name!r} has no price",
                got=f"a mechanism {line.mechanism.kind!r} that costs nothing",
                needed="a mu or an epsilon above 0",
                try_="leaving the post out, if it really tells nothing",
            )
    if sum(line.times for line in lines) > MOST_POSTS:
        raise PlanError(
            what="posts without end", got="more than are ever made", needed=f"at most {MOST_POSTS}", try_="fewer of them"
        )
    own_delta = sum(line.times * line.mechanism.own_delta for line in lines)
    mu = total_mu(mu_of_many(line.mechanism.mu, line.times) for line in lines)
    if not lines or math.isinf(mu):
        return Price(math.inf if lines else 0.0, delta, mu)
    slack = log_ratio(sum(line.times * line.size for line in lines), mu)
    left = (delta - own_delta) * (1.0 - 2.0 * slack) - (1e-30 if delta else 0.0)
    if left < 0.0 or (left == 0.0 and mu > 0.0):
        raise PlanError(
            what="delta is used up by private selection",
            got=f"delta = {delta:g} with {own_delta:g} of it for the selection",
            needed="a larger total",
            try_="raise delta or select with a smaller share of it",
        )
    pure = [epsilon for line in lines for _ in range(line.times) if (epsilon := line.mechanism.epsilon) > 0.0]
    if pure:  # whoever reads a release of Gaussian posts need not wait for dp_accounting
        from lowkey.privacy.accounting import composed_epsilon

        epsilon = composed_epsilon(mu, pure, left)
    else:
        epsilon = gaussian_epsilon(mu, left)
    return Price(epsilon + 2.0 * slack, delta, mu, not pure, own_delta, slack)


def percent(share: float) -> str:
    """A bound in percent, rounded up."""
    return f"{(Decimal(repr(share)) * 100).quantize(Decimal('0.1'), ROUND_CEILING)} %"


def at_most(bound: float, digits: int = 6) -> str:
    """A bound to so many digits, rounded up: what is printed holds."""
    if not math.isfinite(bound):
        return f"{bound:g}"
    return f"{float(Context(digits, ROUND_CEILING).create_decimal(repr(bound))):.{digits}g}"
