"""Vault room: users' rows on a Spark cluster: a frame of blocks of whole users, which never leaves it.

`from_spark` brings each user's rows together in one partition and runs there what the other readers run here: the same
checks, the same keys, the same blocks. The frame of blocks is kept (in memory and on the executors' disks) for the sweeps.
A part that is lost is made again from the caller's frame, so that frame must give the same rows every time.
"""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.data.assemble import settled_duplicates
from lowkey.data.axes import PartOfAxes
from lowkey.data.columns import (
    ColumnNames,
    check_unknown_items_word,
    choose_rows,
    names_for,
    refuse_foreign_items,
    refuse_no_rows,
    to_rows,
)
from lowkey.data.domain import Domain
from lowkey.data.ids import tidy_text
from lowkey.data.ratings import Ratings
from lowkey.data.rows import Block, HeldRows, Rows
from lowkey.data.spark_errors import from_words, in_words, on_driver, on_executor
from lowkey.data.text_files import check_present
from lowkey.errors import LowkeyError, quotes_nobody, refuse

BLOCK_USERS = 1 << 14
# axes: what a partition shows of both columns' ids; state: what the users keep between passes. Either may be empty.
CELLS = ("axes", "offsets", "items", "ratings", "keys", "state")
BLOCK_COLUMNS = "refused string, known boolean, " + ", ".join(f"{name} binary" for name in CELLS)
BLOCK_SCHEMA = pa.schema([("refused", pa.string()), ("known", pa.bool_()), *((name, pa.binary()) for name in CELLS)])


class SparkRows(Rows):
    """The blocks as rows of a Spark frame, one block each, in `partitions` partitions."""

    __slots__ = ("__weakref__", "_frame", "partitions")

    def __init__(self, frame: Any, partitions: int) -> None:
        self._frame, self.partitions = frame, partitions
        # Spark would keep people's rows until its session ends. (At exit the session itself is going.)
        weakref.finalize(self, _let_go, frame).atexit = False

    def blocks(self, max_users: int) -> Iterator[Block]:
        return self._elsewhere()

    def over(self, places: npt.NDArray[np.int32]) -> Rows:
        return self._elsewhere()

    def whole(self) -> Block:
        return self._elsewhere()

    def _elsewhere(self) -> NoReturn:
        refuse(
            "ratings on Spark",
            got="an engine or a method that wants them here",
            needed="a pass that runs where they are",
            try_="fit(ratings, engine=lk.SparkEngine(spark)), or read_ratings for a file on this machine",
        )

    def _open_frame(self) -> Any:
        """The frame of blocks. For the Spark engine only; an architecture test lists the callers."""
        return self._frame


def _let_go(frame: Any) -> None:
    with contextlib.suppress(Exception):  # a session that has ended holds nothing
        frame.unpersist()


@quotes_nobody
def from_spark(
    frame: Any,
    domain: Domain,
    *,
    user: str,
    item: str,
    rating: str | None = None,
    partitions: int | None = None,
    duplicates: str | None = None,
    unknown_items: str = "error",
    check_axes: bool = True,
) -> Ratings:
    """The ratings in a Spark DataFrame, checked against `domain`, for `SparkEngine`.

    Parameters
    ----------
    frame : pyspark DataFrame
        A row per entry.
    domain, user, item, rating, unknown_items, check_axes
        As in `read_ratings`.
    partitions : int, optional
        How many pieces the users are dealt to, by default the cluster's cores; a piece is held in an executor's memory
        once, with about 60 bytes a rating.
    duplicates : str, optional
        As in `read_ratings`, and not "last": the rows of a frame have no order.

    Examples
    --------
    >>> lk.from_spark(frame, domain, user="who", item="film", rating="stars")  # doctest: +SKIP
    """
    from pyspark.sql import functions as f

    duplicates = settled_duplicates(domain.scale, duplicates)
    check_unknown_items_word(unknown_items)
    if duplicates == "last":
        refuse(
            "duplicates",
            got="'last'",
            needed="a rule that needs no order: a Spark frame has none",
            try_="duplicates='mean'",
        )
    names = names_for(domain.scale, user, item, rating)
    check_present(names.as_list(), list(frame.columns), sure_header=False)
    check_told_apart(names, frame)
    count = frame.sparkSession.sparkContext.defaultParallelism if partitions is None else partitions
    if count < 1:
        refuse("partitions", got=f"{count}", needed="1 or more", try_="partitions=8")
    columns = [f.col(f"`{name}`") for name in names.as_list()]
    frame = frame.select(*columns)
    if frame.schema[names.user].dataType.typeName() == "string":
        # Before users are dealt out: two spellings of one id must meet in one partition.
        kinds = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema)  # any may be null
        frame = frame.mapInArrow(on_executor(TidyUsers(names.user)), kinds)
    # With the number given, Spark neither merges nor splits the partitions; `place` lets every task make sure of it.
    met = frame.repartition(count, columns[0])
    met = met.withColumn("lowkey place", f.pmod(f.hash(columns[0]), f.lit(count)))
    group = GroupByUser(names, domain, duplicates, unknown_items, check_axes)
    blocks = met.mapInArrow(on_executor(group), BLOCK_COLUMNS).persist()
    rows = SparkRows(blocks, count)
    any_block, known, refused = on_driver(lambda: blocks.agg(f.count("*") > 0, f.max("known"), f.max("refused")).first())
    if refused is not None:
        raise from_words(refused)
    if not any_block:
        refuse_no_rows()
    if not known:
        refuse_foreign_items(names)
    if check_axes:
        seen = on_driver(lambda: blocks.select("axes").where("axes is not null").collect())
        PartOfAxes.together(domain.n_items, [bytes(row.axes) for row in seen]).check(names.user, names.item)
    return Ratings.of(domain, rows, (names.user, names.item))


