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
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.assemble import group_by_user, settle
from lowkey.data.axes import Axes
from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import is_integer, is_text, kind_word, plain_values, refuse_missing, tidy_text, user_keys
from lowkey.data.ratings import HeldRows, Ratings
from lowkey.data.row_choice import flagged_only, in_order_of, without_gaps
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import InputError, refuse, without_values

RUNS_LOOK = 1 << 14  # rows that show whether the others come in runs; which way it goes changes no result
EXCHANGED = "check that user= and item= are not exchanged"


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Which column is which, as the caller said it, and what becomes of rows with gaps."""

    user: str
    item: str
    rating: str | None
    time: str | None = None  # rows count in the order of this column
    flag: str | None = None  # binary feedback: where this is false, nothing was taken
    missing: str = "error"

    def __post_init__(self) -> None:
        check_word("missing", self.missing)
        names = self.as_list()
        if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            refuse(
                "column names",
                got="names that are empty or the same",
                needed="one column each for user, item and rating",
                try_="user='userId', item='movieId', rating='rating'",
            )

    def as_list(self) -> list[str]:
        return [self.user, self.item] + [name for name in (self.rating, self.time, self.flag) if name is not None]


def names_for(
    scale: Scale, user: str, item: str, rating: str | None, time: str | None = None, missing: str = "error"
) -> ColumnNames:
    """The columns to read. Binary feedback needs no ratings; truth values say which rows count, all else is left aside.
    Counts need none either: without them, each row counts one."""
    if scale.feedback == "binary":
        return ColumnNames(user, item, None, time, rating, missing)
    if rating is None and not scale.counted:
        refuse(
            "rating",
            got="no column name",
            needed="the column with the ratings",
            try_="rating='rating', or a domain with feedback='binary'",
        )
    return ColumnNames(user, item, rating, time, None, missing)


def to_ratings(
    table: dict[str, Any], names: ColumnNames, domain: Domain, duplicates: str, unknown_items: str, check_axes: bool = True
) -> Ratings:
    """`table` maps the names to Arrow columns; it is emptied on the way."""
    choose_rows(table, names)
    axes = Axes(domain.n_items) if check_axes else None
    rows, known = to_rows(table, names, domain, duplicates, unknown_items, axes)
    if not known:
        refuse_foreign_items(names)
    return Ratings(domain, rows, (names.user, names.item))


def to_rows(
    table: dict[str, Any],
    names: ColumnNames,
    domain: Domain,
    duplicates: str,
    unknown_items: str,
    axes: Axes | None = None,
) -> tuple[HeldRows, bool]:
    """The rows, and whether any item was in the catalogue: a part of the data may have none."""
    tidy_columns(table, names)
    with ThreadPoolExecutor(2) as pool:  # Arrow lets go of Python's lock, so the three columns overlap
        finding = pool.submit(catalogue_positions, table.pop(names.item), domain)
        encoding = pool.submit(encode, table.pop(names.user))
        values = read_values(table, names)
    items, users = finding.result(), encoding.result()
    keys = user_keys(users.ids)
    del finding, encoding  # they hold what they found
    if axes is not None:
        axes.see(items, users.codes, domain.look_up(users.ids)[users.ranks])
        axes.check(names.user, names.item)
    check_known(items, names, unknown_items)
    known = bool(items.max() >= 0)
    rows = grouped(users, items, values, domain.scale)
    del users, items, values
    rows = settle(*rows, domain.scale, duplicates, names.rating)
    return HeldRows(*rows, keys), known


def check_word(name: str, word: str) -> None:
    """What becomes of rows that are not as they should be."""
    if word not in ("error", "drop"):
        refuse(name, got="another word", needed="'error' or 'drop'", try_=f"{name}='drop'")


def check_known(items: npt.NDArray[np.int32], names: ColumnNames, unknown_items: str) -> None:
    if unknown_items == "error" and len(items) and items.min() < 0:
        refuse(
            f"item column {names.item!r}",
            got="ids that are not in the catalogue",
            needed="only items of the domain",
            try_=f"unknown_items='drop', or {EXCHANGED}",
        )


def refuse_foreign_items(names: ColumnNames) -> NoReturn:
    refuse(
        f"item column {names.item!r}",
        got="no id that is in the catalogue",
        needed="items of the domain",
        try_=f"the catalogue that belongs to this file, or {EXCHANGED}",
    )


def refuse_no_rows() -> NoReturn:
    refuse("ratings", got="no rows", needed="at least one row", try_="another file")


def to_uncatalogued(table: dict[str, Any], names: ColumnNames, scale: Scale, duplicates: str) -> UncataloguedRatings:
    """As `to_ratings`, for a catalogue that is private: every item that occurs gets a code."""
    choose_rows(table, names)
    tidy_columns(table, names)
    values = read_values(table, names)
    items, users = encode(table.pop(names.item)), encode(table.pop(names.user))
    rows = grouped(users, items.ranks[items.codes], values, scale)
    rows = settle(*rows, scale, duplicates, names.rating)
    return UncataloguedRatings(scale, items.ids, HeldRows(*rows, user_keys(users.ids)))


class Encoded(NamedTuple):
    """A column of ids: row `r` has the id `ids[ranks[codes[r]]]`. Ids are distinct and sorted, and each occurs."""

    codes: npt.NDArray[np.int32]  # one per row
    ranks: npt.NDArray[np.int32]  # one per code
    ids: pa.Array


def grouped(
    users: Encoded, items: npt.NDArray[np.int32], values: npt.NDArray[np.float32] | None, scale: Scale
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32] | None]:
    """The rows by user; where entries are counted and no column has counts, each row counts one."""
    if values is None and scale.counted:
        values = np.ones(len(items), np.float32)
    return group_by_user(users.codes, users.ranks, items, values, len(users.ids))


def encode(column: pa.ChunkedArray) -> Encoded:
    if pa.types.is_integer(column.type) and _in_runs(column):
        return _encode_runs(column)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    pieces = column.unify_dictionaries().chunks
    dictionary = pieces[0].dictionary
    codes = _joined([piece.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False) for piece in pieces])
    occurs = np.zeros(len(dictionary), np.bool_)  # categories outlive a filter in pandas and polars
    occurs[codes] = True
    ids = dictionary.filter(pa.array(occurs)).unique()
    ids = ids.take(pc.sort_indices(ids))
    ranks = pc.fill_null(pc.index_in(dictionary, value_set=ids), 0).to_numpy(zero_copy_only=False)
    return Encoded(codes, ranks, ids)


def _in_runs(column: pa.ChunkedArray) -> bool:
    """Whether equal ids follow each other, as in an export by user: four or more on average, by a look at some rows."""
    first = column.chunk(0)[:RUNS_LOOK].to_numpy()
    return len(first) > 4 * (1 + int(np.count_nonzero(first[1:] != first[:-1])))


def _encode_runs(column: pa.ChunkedArray) -> Encoded:
    """As `encode`, of one id per run in place of one per row."""
    pieces = [pc.run_end_encode(piece) for piece in column.chunks]
    runs = encode(pc.dictionary_encode(pa.chunked_array([piece.values for piece in pieces])))
    lengths = [np.diff(piece.run_ends.to_numpy(), prepend=0) for piece in pieces]
    return Encoded(np.repeat(runs.codes, _joined(lengths)), runs.ranks, runs.ids)


def choose_rows(table: dict[str, Any], names: ColumnNames) -> None:
    """The rows that count, in the order in which they do."""
    if names.missing == "drop":
        without_gaps(table)
    if names.time is not None:
        in_order_of(table, names.time)
    if names.flag is not None:
        flagged_only(table, names.flag)


def tidy_columns(table: dict[str, Any], names: ColumnNames) -> None:
    """Refuse gaps and types that are none of ids or ratings, and give text ids their one spelling: see data/ids.py."""
    for name, column in list(table.items()):
        if len(column) == 0:
            refuse_no_rows()
        if pa.types.is_string_view(column.type):
            table[name] = column = column.cast(pa.large_string())  # Arrow cannot encode string views yet
        dictionary_nulls = pa.types.is_dictionary(column.type) and any(c.dictionary.null_count for c in column.chunks)
        if column.null_count or dictionary_nulls:
            refuse_missing(f"column {name!r}")
    for name in (names.user, names.item):
        kind = plain_values(table[name].type)
        if not (is_integer(kind) or is_text(kind)):
            refuse(
                f"column {name!r}",
                got=f"values of type {kind_word(kind)}",
                needed="ids that are integers or text",
                try_=f"casting the column, or {EXCHANGED}",
            )
        if is_text(kind):
            table[name] = tidy_ids(table[name], f"column {name!r}")


def tidy_ids(column: pa.ChunkedArray, what: str) -> pa.ChunkedArray:
    """A column of text as a dictionary of distinct ids, each in its one spelling; what is empty is missing."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    column = column.unify_dictionaries()
    spelled = column.chunk(0).dictionary
    tidy = tidy_text(spelled, what)
    empty = pc.equal(tidy, "")
    if pc.any(empty).as_py() and any(pc.any(empty.take(piece.indices)).as_py() for piece in column.chunks):
        refuse_missing(what)  # (in pandas and polars an empty category may outlive its rows)
    if tidy.equals(spelled):
        return column
    once = pc.dictionary_encode(tidy)
    pieces = [pa.DictionaryArray.from_arrays(once.indices.take(piece.indices), once.dictionary) for piece in column.chunks]
    return pa.chunked_array(pieces)


def read_values(table: dict[str, Any], names: ColumnNames) -> npt.NDArray[np.float32] | None:
    if names.rating is None:
        return None
    column = table.pop(names.rating)
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        not_numbers = InputError(
            what=f"rating column {names.rating!r}",
            got=f"values of type {kind_word(kind)}",
            needed="numbers",
            try_="casting the column, or check that the right column is named",
        )
        if not pa.types.is_decimal(kind):
            raise not_numbers
        column = without_values(lambda: column.cast(pa.float64()), not_numbers)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused as such
        return _joined([chunk.to_numpy(zero_copy_only=False).astype(np.float32, copy=False) for chunk in column.chunks])


def catalogue_positions(column: pa.ChunkedArray, domain: Domain) -> npt.NDArray[np.int32]:
    if pa.types.is_dictionary(column.type):
        return _joined([domain.look_up(piece.dictionary)[piece.indices.to_numpy()] for piece in column.chunks])
    return _joined([domain.look_up(piece) for piece in column.chunks])


def _joined(pieces: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One array; a single piece is passed on as it is, as fresh memory costs more than the work done in it."""
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
