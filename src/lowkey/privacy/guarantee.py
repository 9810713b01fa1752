"""Gate room: what is promised, to whom, and under which conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowkey.privacy.price import Price, at_most, percent
from lowkey.privacy.sums import Adjacency
from lowkey.privacy.unit import Unit

OUTSIDE = (
    "Running time, error messages, exit codes and logs are seen by the curator alone and are outside the guarantee.",
    "What a user's own device computes from the release and the user's own history is that user's, and not released.",
)


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, with everything that the two numbers leave out.

    Examples
    --------
    >>> print(model.guarantee_)  # doctest: +SKIP
    >>> model.guarantee_.sentence()  # doctest: +SKIP
    """

    price: Price
    unit: Unit
    public: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    trust: str = "central: the curator sees the ratings, adds the noise and publishes only noisy sums"
    noise_is_private: bool = True

    @property
    def epsilon(self) -> float:
        return self.price.epsilon

    @property
    def delta(self) -> float:
        return self.price.delta

    @property
    def mu(self) -> float:
        return self.price.mu

    @property
    def adjacency(self) -> Adjacency:
        return self.unit.neighbours

    def sentence(self) -> str:
        """One plain sentence for people who do not know the letters: the same wherever one is printed."""
        if not self.noise_is_private:
            return "NOT PRIVATE: the noise came from a test seed."
        if math.isinf(self.epsilon):
            return "NOT PRIVATE: no epsilon holds for every data set."
        return (
            f"Whoever sees the release, and knows that it was made either {self.unit.made}, can guess which with at most "
            f"{percent(self.price.best_guess)} success, whatever else they know; tossing a coin succeeds in 50 %."
        )

    def __str__(self) -> str:
        lines = [
            f"epsilon = {at_most(self.epsilon)}, delta = {at_most(self.delta, 3)} (mu = {self.mu:.4g})"
            + ("" if self.noise_is_private else "  ** NOT PRIVATE: test noise **"),
            f"  protects   {self.unit.protected}: {self.unit.compared}",
            f"  trust      {self.trust}",
            *(f"  public     {fact}" for fact in self.public),
            *(f"  caveat     {caveat}" for caveat in self.caveats),
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "delta": self.delta,
            "mu": self.mu,
            "unit": self.unit.name,
            "adjacency": self.adjacency,
            "public": list(self.public),
            "caveats": list(self.caveats),
            "trust": self.trust,
            "noise_is_private": self.noise_is_private,
        }
