"""Vault room: from files and frames to closed ratings.

`read_ratings` and `from_frame` check every row against a domain; `read_uncatalogued` is for data whose catalogue
is not public. What is wrong with the input is said in one line that shows no private value.
"""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import narwhals as nw
import numpy as np
import pyarrow as pa
import scipy.sparse

from lowkey.data.assemble import settled_duplicates
from lowkey.data.axes import Axes
from lowkey.data.columns import ColumnNames, check_word, names_for, to_ratings, to_uncatalogued
from lowkey.data.domain import Domain, Scale
from lowkey.data.external_sort import Progress, stored_rows, stored_uncatalogued
from lowkey.data.formats import format_of, read_columns, streamed
from lowkey.data.ratings import Ratings
from lowkey.data.scratch import Scratch, kept_if_done, scratch_place
from lowkey.data.sources import DATABASES, database_columns, existing_path, scheme_of
from lowkey.data.text_files import USUAL, Text, check_present
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import InputError, quotes_nobody, refuse, without_values


@quotes_nobody
def read_ratings(
    path: Any,
    domain: Domain,
    *,
    user: str,
    item: str,
    rating: str | None = None,
    time: str | None = None,
    duplicates: str | None = None,
    unknown_items: str = "error",
    missing: str = "error",
    check_axes: bool = True,
    format: str | None = None,
    text: Text = USUAL,
    query: str | None = None,
    out_of_core: bool | None = None,
    scratch: Any = None,
    progress: Progress = lambda done: None,
) -> Ratings:
    """The ratings in a file, an object store or a database, checked against `domain`.

    Parameters
    ----------
    path : path or address
        A file (parquet, also a folder of it, csv, tsv, jsonl, arrow, feather, RecBole's .inter), a MovieLens folder or its
        ratings.dat or u.data, any text compressed (.gz, .zst, .bz2); s3://, gs:// and what else pyarrow's file systems
        know; sqlite:///, duckdb:/// or postgresql://.
    domain : Domain
        What is public.
    user, item, rating : str
        Columns. With binary feedback a `rating` of truth values says which rows count; counts without one count rows.
    duplicates, time : {"error", "last", "mean", "sum"}, column, optional
        A pair of user and item that occurs again: by default an error for ratings; binary entries count once, counts are
        summed. With a `time`, the last is the latest.
    unknown_items, missing, check_axes : {"error", "drop"}, {"error", "drop"}, bool
        Ids that the catalogue does not have; rows with gaps; refuse a catalogue that fits the users' column better.
    format, text, query : str, Text, str, optional
        In place of what the file's name says; how a text is written, if not as usual; of a database: a table or a SELECT.
    out_of_core : bool, optional
        Keep the rows of a Parquet file on disk, in a file without a name; by default where they would take more than
        half of the memory. It changes no result.
    scratch, progress : path, function
        Where that is, else next to the file; told the part done.

    Examples
    --------
    >>> lk.read_ratings("r.csv", domain, user="who", item="film", rating="stars")  # doctest: +SKIP
    """
    _check_domain(domain)
    settled = settled_duplicates(domain.scale, duplicates)
    check_word("unknown_items", unknown_items)
    names = names_for(domain.scale, user, item, rating, time, missing)
    if (found := _elsewhere(path, query, names)) is not None:
        return to_ratings(found, names, domain, settled, unknown_items, check_axes)
    file = existing_path(path, "ratings file")
    kind = format_of(file, format)
    if batches := streamed(file, kind, names, out_of_core):
        axes = Axes(domain.n_items) if check_axes else None
        with kept_if_done(Scratch(scratch_place(scratch, file))) as place:
            rows = stored_rows(batches, place, domain, settled, unknown_items, progress, axes)
            return Ratings(domain, rows, (user, item))
    table = read_columns(file, kind, names, domain.item_ids.type, text)
    return to_ratings(table, names, domain, settled, unknown_items, check_axes)


@quotes_nobody
def from_frame(
    frame: Any,
    domain: Domain,
    *,
    user: str,
    item: str,
    rating: str | None = None,
    time: str | None = None,
    duplicates: str | None = None,
    unknown_items: str = "error",
    missing: str = "error",
    check_axes: bool = True,
) -> Ratings:
    """The ratings in a pandas, polars, Arrow or DuckDB table (or another that narwhals knows), checked against `domain`.

    The other words mean what they mean for `read_ratings`.

    Parameters
    ----------
    frame : pandas, polars, Arrow, DuckDB
        A row per entry.
    domain, user, item, rating, time, duplicates, unknown_items, missing, check_axes
        As in `read_ratings`.

    Examples
    --------
    >>> lk.from_frame(frame, domain, user="who", item="film", rating="stars")  # doctest: +SKIP
    """
    _check_domain(domain)
    settled = settled_duplicates(domain.scale, duplicates)
    check_word("unknown_items", unknown_items)
    names = names_for(domain.scale, user, item, rating, time, missing)
    return to_ratings(frame_columns(frame, names.as_list()), names, domain, settled, unknown_items, check_axes)


