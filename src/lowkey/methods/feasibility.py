"""Public room: what can be expected of a release before anything is spent, from public facts alone.

Of what lists gain over most-popular without noise, a share is left with it: 1/(1 + (half/x)^POWER), x = mu * users
the crowd that is heard through the noise, and half = HALF sqrt(n_items) the crowd at which half is left. Public facts do
not say what tastes there are, and crowds that look alike from outside keep very different shares; so there are three of
``HALF``, and about eight of ten crowds lie between the first and the last. The constants come from
``python -m lowkey_lab.feasible --fit``, and ``python -m lowkey_lab.feasible`` tries them on other crowds (docs/lists.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lowkey.data.domain import Domain
from lowkey.methods.base import Budget
from lowkey.methods.choice import LEAST_SIGNAL, crowd_signal, default_method
from lowkey.methods.lists.heard import FEWEST
from lowkey.privacy.gaussian import gaussian_mu

HALF = (366.6, 119.9, 22.6)
POWER = 1.80
LITTLE, MUCH = 0.25, 0.75  # shares that are called so
SAFE = 0.65  # below, it is said that lists may end behind most-popular
NOT_KNOWN = "Whether tastes differ enough to gain anything is not known before."


class Share(NamedTuple):
    """Of the gain without noise: nine of ten crowds keep more than ``low``, half of them ``usual``, and one ``high``."""

    low: float
    usual: float
    high: float

    @property
    def may_be_behind(self) -> bool:
        """Than most-popular: what is said unless nearly all crowds keep enough."""
        return self.low < SAFE


def expected_share(crowd: float, n_items: int) -> Share:
    """0 to 1, of the gain without noise; ``crowd`` is users times mu."""
    if crowd < FEWEST:  # then only counts are posted
        return Share(0.0, 0.0, 0.0)
    return Share(*(1.0 / (1.0 + (half * math.sqrt(n_items) / crowd) ** POWER) for half in HALF))


def expectation(domain: Domain, epsilon: float, delta: float, goal: str = "lists", adjacency: str = "add-remove") -> str:
    """What a release by default will be worth, and what would change it."""
    if domain.expected_users is None:
        return f"How good {goal} can be depends on the number of users: --expected-users says what to expect."
    mu = gaussian_mu(epsilon, delta)
    facts = f"{domain.expected_users:,} users, {domain.n_items:,} items, epsilon {epsilon:g}"
    if goal == "ratings":
        return f"{facts}: {_of_ratings(domain, epsilon, delta)}"
    signal = Budget(epsilon, delta, adjacency, mu).signal
    return f"{facts}: {_of_lists(domain, domain.expected_users * signal, mu, delta)} {NOT_KNOWN}"


def _of_lists(domain: Domain, crowd: float, mu: float, delta: float) -> str:
    share = expected_share(crowd, domain.n_items)
    most = f"most crowds keep {share.low:.0%} to {share.high:.0%} of the gain"
    if share.low >= MUCH:
        return f"lists should be nearly as good as without noise ({most})."
    wanted = MUCH if share.usual >= LITTLE else 0.5
    better = _more(domain, mu, delta, _crowd_for(wanted, domain.n_items) / crowd)
    risk = " They may end behind most-popular." if share.may_be_behind else ""
    if crowd < FEWEST:
        return (
            f"lists will be most-popular by noisy counts, as more is not heard of so few; {better} would change that.{risk}"
        )
    if share.usual < LITTLE:
        return f"lists will be little better than most-popular ({most}); {better} would change that.{risk}"
    return (
        f"lists should keep about {share.usual:.0%} of their gain over most-popular ({most}); {better}, {wanted:.0%}.{risk}"
    )


def _of_ratings(domain: Domain, epsilon: float, delta: float) -> str:
    """By the public rule (``methods.choice``): how much is gained over means is not said: public facts do not tell."""
    mu = gaussian_mu(epsilon, delta)
    heard = crowd_signal(domain, mu) / LEAST_SIGNAL
    if default_method(domain, epsilon, delta, "ratings") == "bias":
        better = _more(domain, mu, delta, 1.0 / heard)
        return f"ratings will be item means and each user's own level; {better} would add tastes."
    return f"the crowd is {heard:.2g} times the least that tastes are learnt from; where noise drowns them, means are left."


def _more(domain: Domain, mu: float, delta: float, times: float) -> str:
    """Than there is: an epsilon or users with which so many times as much is heard."""
    return f"epsilon {_epsilon_for(mu * times, delta):.2g} or {_rounded((domain.expected_users or 0) * times):,} users"


def _crowd_for(share: float, n_items: int) -> float:
    """mu * users at which this share is usual."""
    return max(HALF[1] * math.sqrt(n_items) * (share / (1.0 - share)) ** (1.0 / POWER), FEWEST)


def _epsilon_for(mu: float, delta: float) -> float:
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_mu(middle, delta) < mu else (low, middle)
    return high


def _rounded(users: float) -> int:
    """To two digits, up."""
    digits = 10 ** max(math.floor(math.log10(max(users, 1.0))) - 1, 0)
    return math.ceil(users / digits) * digits
