"""Vault room: the engine for a Spark cluster: the same kernels run where the rows are, and only finished sums come back.

A sweep is one Spark job. The public values are broadcast; every task runs the kernels over its blocks and adds up in
int64; its sums leave it in chunks of coordinates, which are added chunk by chunk on the executors, so that the driver
receives each coordinate once, and never one array per task. Noise is drawn by the billboard, on the driver, after that.

Spark runs a lost or failed task again, and counts each partition once, whichever of its runs finished. A task draws no
random number and its blocks do not depend on the order in which rows arrived, so that changes nothing.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from lowkey.data.ratings import NO_KEYS, Ratings
from lowkey.data.spark_errors import on_driver, on_executor
from lowkey.data.spark_rows import SparkRows
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.engines.local import Engine, closed, no_sums
from lowkey.engines.spark_tasks import CARRIED_COLUMNS, CHUNK_COLUMNS, SweepTask, add_chunks, chunks_in, pieces_of
from lowkey.errors import ClosedError, refuse
from lowkey.kernels.sweep import Sums, Sweep
from lowkey.privacy.sums import Statistic, Unreleased

CHUNK = 1 << 17  # coordinates: 1 MB
STRAIGHT_BYTES = 1 << 24  # what the tasks may send to the driver without being added up before
ARROW_BYTES = 1 << 29  # half of what Spark lets one job return unless told otherwise (spark.driver.maxResultSize)


class SparkState:
    """What the users keep between passes: a persisted frame on the cluster, block by block with their rows. Closed.

    A part of it that is lost is made again from the passes before, so their public values stay broadcast as long as it.
    """

    __slots__ = ("__weakref__", "_before", "_frame")

    def __init__(self, frame: Any, shared: Any, before: SparkState | None) -> None:
        self._frame, self._before = frame, before
        weakref.finalize(self, _let_go, frame.unpersist, shared.destroy).atexit = False

    def _blocks(self) -> Any:
        return self._frame.where("chunk is null")

    def _replaced(self) -> None:
        """The state after the next pass is there: this one need not be held any more."""
        self._frame.unpersist()

    def __repr__(self) -> str:
        return "SparkState(closed)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ClosedError(
            what="the users' local state was to be pickled", got="a copy out of the vault", needed="no copy", try_="refit"
        )


class SparkEngine(Engine):
    """Sweeps over ratings from ``from_spark``, where they are.

    Parameters
    ----------
    spark : SparkSession
        Of the cluster.
    chunk : int
        How many coordinates travel together; it changes no sum.

    Examples
    --------
    >>> rows = lk.from_spark(frame, domain, user="u", item="i", rating="r")  # doctest: +SKIP
    >>> lk.DPBias(epsilon=1.0, delta=1e-6).fit(rows, engine=lk.SparkEngine(spark))  # doctest: +SKIP
    """

    def __init__(self, spark: Any, chunk: int = CHUNK) -> None:
        if chunk < 1:
            refuse("chunk", got=f"{chunk}", needed="at least one coordinate", try_="leaving it out")
        self.spark, self.chunk = spark, chunk

    def sweep(
        self, sweep: Sweep, data: Ratings | UncataloguedRatings, local: SparkState | None = None
    ) -> tuple[dict[str, Unreleased], SparkState | None]:
        rows = data._open_rows()
        if not isinstance(rows, SparkRows):
            refuse(
                "SparkEngine",
                got="ratings that are not on Spark",
                needed="a Spark DataFrame",
                try_="lk.from_spark(frame, domain, user=…, item=…, rating=…), or LocalEngine() for these",
            )
        if sweep.needs_everyone:
            refuse("SparkEngine", got="a pass over all users at once", needed="a sum over users", try_="LocalEngine()")
        statistics = sweep.statistics
        blocks = rows._open_frame() if local is None else local._blocks()
        item_keys = data._open_item_keys() if isinstance(data, UncataloguedRatings) else NO_KEYS
        shared = self.spark.sparkContext.broadcast((sweep, item_keys))
        task = on_executor(SweepTask(shared, self.chunk))
        if not sweep.keeps_state:
            if self._large(statistics, rows.partitions):  # a task's sums travel once, however many partitions it took
                blocks = blocks.coalesce(self._cores())
            try:
                sums = self._added(blocks.mapInArrow(task, CHUNK_COLUMNS), statistics, rows.partitions)
            finally:
                shared.destroy()
            return closed(sums, statistics, data), None
        carried = blocks.mapInArrow(task, CARRIED_COLUMNS).persist()
        state = SparkState(carried, shared, local)
        sums = self._added(carried.where("chunk is not null").select("chunk", "units"), statistics, rows.partitions)
        if local is not None:
            local._replaced()
        return closed(sums, statistics, data), state

    def _cores(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def _large(self, statistics: tuple[Statistic, ...], partitions: int) -> bool:
        """Whether one array per partition would be too much for the driver."""
        return 8 * sum(s.size for s in statistics) * partitions > STRAIGHT_BYTES

    def _added(self, chunks: Any, statistics: tuple[Statistic, ...], partitions: int) -> Sums:
        return on_driver(lambda: self._receive(chunks, statistics, partitions))

    def _receive(self, chunks: Any, statistics: tuple[Statistic, ...], partitions: int) -> Sums:
        pieces = pieces_of(statistics, self.chunk)
        if self._large(statistics, partitions):
            chunks = chunks.repartition(min(len(pieces), self._cores()), "chunk")
            chunks = chunks.mapInArrow(on_executor(add_chunks), CHUNK_COLUMNS)
        sums = no_sums(statistics)
        flat = {name: array.reshape(-1) for name, array in sums.items()}
        for chunk, units in self._arriving(chunks, statistics):
            name, part = pieces[chunk]
            flat[name][part] += units
        return sums

    def _arriving(self, chunks: Any, statistics: tuple[Statistic, ...]) -> Iterator[tuple[int, Any]]:
        """As Arrow if Spark lets that much through at once; else as rows, partition by partition, which takes longer."""
        if 8 * sum(s.size for s in statistics) <= ARROW_BYTES:
            yield from chunks_in(chunks.toArrow().to_batches())
            return
        for chunk, units in chunks.toLocalIterator(prefetchPartitions=True):
            yield chunk, np.frombuffer(units, np.int64)


def _let_go(*steps: Any) -> None:
    for step in steps:
        with contextlib.suppress(Exception):  # a session that has ended holds nothing
            step()
