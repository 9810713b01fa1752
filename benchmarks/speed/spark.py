"""DPMoments, DPFactors and a round of DPALS on Spark against an iteration of MLlib's own ALS, in one run.

Run: python benchmarks/speed/spark.py [--users 200000] [--items 20000] [--rank 32] [--cores 2] [--partitions 8]
The same session, frame, rank and partitions for both, and the same watch: a fit of three iterations less a fit of one,
halved, after one fit that is not counted. So neither is charged for sorting the ratings into blocks, for starting, or for
what Java compiles on the way. A round of DPALS is a pass over the users, its posts with their noise, and the items' solve.
Time on the clock, and time of the processors, which other work on the machine does not change much. Target: a round at most
twice as long as an iteration. Then what every pass costs per rating, and from that what a billion ratings would cost on a
hundred cores (docs/scale.md).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
from pyspark.ml.recommendation import ALS as MLlibALS
from pyspark.sql import SparkSession

import lowkey as lk
from lowkey.data.synthetic import write_taste
from lowkey.engines.base import Engine
from lowkey.engines.spark import STRAIGHT_BYTES

MORE = 2  # iterations of the longer fit beyond those of the shorter one
BILLION, CORES, ITEMS, RANK, HEAD = 10**9, 100, 100_000, 32, 4096


@dataclass
class Pass:
    name: str
    seconds: float
    sum_bytes: int
    processor: float  # seconds of all processes together


@dataclass
class Timed(Engine):
    """An engine with a watch."""

    engine: Engine
    passes: list[Pass] = field(default_factory=list)

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        begin, processor = time.perf_counter(), processor_time()
        found = self.engine.sweep(sweep, data, local)
        seconds, processor = time.perf_counter() - begin, processor_time() - processor
        size = 8 * sum(s.size for s in sweep.statistics)
        self.passes.append(Pass(type(sweep).__name__, seconds, size, processor))
        return found


def session(cores: int, memory: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.log.level": "ERROR",
        "spark.python.daemon.module": "lowkey.engines.spark_daemon",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def processor_time() -> float:
    """Seconds that this process, Java and the Python workers have had, those that have ended too."""
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


@dataclass(frozen=True)
class Took:
    """Seconds on the clock and of the processors."""

    wall: float
    processor: float

    def beyond(self, shorter: Took) -> Took:
        """What one of the MORE iterations took."""
        return Took((self.wall - shorter.wall) / MORE, (self.processor - shorter.processor) / MORE)

    def __str__(self) -> str:
        return f"{self.wall:8.1f} s{self.processor:9.1f} s of processors"


def timed(what: str, job: Any) -> tuple[Took, Any]:
    begin, processor = time.perf_counter(), processor_time()
    found = job()
    took = Took(time.perf_counter() - begin, processor_time() - processor)
    print(f"  {what:<58}{took}", flush=True)
    return took, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rank", type=int, default=RANK)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--folder", type=Path, help="keep the ratings here")
    parser.add_argument("--only-constants", action="store_true", help="no Spark: what a pass costs per rating")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if not options.only_constants:
            file = (options.folder or Path(temporary)) / f"numbers-{options.users}.parquet"
            if not file.exists():
                write_taste(file, options.users, options.items, 100.0, numbers=True)
            spark = session(options.cores, options.memory)
            try:
                compare(spark, file, options)
            finally:
                spark.stop()
        at_a_billion(Path(temporary), options)


def compare(spark: SparkSession, file: Path, options: argparse.Namespace) -> None:
    frame = spark.read.parquet(str(file))
    n_ratings = frame.count()
    load = os.getloadavg()[0]
    print(f"{n_ratings:,} ratings, {options.users:,} users, {options.items:,} items, rank {options.rank}, ", end="")
    print(f"local[{options.cores}], {options.partitions} partitions; load of the machine {load:.1f}")
    iteration = per_iteration("MLlib ALS", lambda n: mllib_als(frame, options, n))
    domain = lk.Domain(options.items, (0.5, 5.0), expected_users=options.users)
    columns = {"user": "user", "item": "item", "rating": "rating"}
    _, ratings = timed(
        "from_spark: each user's rows together, checked, in blocks",
        lambda: lk.from_spark(frame, domain, **columns, partitions=options.partitions),
    )
    engine = Timed(lk.SparkEngine(spark))
    for name, model in estimators(options.rank).items():
        timed(name, lambda: model.fit(ratings, engine=engine))  # noqa: B023 (called at once)
    a_round = per_iteration("DPALS", lambda n: dpals(options.rank, n).fit(ratings, engine=engine))
    print(f"  a round of DPALS       {a_round}")
    print(f"  an iteration of MLlib  {iteration}")
    ratios = (
        f"{a_round.wall / iteration.wall:.2f} on the clock, {a_round.processor / iteration.processor:.2f} of processors"
    )
    print(f"  ratio {ratios} (target: at most 2); load of the machine {os.getloadavg()[0]:.1f}", flush=True)
    print("pass                     seconds   core-ns a rating   sums, MB   shuffled, MB")
    for done in engine.passes:
        core_ns = 1e9 * done.processor / n_ratings
        size = done.sum_bytes / 1e6
        # large sums leave once per core, small ones once per partition
        times = options.cores if done.sum_bytes * options.partitions > STRAIGHT_BYTES else options.partitions
        print(f"{done.name:<22}{done.seconds:10.1f}{core_ns:19.1f}{size:11.1f}{size * times:15.1f}")


def dpals(rank: int, n_iter: int) -> lk.DPALS:
    return lk.DPALS(epsilon=1.0, delta=1e-8, rank=rank, n_iter=n_iter)


def estimators(rank: int, head: int | None = None) -> dict[str, Any]:
    budget = {"epsilon": 1.0, "delta": 1e-8}
    return {
        "DPMoments: all of it": lk.DPMoments(**budget, head=head),
        "DPFactors: item means and two rounds": lk.DPFactors(**budget, rank=rank, n_iter=2),
        "DPALS: item means and one round": dpals(rank, n_iter=1),
    }


def mllib_als(frame: Any, options: argparse.Namespace, n_iter: int) -> Any:
    blocks = {"numUserBlocks": options.partitions, "numItemBlocks": options.partitions}
    als = MLlibALS(rank=options.rank, maxIter=n_iter, regParam=0.1, userCol="user", itemCol="item", **blocks)
    return als.fit(frame.selectExpr("cast(user as int) user", "cast(item as int) item", "rating"))


def per_iteration(what: str, fit: Callable[[int], Any]) -> Took:
    timed(f"{what}, 1 iteration, not counted", lambda: fit(1))
    one, _ = timed(f"{what}, 1 iteration", lambda: fit(1))
    more, _ = timed(f"{what}, {1 + MORE} iterations", lambda: fit(1 + MORE))
    return more.beyond(one)


def at_a_billion(folder: Path, options: argparse.Namespace) -> None:
    """Core time grows with the ratings; the sums, and what is shuffled, with the items and the cores alone.

    The kernels' time per rating is measured here on one core, on two million ratings: one block or two.
    """
    found: dict[str, Pass] = {}
    for users, head in ((200, 64), (20_000, HEAD)):  # first a few users, so that all code is loaded
        file = folder / f"sample-{users}.parquet"
        write_taste(file, users, options.items, 100.0, numbers=True)
        domain = lk.Domain(options.items, (0.5, 5.0), expected_users=users)
        sample = lk.read_ratings(file, domain, user="user", item="item", rating="rating")
        for model in estimators(RANK, head).values():
            engine = Timed(lk.LocalEngine(1, 1 << 14))
            model.fit(sample, engine=engine)
            found |= {done.name: done for done in engine.passes}
    n_ratings = pyarrow.parquet.ParquetFile(file).metadata.num_rows
    triangle = RANK * (RANK + 1) // 2
    sums = {
        "RatingMoments": 8 * HEAD * (HEAD + 1),
        "FactorRound": 8 * (ITEMS * RANK + triangle),
        "ItemEquations": 8 * ITEMS * (triangle + RANK),
    }
    print(f"a pass at a billion ratings, {ITEMS:,} items, rank {RANK}, a head of {HEAD}, {CORES} cores:")
    for name, done in found.items():
        each = done.processor / n_ratings
        size = sums.get(name, 16 * ITEMS)
        time_and_driver = f"{each * BILLION / CORES:8.0f} s of kernels, driver {size / 1e9:6.3f} GB"
        print(f"  {name:<16}{1e9 * each:8.0f} ns a rating{time_and_driver}, shuffled {size * CORES / 1e9:7.2f} GB")


if __name__ == "__main__":
    main()
