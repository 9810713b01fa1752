"""Gate room: what is promised, to whom, under which conditions, and what the two numbers are worth in words.

A unit says whose data is hidden, what of it, and which data sets are neighbours. Two promises compose only if their
units are equal, and every sentence that is printed about a promise comes from here: "user-level" is never said of a
method that hides a user's values and not where they stand.

epsilon: the tiers of Ponomareva et al. 2023, "How to DP-fy ML": up to 1 strong, up to 10 reasonable,
above it weak to none. delta: below one over the number of people, by far (Dwork and Roth 2014): a mechanism
that publishes everything of a random person with chance delta satisfies it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from lowkey.errors import refuse
from lowkey.privacy.price import Price, at_most, percent
from lowkey.privacy.sums import Adjacency

Whose = Literal["user", "rating", "record"]
What = Literal["everything", "values"]  # values: where they stand is public, and so are all counts
ADJACENCIES = ("add-remove", "replace-one")


@dataclass(frozen=True)
class Words:
    """A unit as people read it, under each of its adjacencies."""

    name: str  # in ledgers, which stay readable for ever
    protected: str
    hidden: str
    crowd: str  # many of them
    compared: dict[str, str]  # "The promise compares …"
    made: dict[str, str]  # "… knows that the release was made either …"


_PLACES = "(who rated what is public)"
WORDS: dict[tuple[str, str], Words] = {
    ("user", "everything"): Words(
        "user",
        "one user",
        "everything that one user contributed: all of the user's ratings together",
        "users",
        {
            "add-remove": "adding or removing one user",
            "replace-one": "replacing one user by another (the number of users is public)",
        },
        {
            "add-remove": "with or without one user's data",
            "replace-one": "with one user's data or with another's in their place",
        },
    ),
    ("user", "values"): Words(
        "user-values",
        "all values of one user",
        "the values of all of one user's ratings together; who rated what is not hidden",
        "users",
        {"replace-one": f"giving the ratings of one user other values {_PLACES}"},
        {"replace-one": f"with the values that one user gave or with others {_PLACES}"},
    ),
    ("rating", "values"): Words(
        "rating",
        "one rating's value",
        "the value of one rating; who rated what is not hidden",
        "ratings",
        {"replace-one": f"giving one rating another value {_PLACES}"},
        {"replace-one": f"with the value that one rating has or with another {_PLACES}"},
    ),
    ("record", "everything"): Words(
        "record",
        "one record",
        "one record",
        "records",
        {"replace-one": "replacing one record by another (the number of records is public)"},
        {"replace-one": "with one record or with another in its place"},
    ),
    ("record", "values"): Words(
        "response",
        "one record's response",
        "the response of one record; its measurement is public",
        "records",
        {"replace-one": "giving one record another response (all measurements are public)"},
        {"replace-one": "with the response that one record has or with another (all measurements are public)"},
    ),
}
WITHHELD: dict[str, str] = {
    "everything": "no user id, no row, no rating, no exact count",
    # Where values stand is public, so how many there are is too, and plans say it.
    "values": "no user id and no rating's value (who rated what is public here, and exact counts of it are stated)",
}
_NAMED = {words.name: key for key, words in WORDS.items()}


@dataclass(frozen=True)
class Unit:
    """By default a user with everything of theirs, against data with one user more or less.

    Parameters
    ----------
    whose : {"user", "record"}
        Whose data.
    what : {"everything", "values"}
        All of it, or its values alone.
    neighbours : {"add-remove", "replace-one"}
        What data sets are compared.

    Examples
    --------
    >>> model.guarantee_.unit  # doctest: +SKIP
    """

    whose: Whose = "user"
    what: What = "everything"
    neighbours: Adjacency = "add-remove"
    name: str = field(init=False, repr=False)  # in ledgers, which stay readable for ever
    protected: str = field(init=False, repr=False)  # in two or three words: one user, one rating's value, …
    in_words: str = field(init=False, repr=False)
    compared: str = field(init=False, repr=False)  # which data sets are neighbours: "The promise compares …"
    made: str = field(init=False, repr=False)  # what an attacker tries to tell apart: "the release was made either …"
    coin: str = field(init=False, repr=False)  # the attacker's game, for a hundred of them
    accused: tuple[str, str] = field(init=False, repr=False)  # of whom the attacker is wrong, and those who are to be found
    withheld: str = field(init=False, repr=False)  # what a release has none of

    def __post_init__(self) -> None:
        if (self.whose, self.what) not in WORDS:
            known = ", ".join(" / ".join(key) for key in WORDS)
            refuse("unit", got=f"{self.whose} / {self.what}", needed=known, try_="Unit()")
        if self.neighbours not in ADJACENCIES:
            refuse("adjacency", got=repr(self.neighbours), needed=" or ".join(ADJACENCIES), try_="adjacency='add-remove'")
        words = WORDS[self.whose, self.what]
        if self.neighbours not in words.compared:
            refuse(
                "adjacency", got=repr(self.neighbours), needed=f"'replace-one' for {words.protected}", try_="replace-one"
            )
        compared, made = words.compared[self.neighbours], words.made[self.neighbours]
        said = {
            "name": words.name,
            "protected": words.protected,
            "in_words": words.hidden,
            "compared": compared,
            "made": made,
        }
        if self.neighbours == "add-remove":
            said["coin"] = f"Take 100 {words.crowd}, of whom a fair coin put each into the data or left them out"
            accused = "those left out", "those who are in the data"
        else:
            whose = "data" if self.what == "everything" else "values"
            said["coin"] = (
                f"Take 100 {words.crowd}; for each a fair coin decided whether their own {whose} were used or others in "
                "their place"
            )
            accused = "those who were replaced", "those who were not"
        vars(self).update(said, accused=accused, withheld=WITHHELD[self.what])

    @classmethod
    def named(cls, name: str, neighbours: Adjacency) -> Unit:
        """The unit that a ledger calls ``name``."""
        if name not in _NAMED:
            refuse("unit", got=repr(name), needed=", ".join(_NAMED), try_="a newer version of lowkey")
        whose, what = _NAMED[name]
        return cls(whose, what, neighbours)  # pyright: ignore[reportArgumentType]

    def __str__(self) -> str:
        return f"{self.protected}, {self.neighbours}"


USER = Unit()


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
    text: str
    good: bool


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
    return Verdict(level, f"epsilon = {at_most(epsilon, 4)} {of_epsilon}. {of_delta} ({SOURCE})", good)