@quotes_nobody
def read_uncatalogued(
    path: Any,
    *,
    user: str,
    item: str,
    rating: str | None = None,
    rating_range: tuple[float, float] | None = None,
    feedback: str = "ratings",
    time: str | None = None,
    duplicates: str | None = None,
    missing: str = "error",
    format: str | None = None,
    text: Text = USUAL,
    query: str | None = None,
    out_of_core: bool | None = None,
    scratch: Any = None,
    progress: Progress = lambda done: None,
) -> UncataloguedRatings:
    """As `read_ratings`, where even the list of items is private. Its `with_items` leads to `Ratings`.

    Parameters
    ----------
    path, user, item, rating, time, duplicates, missing, format, text, query, out_of_core, scratch, progress
        As in `read_ratings`.
    rating_range, feedback
        As in `Domain`.

    Examples
    --------
    >>> lk.read_uncatalogued("r.csv", user="who", item="film", feedback="binary")  # doctest: +SKIP
    """
    scale = Scale(feedback, rating_range)
    settled = settled_duplicates(scale, duplicates)
    names = names_for(scale, user, item, rating, time, missing)
    if (found := _elsewhere(path, query, names)) is not None:
        return to_uncatalogued(found, names, scale, settled)
    file = existing_path(path, "ratings file")
    kind = format_of(file, format)
    if batches := streamed(file, kind, names, out_of_core):
        with kept_if_done(Scratch(scratch_place(scratch, file))) as place:
            return UncataloguedRatings(scale, *stored_uncatalogued(batches, place, scale, settled, progress))
    table = read_columns(file, kind, names, None, text)
    return to_uncatalogued(table, names, scale, settled)


def _elsewhere(path: Any, query: str | None, names: ColumnNames) -> dict[str, Any] | None:
    """The columns of a database; None for a file."""
    if scheme_of(path) in DATABASES:
        return database_columns(str(path), query, names)
    if query is not None:
        refuse("query", got="a file", needed="a database", try_="sqlite:///shop.db, or leaving it out")
    return None


def _check_domain(domain: Any) -> None:
    if not isinstance(domain, Domain):
        refuse(
            "domain",
            got="none" if domain is None else "something else",
            needed="a Domain with the catalogue and the rating range",
            try_="lk.Domain(items=catalogue, rating_range=(0.5, 5.0)), or read_uncatalogued for a private catalogue",
        )


def frame_columns(frame: Any, names: list[str]) -> dict[str, Any]:
    """The named columns of a table, as Arrow's."""
    no_frame = InputError(
        what="frame",
        got="something else",
        needed="a pandas, polars or Arrow table",
        try_="Ratings.from_csr for a matrix, or read_ratings for a file",
    )
    known: Any = without_values(lambda: nw.from_native(frame), no_frame)
    existing = [str(name) for name in without_values(lambda: known.collect_schema().names(), no_frame)]
    check_present(names, existing, sure_header=False)
    mixed = InputError(
        what="frame",
        got="a column that holds values of several types",
        needed="ids that are all integers or all text, and numbers in the rating column",
        try_="casting the column",
    )

    def selected() -> pa.Table:
        columns = known.select(names)
        return (columns.collect() if isinstance(columns, nw.LazyFrame) else columns).to_arrow()

    table = without_values(selected, mixed)
    return {name: table.column(name) for name in names}


class FrameColumns(TypedDict, total=False):
    """What `fit` may be told of a frame, as `from_frame` takes it."""

    user: str
    item: str
    rating: str | None
    time: str | None
    duplicates: str | None
    unknown_items: str
    missing: str
    check_axes: bool


def as_ratings(
    X: Any,
    domain: Domain | None = None,
    **columns: Unpack[FrameColumns],
) -> Ratings:
    """What `fit` accepts, as `Ratings`: a `Ratings`, a SciPy CSR matrix, or a frame with its columns named."""
    named = isinstance(X, Ratings) or scipy.sparse.issparse(X)
    if named and columns.keys() - {"duplicates"}:
        refuse("columns", got="no frame", needed="a frame that has them", try_="leaving user=, item= and rating= out")
    if isinstance(X, Ratings):
        if domain is not None and domain != X.domain:
            refuse(
                "domain",
                got="another domain than the ratings were checked against",
                needed="the same domain",
                try_="leaving domain out",
            )
        return X
    if domain is None:
        refuse(
            "domain",
            got="none",
            needed="the public facts: items, and the rating range or feedback='binary'",
            try_="domain=lk.Domain(items=catalogue, rating_range=(0.5, 5.0))",
        )
    if scipy.sparse.issparse(X):
        return Ratings.from_csr(X, domain, duplicates=columns.get("duplicates"))
    if isinstance(X, (np.ndarray, list, tuple)):
        refuse(
            "X",
            got="a dense array, where a zero may be a rating or a gap",
            needed="observed entries only",
            try_="scipy.sparse.csr_array, rows users and columns items",
        )
    if "user" not in columns or "item" not in columns:
        refuse(
            "X",
            got="a table whose columns are not named",
            needed="Ratings, a scipy.sparse.csr_array, or a table with named columns",
            try_="fit(frame, domain=domain, user=..., item=..., rating=...)",
        )
    return from_frame(X, domain, **columns)
