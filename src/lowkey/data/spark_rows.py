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
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from lowkey.data.assemble import settled_duplicates
from lowkey.data.axes import PartOfAxes
from lowkey.data.columns import ColumnNames, check_word, names_for, refuse_foreign_items, refuse_no_rows
from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import refuse_missing
from lowkey.data.ratings import Block, Ratings, Rows
from lowkey.data.spark_blocks import BLOCK_COLUMNS, GroupByUser, OverItems, TidyIds
from lowkey.data.spark_errors import from_words, on_driver, on_executor
from lowkey.data.text_files import check_present
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import quotes_nobody, refuse


class SparkRows(Rows):
    """The blocks as rows of a Spark frame, one block each, in `partitions` partitions."""

    __slots__ = ("__weakref__", "_before", "_frame", "partitions")

    def __init__(self, frame: Any, partitions: int, before: Any = None) -> None:
        # what a lost part is made again from stays as long as these rows
        self._frame, self.partitions, self._before = frame.persist(), partitions, before
        # Spark would keep people's rows until its session ends. (At exit the session itself is going.)
        weakref.finalize(self, _let_go, frame).atexit = False

    def blocks(self, max_users: int) -> Iterator[Block]:
        return self._elsewhere()

    def over(self, places: npt.NDArray[np.int32]) -> SparkRows:
        return SparkRows(self._frame.mapInArrow(on_executor(OverItems(places)), BLOCK_COLUMNS), self.partitions, self)

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
    duplicates = unordered_duplicates(domain.scale, duplicates)
    check_word("unknown_items", unknown_items)
    names = names_for(domain.scale, user, item, rating)
    group = GroupByUser(names, domain, duplicates, unknown_items, check_axes)
    rows, known = gathered(chosen_columns(frame, names), names, group, partitions)
    if not known:
        refuse_foreign_items(names)
    if check_axes:
        seen = on_driver(lambda: rows._frame.select("axes").where("axes is not null").collect())
        PartOfAxes.together(domain.n_items, [bytes(row.axes) for row in seen]).check(names.user, names.item)
    return Ratings(domain, rows, (names.user, names.item))


def unordered_duplicates(scale: Scale, duplicates: str | None) -> str:
    settled = settled_duplicates(scale, duplicates)
    if settled == "last":
        needed = "a rule that needs no order: a Spark frame has none"
        refuse("duplicates", got="'last'", needed=needed, try_="duplicates='mean'")
    return settled


def chosen_columns(frame: Any, names: ColumnNames) -> Any:
    check_present(names.as_list(), list(frame.columns), sure_header=False)
    check_told_apart(names, frame)
    return frame.select(*(_column(name) for name in names.as_list()))


def gathered(frame: Any, names: ColumnNames, group: Any, partitions: int | None) -> tuple[SparkRows, bool]:
    """Each user's rows together, made into blocks by `group`; and whether any item had a place."""
    from pyspark.sql import functions as f

    met, count = met_by_user(frame, names, partitions)
    rows = SparkRows(met.mapInArrow(on_executor(group), BLOCK_COLUMNS), count)
    columns = f.count("*") > 0, f.max("known"), f.max("refused")
    any_block, known, refused = on_driver(lambda: rows._frame.agg(*columns).first())
    if refused is not None:
        raise from_words(refused)
    if not any_block:
        refuse_no_rows()
    return rows, bool(known)


def met_by_user(frame: Any, names: ColumnNames, partitions: int | None) -> tuple[Any, int]:
    """The frame with each user's rows in one partition, and the number of partitions."""
    from pyspark.sql import functions as f

    count = frame.sparkSession.sparkContext.defaultParallelism if partitions is None else partitions
    if count < 1:
        refuse("partitions", got=f"{count}", needed="1 or more", try_="partitions=8")
    frame = tidied(frame, names.user)  # before users are dealt out: two spellings of one id must meet
    # With the number given, Spark neither merges nor splits the partitions; `place` lets every task make sure of it.
    met = frame.repartition(count, _column(names.user))
    return met.withColumn("lowkey place", f.pmod(f.hash(_column(names.user)), f.lit(count))), count


def tidied(frame: Any, name: str) -> Any:
    """Ids in their one spelling, if they are text."""
    if frame.schema[name].dataType.typeName() != "string":
        return frame
    kinds = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema)  # any may be null
    return frame.mapInArrow(on_executor(TidyIds(name)), kinds)


def _column(name: str) -> Any:
    from pyspark.sql import functions as f

    return f.col(f"`{name}`")


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


@quotes_nobody
def uncatalogued_from_spark(
    frame: Any,
    *,
    user: str,
    item: str,
    rating: str | None = None,
    rating_range: tuple[float, float] | None = None,
    feedback: str = "ratings",
    partitions: int | None = None,
    duplicates: str | None = None,
) -> UncataloguedRatings:
    """As `from_spark`, where even the list of items is private. Its `with_items` leads to `Ratings`.

    The driver holds the ids that occur, closed, as it holds the sums over them.

    Parameters
    ----------
    frame, user, item, rating, partitions, duplicates
        As in `from_spark`.
    rating_range, feedback
        As in `Domain`.

    Examples
    --------
    >>> rows = lk.uncatalogued_from_spark(frame, user="who", item="film", feedback="binary")  # doctest: +SKIP
    >>> ids = lk.PrivateCatalogue(1.0, 1e-6).select(rows, board, engine=lk.SparkEngine(spark))  # doctest: +SKIP
    """
    scale = Scale(feedback, rating_range)
    duplicates = unordered_duplicates(scale, duplicates)
    names = names_for(scale, user, item, rating)
    frame = chosen_columns(frame, names)
    ids: Any = on_driver(lambda: tidied(frame.select(f"`{item}`"), item).distinct().toArrow().column(0).combine_chunks())
    if not len(ids):
        refuse_no_rows()
    if ids.null_count:
        refuse_missing(f"column {item!r}")
    domain = Domain(ids.take(pc.sort_indices(ids)), rating_range, feedback)
    rows, _ = gathered(frame, names, GroupByUser(names, domain, duplicates, "error"), partitions)
    return UncataloguedRatings(scale, domain.item_ids, rows)
