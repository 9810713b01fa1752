"""Gate room: what is promised, to whom, and under which conditions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lowkey.privacy.sums import Adjacency

Unit = Literal["user", "rating", "record", "response"]

NEIGHBOURS = {
    "add-remove": "adding or removing one {unit}",
    "replace-one": "replacing one {unit} by another (the number of {unit}s is public)",
}
OUTSIDE = (
    "Running time, error messages, exit codes and logs are seen by the curator alone and are outside the guarantee.",
    "What a user's own device computes from the release and the user's own history is that user's, and not released.",
)


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy, with everything that the two numbers leave out."""

    epsilon: float
    delta: float
    mu: float
    unit: Unit
    adjacency: Adjacency
    public: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    trust: str = "central: the curator sees the ratings, adds the noise and publishes only noisy sums"
    noise_is_private: bool = True

    def sentence(self) -> str:
        """One plain sentence for people who do not know the letters."""
        if not self.noise_is_private:
            return "NOT PRIVATE: the noise came from a test seed."
        if math.isinf(self.epsilon):
            return "NOT PRIVATE: no epsilon holds for every data set."
        wrong = (1.0 - self.delta) / (1.0 + math.exp(min(self.epsilon, 700.0)))  # of the best guess, at least
        return (
            f"Whoever sees the release and knows that it was made either with or without one {self.unit}'s data can "
            f"guess which with at most {100.0 * (1.0 - wrong):.1f} % success (50 % is a coin toss)."
        )

    def __str__(self) -> str:
        lines = [
            f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.3g} (mu = {self.mu:.4g})"
            + ("" if self.noise_is_private else "  ** NOT PRIVATE: test noise **"),
            f"  protects   one {self.unit}: {NEIGHBOURS[self.adjacency].format(unit=self.unit)}",
            f"  trust      {self.trust}",
            *(f"  public     {fact}" for fact in self.public),
            *(f"  caveat     {caveat}" for caveat in self.caveats),
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf"}