def check_told_apart(names: ColumnNames, frame: Any) -> None:
    """To Spark, unless told otherwise, `user` and `User` are one name."""
    if frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true":
        return
    existing = [name.lower() for name in frame.columns]
    twice = [name for name in names.as_list() if existing.count(name.lower()) > 1]
    if twice:
        refuse(
            "columns",
            got=f"{twice[0]!r} more than once, as Spark takes capitals for small letters",
            needed="each name once",
            try_="renaming one",
        )


@dataclass(frozen=True)
class TidyUsers:
    """On an executor: users' text ids in their one spelling, and none where nothing is left of one."""

    user: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            at = batch.schema.get_field_index(self.user)
            ids = tidy_text(batch.column(at), f"column {self.user!r}")
            ids = pc.if_else(pc.equal(ids, ""), pa.scalar(None, ids.type), ids)
            yield batch.set_column(at, batch.schema.field(at), ids)


@dataclass(frozen=True)
class GroupByUser:
    """On an executor: all rows of some users, in any order, as blocks."""

    names: ColumnNames
    domain: Domain
    duplicates: str
    unknown_items: str
    check_axes: bool = False

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        pieces = [batch for batch in batches if batch.num_rows]
        if not pieces:
            return
        table = pa.Table.from_batches(pieces)
        context = TaskContext.get()
        if context is None or not pc.all(pc.equal(table["lowkey place"], context.partitionId())).as_py():
            # A user in two partitions would count twice, and move a sum by twice its sensitivity.
            raise TypeError("Spark did not bring each user's rows together in one partition")
        if self.names.rating is not None and self.duplicates != "error":
            table = table.sort_by(self.names.rating)  # rows arrive in any order, and a sum of floats depends on it
        columns = {name: table.column(name) for name in self.names.as_list()}
        del table, pieces
        choose_rows(columns, self.names)
        if not len(columns[self.names.user]):
            return
        axes = PartOfAxes(self.domain.n_items) if self.check_axes else None
        try:
            rows, known = to_rows(columns, self.names, self.domain, self.duplicates, self.unknown_items, axes)
        except LowkeyError as refusal:
            # An answer rather than a failure: Spark would run the task again, and log it each time.
            yield one_row(BLOCK_SCHEMA, refused=in_words(refusal))
            return
        for at, block in enumerate(rows.blocks(BLOCK_USERS)):
            yield one_row(
                BLOCK_SCHEMA,
                known=known,
                axes=axes.packed() if axes is not None and at == 0 else None,
                offsets=block.offsets.tobytes(),
                items=block.items.tobytes(),
                ratings=None if self.domain.rating_range is None else block.values.tobytes(),
                keys=block.keys.tobytes(),
            )


def one_row(schema: pa.Schema, row: Any = None, **cells: Any) -> Any:
    """A batch of one row: the cells given, the others from ``row`` if there is one, else empty."""

    def column(field: pa.Field) -> Any:
        if field.name in cells:
            return pa.array([cells[field.name]], field.type)
        if row is not None and field.name in row.schema.names:
            return row.column(field.name).cast(field.type)
        return pa.nulls(1, field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def held_rows(batch: Any, at: int) -> HeldRows:
    """On an executor: one block of the frame. Copied, as compiled loops want aligned arrays."""

    def array(name: str, kind: Any) -> Any:
        cell = batch.column(name)[at]
        return np.frombuffer(cell.as_buffer(), kind).copy() if cell.is_valid else None

    offsets, items = array("offsets", np.int64), array("items", np.int32)
    return HeldRows(offsets, items, array("ratings", np.float32), array("keys", np.uint64))
