"""Gate room: the unit of privacy: whose data is hidden, what of it, and which data sets are neighbours.

Two promises compose only if their units are equal, and every sentence that is printed about a promise comes from here:
"user-level" is never said of a method that hides a user's values and not where they stand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lowkey.errors import refuse
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

    def __post_init__(self) -> None:
        if (self.whose, self.what) not in WORDS:
            known = ", ".join(" / ".join(key) for key in WORDS)
            refuse("unit", got=f"{self.whose} / {self.what}", needed=known, try_="Unit()")
        if self.neighbours not in ADJACENCIES:
            refuse("adjacency", got=repr(self.neighbours), needed=" or ".join(ADJACENCIES), try_="adjacency='add-remove'")
        if self.neighbours not in self._words.compared:
            refuse("adjacency", got=repr(self.neighbours), needed=f"'replace-one' for {self.protected}", try_="replace-one")

    @classmethod
    def named(cls, name: str, neighbours: Adjacency) -> Unit:
        """The unit that a ledger calls ``name``."""
        if name not in _NAMED:
            refuse("unit", got=repr(name), needed=", ".join(_NAMED), try_="a newer version of lowkey")
        whose, what = _NAMED[name]
        return cls(whose, what, neighbours)  # pyright: ignore[reportArgumentType]

    @property
    def _words(self) -> Words:
        return WORDS[self.whose, self.what]

    @property
    def name(self) -> str:
        return self._words.name

    @property
    def protected(self) -> str:
        """In two or three words: one user, one rating's value, …"""
        return self._words.protected

    @property
    def in_words(self) -> str:
        return self._words.hidden

    @property
    def compared(self) -> str:
        """Which data sets are neighbours: "The promise compares …"."""
        return self._words.compared[self.neighbours]

    @property
    def made(self) -> str:
        """What an attacker tries to tell apart: "the release was made either …"."""
        return self._words.made[self.neighbours]

    @property
    def coin(self) -> str:
        """The attacker's game, for a hundred of them."""
        crowd, whose = self._words.crowd, "data" if self.what == "everything" else "values"
        if self.neighbours == "add-remove":
            return f"Take 100 {crowd}, of whom a fair coin put each into the data or left them out"
        return (
            f"Take 100 {crowd}; for each a fair coin decided whether their own {whose} were used or others in their place"
        )

    @property
    def accused(self) -> tuple[str, str]:
        """Those of whom the attacker is wrong, and those who are to be found."""
        if self.neighbours == "add-remove":
            return "those left out", "those who are in the data"
        return "those who were replaced", "those who were not"

    @property
    def withheld(self) -> str:
        """What a release has none of."""
        if self.what == "everything":
            return "no user id, no row, no rating, no exact count"
        # Where values stand is public, so how many there are is too, and plans say it.
        return "no user id and no rating's value (who rated what is public here, and exact counts of it are stated)"

    def __str__(self) -> str:
        return f"{self.protected}, {self.neighbours}"


USER = Unit()
