"""Gate room: what is promised, to whom, under which conditions, and what the two numbers are worth in words.

epsilon: the tiers of Ponomareva et al. 2023, "How to DP-fy ML": up to 1 strong, up to 10 reasonable,
above it weak to none. delta: below one over the number of people, by far (Dwork and Roth 2014): a mechanism
that publishes everything of a random person with chance delta satisfies it.
"""

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
STRONG, REASONABLE, NEXT_TO_NOTHING = 1.0, 10.0, 100.0
FAR_BELOW = 0.1  # of one over the number of people
SOURCE = 'thresholds: Ponomareva et al. 2023, "How to DP-fy ML"; Dwork and Roth 2014'


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


@dataclass(frozen=True)
class Verdict:
    """``level``: strong, reasonable, weak or none; ``good``: whether one may be at ease with both numbers."""

    level: str
    epsilon_in_words: str
    delta_in_words: str
    good: bool

    def __str__(self) -> str:
        return f"{self.epsilon_in_words} {self.delta_in_words} ({SOURCE})"


def verdict(epsilon: float, delta: float, people: int | None) -> Verdict:
    """``people`` is the number to expect from public knowledge, if it was given."""
    level = next((name for name, limit in (("strong", STRONG), ("reasonable", REASONABLE)) if epsilon <= limit), "weak")
    level = "none" if epsilon > NEXT_TO_NOTHING else level
    of_epsilon = {
        "strong": f"is a strong promise (at most {STRONG:g})",
        "reasonable": f"is a reasonable promise, and not a strong one (above {STRONG:g}, at most {REASONABLE:g})",
        "weak": f"is a weak promise: above {REASONABLE:g} the mathematics protects little",
        "none": f"promises next to nothing: above {NEXT_TO_NOTHING:g} an attacker may be all but certain",
    }[level]
    good = level in ("strong", "reasonable")
    if people is None:
        of_delta = f"delta = {delta:g} must be far below one over the number of people, which was not stated."
    elif delta * people >= 1.0:
        of_delta = (
            f"delta = {delta:g} is not below one over the {people:,} people to expect: it would allow the publication of "
            "one person's whole row."
        )
    elif delta * people > FAR_BELOW:
        of_delta = f"delta = {delta:g} is below one over the {people:,} people to expect, and not by far."
    else:
        of_delta = f"delta = {delta:g} is far below one over the {people:,} people to expect."
    good = good and (people is None or delta * people <= FAR_BELOW)
    return Verdict(level, f"epsilon = {at_most(epsilon, 4)} {of_epsilon}.", of_delta, good)
