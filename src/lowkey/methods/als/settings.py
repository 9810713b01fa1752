"""Public room: what DPALS fills in where it was given nothing: a function of the budget, the expected users and the items;
and the ridges for ratings, of what was posted: how well users are fitted, and how much they rated.

Paper: DPALS (Chien et al. 2021), Table 4, for the order of magnitude. Deviates: the values were set on public data, by
hand; which and how is in ``docs/dpals.md``. The best ridge is the variance of the ratings' noise over that of a factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowkey.data.domain import Domain
from lowkey.methods.base import Budget, Settings
from lowkey.methods.choice import crowd_signal

RANK_PER_ROOT, LARGEST_RANK = 0.35, 16  # the rank for ratings: of the root of the signal
SMALLEST_HEAD = 100  # items, for binary feedback
USUAL_SIGNAL = 1000.0  # at mu = 1, where the domain does not say how many users are expected
LARGE_SIGNAL = 1000.0  # from here on the noise no longer decides everything
ROW_BOUND = 0.2  # of the rating range: a user's weighted root mean square residual
BINARY_RANK = 64
USERS_PER_REG = 2200.0  # the items' ridge for binary feedback


@dataclass(frozen=True, kw_only=True)
class ALSSettings(Settings):
    rank: int
    n_iter: int
    reg: float
    learns_reg: bool  # the items' ridge follows the posted weight of all ratings, up to ``reg``
    reg_per_noise: float
    user_reg: float
    first_user_reg: float  # in the first round, on random factors
    serving_reg: float
    learns_user_reg: bool  # users also say how well they are fitted, so that their ridge follows the noise of the ratings
    unobserved_weight: float
    item_reg_share: float  # of unobserved_weight, on the items' side
    serving_weight: float  # unobserved_weight when a model is used
    max_ratings: int | None
    weight_exponent: float
    head: float
    row_bound: float
    offset_reg: float | None
    bias_share: float
    gram_share: float
    growth: float
    fill: float
    noise_ridge: float
    start: str
    start_share: float

    def told(self) -> dict[str, Any]:
        return {"rank": self.rank, "n_iter": self.n_iter, "row_bound": self.row_bound}

    @property
    def head_size(self) -> int:
        """How many items get factors."""
        return min(self.n_items, max(self.rank, round(self.head * self.n_items)))


def default_settings(domain: Domain, budget: Budget, start: str | None) -> ALSSettings:
    """A function of the budget, the expected users and the items; what is fixed was set on public data (docs/dpals.md).

    ``start`` is the one that was asked for, if any: from a random one it takes more rounds.
    """
    mu = budget.signal
    signal = USUAL_SIGNAL * mu if domain.expected_users is None else crowd_signal(domain, mu)
    make = _for_binary if domain.kind == "binary" else _for_ratings
    return ALSSettings(domain=domain, budget=budget, **make(domain, signal, start))


def _for_binary(domain: Domain, signal: float, start: str | None) -> dict[str, Any]:
    much, spectral = signal >= LARGE_SIGNAL, start != "random"
    return {
        "rank": min(BINARY_RANK, domain.n_items),
        "n_iter": (2 if much else 1) if spectral else (4 if much else 3),
        # A ridge in users: the same people ten times over need ten times the ridge.
        "reg": 5.0 if domain.expected_users is None else max(1.0, domain.expected_users / USERS_PER_REG),
        "learns_reg": False,
        "reg_per_noise": 0.0,
        "user_reg": 1.0,
        "first_user_reg": 0.1 if spectral else 1e3,
        "serving_reg": 15.0,
        "learns_user_reg": False,
        "unobserved_weight": 0.1,
        "item_reg_share": 1.0,
        "serving_weight": 0.5 if much else 2.0,
        "max_ratings": None,
        "weight_exponent": 0.4,
        "head": min(max(0.35 if much else 0.3, SMALLEST_HEAD / domain.n_items), 1.0),
        "row_bound": 1.0,  # targets are 1, and weights have norm 1
        "offset_reg": None,
        "bias_share": 0.03,
        "gram_share": 0.3 if much else 0.1,
        "growth": 2.0,
        "fill": 1.0,
        "noise_ridge": 2.0,
        "start": "spectral" if spectral else "random",
        "start_share": 0.25 if much else 0.6,
    }


def _for_ratings(domain: Domain, signal: float, start: str | None) -> dict[str, Any]:
    assert domain.rating_range is not None
    low, high = domain.rating_range
    much = signal >= LARGE_SIGNAL
    # Directions share a round's budget, and Gram matrices have the square of their number.
    rank = max(2, min(round(RANK_PER_ROOT * math.sqrt(min(signal, 1e6))), LARGEST_RANK))
    return {
        "rank": min(rank, domain.n_items),
        "n_iter": 8 if much else 6,
        "reg": 10.0,
        "learns_reg": True,
        "reg_per_noise": 1.6,
        "user_reg": 1.5 * rank,
        "first_user_reg": 1.0,
        "serving_reg": 2.5 * rank,
        "learns_user_reg": True,
        "unobserved_weight": 0.0,
        "item_reg_share": 0.0,
        "serving_weight": 0.0,
        "max_ratings": None,
        "weight_exponent": 0.25,
        "head": 1.0,
        "row_bound": ROW_BOUND * (high - low),
        "offset_reg": 5.0,
        "bias_share": 0.1,
        "gram_share": 0.3,
        "growth": 1.5,
        "fill": 0.8,
        "noise_ridge": 0.5 if much else 0.7,
        "start": "random" if start is None else start,
        "start_share": 0.1,
    }


USUAL_MISFIT = 0.11  # of the rating range, root mean square: users who are fitted better than this get a smaller ridge
MOST_MISFIT = 8.0  # times the usual mean square: what one user can say
SERVING_SHARE = 0.7  # of the ridge that would be best if item factors had no error


def usual_misfit(domain: Domain) -> float:
    """The variance of ratings about their fit from which on the default ridges are right."""
    assert domain.rating_range is not None
    return (USUAL_MISFIT * (domain.rating_range[1] - domain.rating_range[0])) ** 2


def user_regs(domain: Domain, usual: ALSSettings, noise: float, inverse_size: float) -> dict[str, float]:
    """Ridges for users: ``noise`` is their posted misfit over the usual one, 1/``inverse_size`` their root mean square.

    A coordinate of their factors has variance 1/(rank inverse_size^2). In training the misfit, which users who were
    trained on make too small, only lowers the default; users who are new get at least that.
    """
    trained = min(noise, 1.0)
    best = noise * usual_misfit(domain) * usual.rank * inverse_size**2
    return {"user_reg": trained * usual.user_reg, "serving_reg": max(trained * usual.serving_reg, SERVING_SHARE * best)}


def noise_reg(domain: Domain, weight: float, user_reg: float) -> float:
    """The items' ridge, but for a constant, if all ratings together have ``weight``.

    Two ridges are a penalty of 2 sqrt(user_reg reg) on singular values (Srebro et al. 2004), and ratings with noise of
    variance s^2 have singular values of s sqrt(weight per item) made of it: reg is s^2 weight per item / user_reg.
    """
    return usual_misfit(domain) * weight / domain.n_items / user_reg
