"""Public room: how a score becomes the probability of a like, safe in the tails, and the loss that goes with it.

Both links are symmetric, P(dislike | x) = h(-x), so log h and its derivative are all that is needed.

Paper: Li et al. 2021, section 3.2 and equations 2, 3 and 5. Deviates: nowhere.

letter  meaning                          our word
h       probability of a like            Link.probability
L_h     sup of h'/(h (1 - h)), |x| <= a  Link.steepness
b       (1 + Y)/2, noisy or not          responses
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr, ndtr

from lowkey.errors import refuse

Array = NDArray[np.float64]


class Link(ABC):
    """A symmetric, log-concave probability of a like. ``most_curvature`` is the sup over all x of -(ln h)''."""

    most_curvature: float

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def probability(self, x: Array) -> Array:
        """h(x)."""

    @abstractmethod
    def log_probability(self, x: Array) -> Array:
        """ln h(x), also where h underflows."""

    @abstractmethod
    def slope(self, x: Array) -> Array:
        """(ln h)'(x) = h'(x)/h(x) > 0."""

    @abstractmethod
    def steepness(self, bound: float) -> float:
        """sup over |x| <= bound of h'/(h (1 - h)): how far one sign moves its term's derivative."""

    @abstractmethod
    def least_curvature(self, bound: float) -> float:
        """inf over |x| <= bound of -(ln h)'': how strongly convex one observed entry's term is."""


class Logistic(Link):
    """h(x) = 1/(1 + e^-x). h'/(h (1 - h)) = 1 everywhere, and -(ln h)'' = h (1 - h) falls with |x| from 1/4."""

    most_curvature = 0.25

    def probability(self, x: Array) -> Array:
        return expit(x)

    def log_probability(self, x: Array) -> Array:
        return -np.logaddexp(0.0, -x)

    def slope(self, x: Array) -> Array:
        return expit(-x)

    def steepness(self, bound: float) -> float:
        return 1.0

    def least_curvature(self, bound: float) -> float:
        return float(expit(bound) * expit(-bound))


class Probit(Link):
    """h(x) = Phi(x). With the slope s = phi/Phi: h'/(h (1 - h)) = s(x) + s(-x), which grows with |x|, and
    -(ln h)'' = s (s + x), which falls from 1 at minus infinity to 0: its infimum over |x| <= bound is at +bound.
    """

    most_curvature = 1.0

    def probability(self, x: Array) -> Array:
        return ndtr(x)

    def log_probability(self, x: Array) -> Array:
        return log_ndtr(x)

    def slope(self, x: Array) -> Array:
        return np.exp(-0.5 * np.square(x) - 0.5 * math.log(2.0 * math.pi) - log_ndtr(x))

    def steepness(self, bound: float) -> float:
        return float(self.slope(np.array(bound)) + self.slope(np.array(-bound)))

    def least_curvature(self, bound: float) -> float:
        slope = float(self.slope(np.array(bound)))
        return slope * (slope + bound)


LINKS: dict[str, Link] = {"logistic": Logistic(), "probit": Probit()}


def link_of(name: str) -> Link:
    if name not in LINKS:
        refuse("link", got=repr(name), needed=" or ".join(map(repr, LINKS)), try_="link='logistic'")
    return LINKS[name]


class Loss(ABC):
    """A sum of functions of the observed entries, one each."""

    @abstractmethod
    def value(self, x: Array) -> float:
        """The sum at the observed entries ``x``."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """The derivative of each term."""


@dataclass(frozen=True)
class ResponseLoss(Loss):
    """-sum of b ln h(x) + (1 - b) ln h(-x) + tilt x. Linear in b, so noise of mean zero on b is unbiased in the loss.

    For the logistic link it is sum of ln(1 + e^x) - (b + tilt) x: convex whatever b is. For the probit link it is convex
    where 0 <= b <= 1. ``tilt`` is the linear noise term of equation 5.
    """

    link: Link
    responses: Array
    tilt: Array | float = 0.0

    def value(self, x: Array) -> float:
        b, log = self.responses, self.link.log_probability
        return -float(np.sum(b * log(x) + (1.0 - b) * log(-x) + self.tilt * x))

    def gradient(self, x: Array) -> Array:
        b = self.responses
        return (1.0 - b) * self.link.slope(-x) - b * self.link.slope(x) - self.tilt


@dataclass(frozen=True)
class FlippedSignLoss(Loss):
    """-sum of ln c(y x) with c = p + (1 - 2p) h: the likelihood of signs of which a share p was flipped (equation 3).

    Not convex everywhere: far out on the wrong side c flattens to p. ``flipped=0`` is the plain likelihood.
    """

    link: Link
    signs: Array
    flipped: float = 0.0

    def value(self, x: Array) -> float:
        if self.flipped == 0.0:
            return -float(np.sum(self.link.log_probability(self.signs * x)))
        return -float(np.sum(np.log(self._chance(self.signs * x))))

    def gradient(self, x: Array) -> Array:
        z = self.signs * x
        if self.flipped == 0.0:
            return -self.signs * self.link.slope(z)
        kept = (1.0 - 2.0 * self.flipped) * self.link.probability(z)
        return -self.signs * kept * self.link.slope(z) / (self.flipped + kept)

    def _chance(self, z: Array) -> Array:
        return self.flipped + (1.0 - 2.0 * self.flipped) * self.link.probability(z)
