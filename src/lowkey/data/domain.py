"""Vault room: the domain, that is the public facts that the users' rows are checked against.

A fact of a domain is given by the caller and never read off the data: which items exist, the range of a rating,
the kind of feedback, how many users to expect. What was inferred from the rows would be private.
"""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.ids import comparable, id_array, int64_array, is_integer, is_text, numpy_array
from lowkey.errors import refuse

FEEDBACK_KINDS = ("ratings", "binary", "counts")
MOST_ITEMS = 2**31 - 1  # positions are int32
FEW_IDS, INDEXED_ITEMS = 4096, 2**20  # an index pays for short look-ups, and costs about 150 bytes per item


@dataclass(frozen=True, slots=True)
class Scale:
    """What a stored value may be: a rating within a range, (binary) the bare fact of an interaction, or a count.

    Counts (plays, clicks) are bounded at the door: what is beyond the range's end is taken for it, so a stored count lies
    in the range as a rating does, and every bound that a method derives for ratings of that range holds for counts.
    """

    feedback: str = "ratings"
    rating_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.feedback not in FEEDBACK_KINDS:
            refuse("feedback", got="another word", needed="'ratings', 'binary' or 'counts'", try_="feedback='ratings'")
        if self.feedback == "binary":
            if self.rating_range is not None:
                refuse(
                    "rating_range",
                    got="a range together with feedback='binary'",
                    needed="no range, as a binary entry has no value",
                    try_="leaving rating_range out, or feedback='ratings'",
                )
            return
        object.__setattr__(self, "rating_range", _checked_range(self.rating_range))
        if self.feedback == "counts" and self.rating_range[0] != 1.0:  # type: ignore[index]
            refuse("rating_range", got="counts from another number on", needed="1 to the largest count that counts",
                   try_="rating_range=(1, 20)")  # fmt: skip

    def __str__(self) -> str:
        if self.rating_range is None:
            return "binary"
        low, high = self.rating_range
        return f"counts {low:g}..{high:g}, more is taken for {high:g}" if self.counted else f"ratings {low:g}..{high:g}"

    @property
    def counted(self) -> bool:
        return self.feedback == "counts"

    def float32_bounds(self) -> tuple[np.float32, np.float32]:
        """The outermost float32 numbers inside the range, so that a stored rating never exceeds the range."""
        if self.rating_range is None:
            return np.float32(1), np.float32(1)
        low, high = self.rating_range
        low32, high32 = np.float32(low), np.float32(high)
        low32 = np.nextafter(low32, np.float32(np.inf)) if float(low32) < low else low32
        high32 = np.nextafter(high32, np.float32(-np.inf)) if float(high32) > high else high32
        return low32, high32


