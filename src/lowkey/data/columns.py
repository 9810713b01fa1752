"""Vault room: from Arrow columns of (user, item, rating) to closed rows.

Every reader ends here: files and frames differ only in how their three columns become Arrow. Users are put in the
order of their ids, so the rows do not depend on the order of the input. Columns are let go of one by one, which
keeps the peak of memory near the size of the result.
"""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.assemble import check_values, group_by_user, tidy_rows
from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import is_integer, is_text, plain_values, user_keys
from lowkey.data.ratings import Ratings
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import refuse

UNKNOWN_ITEMS = ("error", "drop")
EXCHANGED = "check that user= and item= are not exchanged"


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Which column is which, as the caller said it."""

    user: str
    item: str
    rating: str | None

    def __post_init__(self) -> None:
        names = self.as_list()
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            refuse(
                "column names",
                got="names that are empty or the same",
                needed="one column each for user, item and rating",
                try_="user='userId', item='movieId', rating='rating'",
            )

    def as_list(self) -> list[str]:
        return [self.user, self.item] + ([] if self.rating is None else [self.rating])


def names_for(scale: Scale, user: str, item: str, rating: str | None) -> ColumnNames:
    """The columns to read. Binary feedback needs no ratings: a rating column is accepted and left unread."""
    if scale.feedback == "binary":
        return ColumnNames(user, item, None)
    if rating is None:
        refuse(
            "rating",
            got="no column name",
            needed="the column with the ratings",
            try_="rating='rating', or a domain with feedback='binary'",
        )
    return ColumnNames(user, item, rating)


def to_ratings(table: dict[str, Any], names: ColumnNames, domain: Domain, duplicates: str, unknown_items: str) -> Ratings:
    """`table` maps the names to Arrow columns; it is emptied on the way."""
    _check_columns(table, names)
    with ThreadPoolExecutor(2) as pool:  # Arrow lets go of Python's lock, so the three columns overlap
        finding = pool.submit(_catalogue_positions, table.pop(names.item), domain)
        encoding = pool.submit(encode, table.pop(names.user))
        values = _read_values(table, names, domain.scale, duplicates)
    items, (users, user_ids) = finding.result(), encoding.result()
    del finding, encoding  # they hold what they found
    if unknown_items == "error" and len(items) and items.min() < 0:
        refuse(
            f"item column {names.item!r}",
            got="ids that are not in the catalogue",
            needed="only items of the domain",
            try_=f"unknown_items='drop', or {EXCHANGED}",
        )
    if items.max() < 0:
        refuse(
            f"item column {names.item!r}",
            got="no id that is in the catalogue",
            needed="items of the domain",
            try_=f"the catalogue that belongs to this file, or {EXCHANGED}",
        )
    rows = group_by_user(users, items, values, len(user_ids))
    del users, items, values
    rows = _settle(rows, domain.scale, names, duplicates)
    return Ratings(domain, *rows, user_keys(user_ids))


def to_uncatalogued(table: dict[str, Any], names: ColumnNames, scale: Scale, duplicates: str) -> UncataloguedRatings:
    """As `to_ratings`, for a catalogue that is private: every item that occurs gets a code."""
    _check_columns(table, names)
    values = _read_values(table, names, scale, duplicates)
    items, item_ids = encode(table.pop(names.item))
    users, user_ids = encode(table.pop(names.user))
    rows = group_by_user(users, items, values, len(user_ids))
    del users, items, values
    rows = _settle(rows, scale, names, duplicates)
    return UncataloguedRatings(scale, item_ids, *rows, user_keys(user_ids))


def encode(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """A column as int32 codes into its distinct ids, which come sorted. Only ids that occur get a code."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    pieces = column.unify_dictionaries().chunks
    dictionary = pieces[0].dictionary
    codes = np.concatenate([piece.indices.to_numpy(zero_copy_only=False) for piece in pieces])
    occurs = np.zeros(len(dictionary), np.bool_)  # categories outlive a filter in pandas and polars
    occurs[codes] = True
    ids = dictionary.filter(pa.array(occurs)).unique()
    ids = ids.take(pc.sort_indices(ids))
    rank = pc.fill_null(pc.index_in(dictionary, value_set=ids), 0).to_numpy(zero_copy_only=False)
    return rank[codes], ids


def _check_columns(table: dict[str, Any], names: ColumnNames) -> None:
    for name, column in list(table.items()):
        if len(column) == 0:
            refuse("ratings", got="no rows", needed="at least one row", try_="another file")
        if pa.types.is_string_view(column.type):
            table[name] = column = column.cast(pa.large_string())  # Arrow cannot encode string views yet
        dictionary_nulls = pa.types.is_dictionary(column.type) and any(c.dictionary.null_count for c in column.chunks)
        if column.null_count or dictionary_nulls:
            refuse(f"column {name!r}", got="missing values", needed="a value in every row", try_="dropping those rows")
    for name in (names.user, names.item):
        kind = plain_values(table[name].type)
        if not (is_integer(kind) or is_text(kind)):
            refuse(
                f"column {name!r}",
                got=f"values of type {kind}",
                needed="ids that are integers or text",
                try_=f"casting the column, or {EXCHANGED}",
            )


def _read_values(
    table: dict[str, Any], names: ColumnNames, scale: Scale, duplicates: str
) -> npt.NDArray[np.float32] | None:
    if names.rating is None:
        return None
    column = table.pop(names.rating)
    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        refuse(
            f"rating column {names.rating!r}",
            got=f"values of type {kind}",
            needed="numbers",
            try_="casting the column, or check that the right column is named",
        )
    values = np.empty(len(column), np.float32)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused as such
        _fill(values, (chunk.to_numpy(zero_copy_only=False) for chunk in column.chunks))
    if duplicates != "sum":  # sums are checked when they are made
        check_values(values, scale, f"rating column {names.rating!r}")
    return values


def _catalogue_positions(column: pa.ChunkedArray, domain: Domain) -> npt.NDArray[np.int32]:
    positions = np.empty(len(column), np.int32)
    if pa.types.is_dictionary(column.type):
        _fill(positions, (domain.positions(piece.dictionary)[piece.indices.to_numpy()] for piece in column.chunks))
    else:
        _fill(positions, (domain.positions(piece) for piece in column.chunks))
    return positions


def _fill(out: npt.NDArray[Any], pieces: Any) -> None:
    at = 0
    for piece in pieces:
        out[at : at + len(piece)] = piece
        at += len(piece)


def _settle(rows: tuple[Any, Any, Any], scale: Scale, names: ColumnNames, duplicates: str) -> tuple[Any, Any, Any]:
    offsets, items, values = tidy_rows(*rows, duplicates, "ratings")
    if values is not None and duplicates == "sum":
        check_values(values, scale, f"sums of rating column {names.rating!r}")
    return offsets, items, values
