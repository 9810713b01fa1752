"""Gate room: what an epsilon and a delta are worth, in words, with the thresholds and where they come from.

epsilon: the tiers of Ponomareva et al. 2023, "How to DP-fy ML": up to 1 strong, up to 10 reasonable,
above it weak to none. delta: below one over the number of people, by far (Dwork and Roth 2014): a mechanism
that publishes everything of a random person with chance delta satisfies it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowkey.privacy.price import at_most

STRONG, REASONABLE, NEXT_TO_NOTHING = 1.0, 10.0, 100.0
FAR_BELOW = 0.1  # of one over the number of people
SOURCE = 'thresholds: Ponomareva et al. 2023, "How to DP-fy ML"; Dwork and Roth 2014'


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