class Domain:
    """The item catalogue, the rating range, the feedback kind and, if known publicly, how many users to expect.

    `items` is a sequence of ids (integers or text, from any array library), or a count for items that are known
    by their column position alone. The order of `items` is the order of every item-side array in the package. Text ids
    are kept in their one spelling (data/ids.py): without white space around them, in Unicode's normal form C.

    Parameters
    ----------
    items : sequence of ids, or int
        The catalogue, or how many columns it has.
    rating_range : (float, float), optional
        The lowest and the highest rating, or the counts 0 and the most that counts.
    feedback : {"ratings", "binary", "counts"}
        What a row says.
    expected_users : int, optional
        From public knowledge; the true number is private.

    Examples
    --------
    >>> domain = lk.Domain(items=films, rating_range=(0.5, 5.0), expected_users=20_000)  # doctest: +SKIP
    """

    __slots__ = (
        "_index", "expected_users", "feedback", "item_ids", "kind", "n_items", "positional", "rating_range", "scale",
    )  # fmt: skip

    n_items: int
    item_ids: pa.Array  # in catalogue order, in the caller's type; 0..n_items-1 for a positional catalogue
    positional: bool  # items were given as a count, so that an item's id is its column position
    scale: Scale
    feedback: str
    kind: str  # what a method needs to know: whether entries have values ("ratings": ratings, counts) or not ("binary")
    rating_range: tuple[float, float] | None
    expected_users: int | None
    _index: dict[str, int] | None

    def __init__(
        self,
        items: Any,
        rating_range: tuple[float, float] | None = None,
        feedback: str = "ratings",
        expected_users: int | None = None,
    ) -> None:
        positional = _is_count(items)
        item_ids = _positions_as_ids(int(items)) if positional else _checked_catalogue(items)
        scale = Scale(feedback, rating_range)
        for name, value in (
            ("n_items", len(item_ids)),
            ("item_ids", item_ids),
            ("positional", positional),
            ("scale", scale),
            ("feedback", scale.feedback),
            ("kind", "binary" if scale.rating_range is None else "ratings"),
            ("rating_range", scale.rating_range),
            ("expected_users", _checked_expected_users(expected_users)),
            ("_index", None),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Domain does not change; make a new one to set {name}")

    def positions(self, ids: Any) -> npt.NDArray[np.int32]:
        """Catalogue positions of `ids`, -1 where the catalogue does not have the id.

        Ids of another kind than the catalogue's are compared by their text: "17" finds 17.
        """
        if hasattr(ids, "__len__") and len(ids) == 0:  # an empty history has ids of no kind
            return np.empty(0, np.int32)
        wanted = id_array(ids, "item ids")
        if len(wanted) > FEW_IDS or self.n_items > INDEXED_ITEMS:
            return self.look_up(wanted).copy()
        # A look-up scans the catalogue, which for one history takes longer than everything else together.
        if self._index is None:
            object.__setattr__(self, "_index", {text: i for i, text in enumerate(_texts(self.item_ids))})
        assert self._index is not None
        return np.array([self._index.get(text, -1) for text in _texts(wanted)], np.int32)

    def look_up(self, ids: pa.Array) -> npt.NDArray[np.int32]:
        """`positions` for the readers: of a clean Arrow array, and read-only, which saves a copy of a long column."""
        wanted, catalogue = comparable(ids, self.item_ids)
        found = pc.index_in(wanted, value_set=catalogue)
        return numpy_array(pc.fill_null(found, -1) if found.null_count else found)

    def ids(self, positions: npt.ArrayLike) -> npt.NDArray[Any]:
        """The caller's ids at these catalogue positions, as a NumPy array (of str objects for text ids)."""
        where = np.asarray(positions)
        if where.size and (where.min() < 0 or where.max() >= self.n_items):
            refuse(
                "item positions",
                got="a position outside the catalogue",
                needed=f"0..{self.n_items - 1}",
                try_="positions that positions(ids) returned, without the -1",
            )
        return numpy_array(self.item_ids.take(int64_array(where.ravel()))).reshape(where.shape)

    def to_json(self) -> dict[str, Any]:
        """The facts without the ids (those have a file of their own), ready for JSON."""
        return {
            "n_items": self.n_items,
            "positional": self.positional,
            "feedback": self.feedback,
            "rating_range": None if self.rating_range is None else list(self.rating_range),
            "expected_users": self.expected_users,
        }

    @classmethod
    def from_json(cls, facts: Mapping[str, Any], items: Any = None) -> Self:
        """The domain of `to_json()` facts. `items` are the ids again, not needed for a positional catalogue."""
        if items is None and not facts["positional"]:
            refuse("items", got="facts without ids", needed="the ids of the catalogue", try_="items=ids")
        limits = facts["rating_range"]
        domain = cls(
            facts["n_items"] if facts["positional"] else items,
            None if limits is None else (limits[0], limits[1]),
            facts["feedback"],
            facts["expected_users"],
        )
        if domain.n_items != facts["n_items"]:
            refuse(
                "items", got=f"{domain.n_items} ids", needed=f"{facts['n_items']} ids", try_="the catalogue they came with"
            )
        return domain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        if self.to_json() != other.to_json() or is_integer(self.item_ids.type) != is_integer(other.item_ids.type):
            return False
        ours, theirs = comparable(self.item_ids, other.item_ids)
        return ours.equals(theirs)

    def __hash__(self) -> int:
        return hash((self.n_items, self.positional, self.scale, self.expected_users))

    def __reduce__(self) -> tuple[Any, ...]:
        items = self.n_items if self.positional else self.item_ids
        return Domain, (items, self.rating_range, self.feedback, self.expected_users)

    def __repr__(self) -> str:
        expected = "" if self.expected_users is None else f", expecting {self.expected_users} users"
        return f"Domain({self.n_items} items, {self.scale}{expected})"


def _texts(ids: pa.Array) -> list[str]:
    """Ids are the same exactly if their texts are."""
    return (ids if is_text(ids.type) else ids.cast(pa.string())).to_pylist()


def _is_count(items: Any) -> bool:
    return isinstance(items, (int, np.integer)) and not isinstance(items, (bool, np.bool_))


def _positions_as_ids(count: int) -> pa.Array:
    if not 1 <= count <= MOST_ITEMS:
        refuse("items", got=f"a count of {count}", needed=f"1 to {MOST_ITEMS} items", try_="the width of your matrix")
    return int64_array(np.arange(count))


def _checked_catalogue(items: Any) -> pa.Array:
    item_ids = id_array(items, "items")
    if not 1 <= len(item_ids) <= MOST_ITEMS:
        refuse("items", got="an empty or too long catalogue", needed=f"1 to {MOST_ITEMS} ids", try_="the list of items")
    if pc.count_distinct(item_ids).as_py() != len(item_ids):
        refuse(
            "items",
            got="the same id more than once",
            needed="each item of the catalogue once",
            try_="list(dict.fromkeys(ids)), if the repeats mean the same item",
        )
    return item_ids


def _checked_range(rating_range: Any) -> tuple[float, float]:
    needed = "two finite numbers, lowest then highest possible rating"
    if rating_range is None:
        refuse("rating_range", got="none", needed=needed, try_="rating_range=(0.5, 5.0), or feedback='binary'")
    try:
        low, high = (float(limit) for limit in rating_range)
    except (TypeError, ValueError):
        low = high = math.nan
    # ratings are stored in float32, so a range that only float64 can hold or tell apart is no range
    fits = max(abs(low), abs(high)) < 3e38  # also false for nan
    if not (fits and np.float32(low) < np.float32(high)):
        refuse("rating_range", got="something else", needed=needed, try_="rating_range=(0.5, 5.0)")
    return low, high


def _checked_expected_users(expected_users: Any) -> int | None:
    if expected_users is None:
        return None
    if not _is_count(expected_users) or expected_users < 1:
        refuse("expected_users", got="something else", needed="a whole number of at least 1", try_="a public estimate")
    return int(expected_users)
