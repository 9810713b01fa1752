"""Public room: what can be expected of a release before anything is spent, from public facts alone.

The share of what lists gain over most-popular without noise that is left with it: 1/(1 + (half/x)^POWER), x = mu * users
the crowd that is heard through the noise and half = SCALE sqrt(items) (1 + SHORT/ratings of a user) the crowd at which half
is left. The three constants were set on cut-down crowds of MovieLens-100K and Microsoft Web (docs/lists.md); they are a
rule of thumb, and a rough one: ``python -m lowkey_lab.feasible`` holds it against crowds that it was not made from.
"""

from __future__ import annotations

import math

from lowkey.data.domain import Domain
from lowkey.privacy.gaussian import gaussian_mu

SCALE, SHORT, POWER = 18.0, 13.0, 1.3
USUAL_RATINGS = 50.0  # of a user: private, and not known before
LITTLE, MUCH = 0.25, 0.75  # shares that are called so


def kept_share(users: float, n_items: int, mu: float, ratings: float = USUAL_RATINGS) -> float:
    """The share of the gain without noise that can be expected, 0 to 1."""
    if users <= 0.0 or mu <= 0.0:
        return 0.0
    half = SCALE * math.sqrt(n_items) * (1.0 + SHORT / ratings)
    return 1.0 / (1.0 + (half / (mu * users)) ** POWER)


def expectation(domain: Domain, epsilon: float, delta: float) -> str:
    """One sentence on what lists will be worth, and what would change it."""
    if domain.expected_users is None:
        return "How good lists can be depends on the number of users: --expected-users says what to expect."
    mu, users = gaussian_mu(epsilon, delta), domain.expected_users
    share = kept_share(users, domain.n_items, mu)
    facts = f"{users:,} users, {domain.n_items:,} items, epsilon {epsilon:g}"
    if share >= MUCH:
        return f"{facts}: lists should be nearly as good as without noise ({share:.0%} of the gain over most-popular)."
    wanted = MUCH if share >= LITTLE else 0.5
    factor = _crowd_for(wanted, domain.n_items) / (mu * users)
    better = f"epsilon {_epsilon_for(mu * factor, delta):.2g} or {_rounded(users * factor):,} users"
    if share < LITTLE:
        return f"{facts}: lists will be little better than most-popular; {better} would change that."
    return f"{facts}: lists should keep about {share:.0%} of their gain over most-popular; {better}, {wanted:.0%}."


def _crowd_for(share: float, n_items: int) -> float:
    """mu * users at which this share is kept."""
    return SCALE * math.sqrt(n_items) * (1.0 + SHORT / USUAL_RATINGS) * (share / (1.0 - share)) ** (1.0 / POWER)


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
