"""DPMoments, DPFactors and a round of DPALS on Spark against an iteration of MLlib's own ALS, in one run.

Run: python benchmarks/speed/spark.py [--users 200000] [--items 20000] [--rank 32] [--cores 2] [--partitions 8]
     python benchmarks/speed/spark.py --only-traffic --users 20000 --master 'local-cluster[2,1,2048]'
The same session, frame, rank and partitions for both, and the same watch: a fit of three iterations less a fit of one,
halved, after one fit that is not counted. So neither is charged for sorting the ratings into blocks, for starting, or for
what Java compiles on the way. A round of DPALS is a pass over the users, its posts with their noise, and the items' solve.
Then what Spark counts as shuffled, and as sent to the driver, beside what the sizes of rows and sums let expect.
Time on the clock, and time of the processors, which other work on the machine does not change much. Target: a round at most
twice as long as an iteration. Then what every pass costs per rating, and from that what a billion ratings would cost on a
hundred cores, a hundred billion on ten thousand, and how many users a sum has room for (docs/scale.md).
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
import pyspark
from pyspark.ml.recommendation import ALS as MLlibALS
from pyspark.sql import SparkSession

import lowkey as lk
from lowkey.data.synthetic import write_taste
from lowkey.engines.local import Engine
from lowkey.engines.spark import STRAIGHT_BYTES
from lowkey_lab.speed import told

MORE = 2  # iterations of the longer fit beyond those of the shorter one
ITEMS, RANK, HEAD = 100_000, 32, 4096
SIZES = {"a billion": (10**9, 100), "a hundred billion": (10**11, 10_000)}  # ratings and cores
EACH = 100  # ratings of a user
ROW_BYTES, TASK_BYTES = 16, 60  # of a rating: ids and value on their way; in the memory of the task that groups it
EXECUTOR_BYTES = 4 * 2**30  # of Python, per core


@dataclass
class Pass:
    name: str
    seconds: float
    sum_bytes: int
    processor: float  # seconds of all processes together
    moved: tuple[int, int]  # bytes shuffled, and sent to the driver
    room: float  # users whose largest contributions still fit a sum


@dataclass
class Timed(Engine):
    """An engine with a watch."""

    engine: Engine
    passes: list[Pass] = field(default_factory=list)

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        spark = getattr(self.engine, "spark", None)
        before, begin, processor = traffic(spark), time.perf_counter(), processor_time()
        found = self.engine.sweep(sweep, data, local)
        seconds, processor = time.perf_counter() - begin, processor_time() - processor
        size = 8 * sum(s.size for s in sweep.statistics)
        room = min(2.0**63 * s.grid.step / s.sensitivity.add_remove for s in sweep.statistics)
        self.passes.append(Pass(type(sweep).__name__, seconds, size, processor, since(before, spark), room))
        return found


def traffic(spark: Any) -> tuple[int, int]:
    """Bytes that all stages so far wrote to be shuffled, and that tasks sent to the driver: as Spark counts them."""
    if spark is None:
        return 0, 0
    context = spark.sparkContext
    java, gateway = context._jsc.sc(), context._gateway
    java.listenerBus().waitUntilEmpty()
    none: Any = gateway.new_array(gateway.jvm.double, 0)
    stages = java.statusStore().stageList(None, False, False, none, gateway.jvm.java.util.ArrayList())
    found = [stages.apply(at) for at in range(stages.size())]
    return sum(stage.shuffleWriteBytes() for stage in found), sum(stage.resultSize() for stage in found)


def since(before: tuple[int, int], spark: Any) -> tuple[int, int]:
    now = traffic(spark)
    return now[0] - before[0], now[1] - before[1]


def session(master: str, memory: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.log.level": "ERROR",
        "spark.python.daemon.module": "lowkey.engines.spark_daemon",
    }
    builder = SparkSession.builder.master(master)
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
    parser.add_argument("--master", help="instead of local[cores]")
    parser.add_argument("--only-traffic", action="store_true", help="without MLlib: what is shuffled")
    parser.add_argument("--only-constants", action="store_true", help="no Spark: what a pass costs per rating")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if not options.only_constants:
            file = (options.folder or Path(temporary)) / f"numbers-{options.users}.parquet"
            if not file.exists():
                write_taste(file, options.users, options.items, 100.0, numbers=True)
            spark = session(options.master or f"local[{options.cores}]", options.memory)
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
    print(f"{spark.sparkContext.master}, {options.partitions} partitions; load of the machine {load:.1f}")
    iteration = None if options.only_traffic else per_iteration("MLlib ALS", lambda n: mllib_als(frame, options, n))
    domain = lk.Domain(options.items, (0.5, 5.0), expected_users=options.users)
    columns = {"user": "user", "item": "item", "rating": "rating"}
    before = traffic(spark)
    _, ratings = timed(
        "from_spark: each user's rows together, checked, in blocks",
        lambda: lk.from_spark(frame, domain, **columns, partitions=options.partitions, check_axes=False),
    )
    shuffled = since(before, spark)[0] / n_ratings
    print(f"  shuffled once: {shuffled:.1f} bytes a rating; {ROW_BYTES} expected", flush=True)
    engine = Timed(lk.SparkEngine(spark))
    for name, model in estimators(options.rank).items():
        timed(name, lambda: model.fit(ratings, engine=engine))  # noqa: B023 (called at once)
    if iteration is not None:
        a_round = per_iteration("DPALS", lambda n: dpals(options.rank, n).fit(ratings, engine=engine))
        print(f"  a round of DPALS       {a_round}")
        print(f"  an iteration of MLlib  {iteration}")
        clock, processor = a_round.wall / iteration.wall, a_round.processor / iteration.processor
        print(
            f"  ratio {clock:.2f} on the clock, {processor:.2f} of processors; load of the machine {os.getloadavg()[0]:.1f}"
        )
        told("a round of DPALS / an iteration of MLlib's ALS, on Spark", clock, 2.0)
    print(
        "pass                     seconds   core-ns a rating   sums, MB   expected, MB   shuffled, MB   to the driver, MB"
    )
    for done in engine.passes:
        core_ns, size = 1e9 * done.processor / n_ratings, done.sum_bytes / 1e6
        # large sums are shuffled, once per core; small ones go straight to the driver, once per partition
        large = done.sum_bytes * options.partitions > STRAIGHT_BYTES
        expected = size * (spark.sparkContext.defaultParallelism if large else 0)
        shuffled, sent = (moved / 1e6 for moved in done.moved)
        traffic_said = f"{expected:15.1f}{shuffled:15.1f}{sent:16.1f}"
        print(f"{done.name:<22}{done.seconds:10.1f}{core_ns:19.1f}{size:11.1f}{traffic_said}", flush=True)


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
        sample = lk.read_ratings(file, domain, user="user", item="item", rating="rating", check_axes=False)
        for model in estimators(RANK, head).values():
            engine = Timed(lk.LocalEngine(1, 1 << 14))
            model.fit(sample, engine=engine)
            found |= {done.name: done for done in engine.passes}
        if users < 1000:
            for name, done in found.items():
                print(f"  {name:<16} a coordinate has room for {done.room:.0e} users at the bound", flush=True)
    n_ratings = pyarrow.parquet.ParquetFile(file).metadata.num_rows
    triangle = RANK * (RANK + 1) // 2
    sums = {
        "RatingMoments": 8 * HEAD * (HEAD + 1),
        "FactorRound": 8 * (ITEMS * RANK + triangle),
        "ItemEquations": 8 * ITEMS * (triangle + RANK),
    }
    for words, (ratings, cores) in SIZES.items():
        print(f"a pass at {words} ratings, {ITEMS:,} items, rank {RANK}, a head of {HEAD}, {cores:,} cores:")
        for name, done in found.items():
            each, size = done.processor / n_ratings, sums.get(name, 16 * ITEMS)
            kernels = f"{1e9 * each:8.0f} ns a rating{each * ratings / cores:8.1f} s of kernels"
            shuffled = f"driver {size / 1e9:6.3f} GB, shuffled {size * cores / 1e9:8.1f} GB"
            print(f"  {name:<16}{kernels}, {shuffled}")
        partitions = ratings * TASK_BYTES / EXECUTOR_BYTES
        once, held = ratings * ROW_BYTES / 1e9, ratings * 8 / 1e9
        print(
            f"  {ratings / EACH:.0e} users; {once:,.0f} GB shuffled once, {held:,.0f} GB held, {partitions:,.0f} partitions"
        )
        print(f"  to the driver, on which ids occur: {partitions * ITEMS / 4e9:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
