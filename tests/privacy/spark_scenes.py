"""Fits, catalogues and streams on Spark beside the engine of one machine; as a program, with executors that are killed.

    python spark_scenes.py FOLDER SCENE...

It has executors in processes of their own, of which one is killed in the middle of every scene, and prints a line of JSON
for each: digests of all that was summed, here and there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from estimators import CASES, DOMAINS
from kept import COLUMNS, KeepingBillboard, base_table
from spark_session import cluster_session
from spark_sweeps import KillsExecutor

import lowkey as lk
from lowkey.privacy.noise import SeededNoise

N_USERS, WEEK = 200, 7 * 86_400
USERS_CASES = [case for case in CASES if case.protects == "users" and not case.one_block]
BINARY = {"user": "user", "item": "item"}


@dataclass
class Deadly(lk.SparkEngine):
    """With a marker, an executor is killed in the third pass, with the blocks that it holds and what its users keep."""

    spark: Any
    marker: Path | None = None
    chunk: int = 101
    passes: int = field(default=0)

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        self.passes += 1
        deadly = self.marker is not None and self.passes == 3
        return super().sweep(KillsExecutor(sweep, str(self.marker)) if deadly else sweep, data, local)


def digest(posts: list[Any]) -> str:
    return hashlib.sha256(repr(posts).encode()).hexdigest()[:16]


def was_killed(marker: Path | None) -> bool:
    if marker is None:
        return False
    killed = int(marker.read_text())
    return not psutil.pid_exists(killed) or psutil.Process(killed).status() == psutil.STATUS_ZOMBIE


def fit(name: str, spark: Any, marker: Path | None) -> dict[str, Any]:
    """A whole fit; what it summed."""
    (case,) = [case for case in USERS_CASES if str(case) == name]
    table, here, there = base_table(case.domain, N_USERS), KeepingBillboard(), KeepingBillboard()
    case.make().fit(lk.from_frame(table, case.domain, **COLUMNS), engine=lk.LocalEngine(1), billboard=here)
    ratings = lk.from_spark(spark.createDataFrame(table), case.domain, **COLUMNS, partitions=4)
    case.make().fit(ratings, engine=Deadly(spark, marker), billboard=there)
    posts = {"here": digest(here.opened), "there": digest(there.opened)}
    return {**posts, "posts": len(there.opened), "killed": was_killed(marker)}


def catalogue(spark: Any, folder: Path, marker: Path | None) -> dict[str, Any]:
    """A catalogue is selected, by users with more items than their cap too; then a fit on it. Ids with stray spaces."""
    selection, found = lk.PrivateCatalogue(30.0, 1e-3, max_items=3), {}
    table = base_table(DOMAINS["ratings"], N_USERS).drop_columns("rating")
    alone = pa.table({"user": np.full(5, 1), "item": [f"a film that one user has, {at}" for at in range(5)]})
    table = pa.concat_tables([table, alone])
    pq.write_table(table, folder / "r.parquet")
    spaced = table.set_column(1, "item", pa.array([f" {item}" for item in table["item"].to_pylist()]))
    rows = {
        "here": lk.read_uncatalogued(folder / "r.parquet", **BINARY, feedback="binary"),
        "there": lk.uncatalogued_from_spark(spark.createDataFrame(spaced), **BINARY, feedback="binary", partitions=4),
    }
    for place, engine in (("here", lk.LocalEngine(1)), ("there", Deadly(spark, marker))):
        billboard = KeepingBillboard()
        ids = selection.select(rows[place], billboard, engine=engine)
        known = rows[place].with_items(ids)
        lk.DPLists(*selection.rest(), head=4).fit(known, engine=engine, billboard=billboard)
        found[place] = digest([ids.tolist(), billboard.opened])
    return {**found, "items": len(ids), "of": len(set(table["item"].to_pylist())), "killed": was_killed(marker)}


def stream(spark: Any, folder: Path, marker: Path | None) -> dict[str, Any]:
    """Two weekly releases; a third of the users speaks at the first, who are fewer after the second."""
    table = base_table(DOMAINS["binary"], N_USERS)
    users = table["user"].to_numpy()
    times = np.where(users % 3 == 0, -10 * WEEK, 0)
    timed = table.append_column("time", pa.array(times)).drop_columns("rating")
    columns, found = {**BINARY, "time": "time"}, {}
    for place in ("here", "there"):
        if place == "here":
            ratings, engine = lk.TimedRatings.from_frame(timed, DOMAINS["binary"], **columns), lk.LocalEngine(1)
        else:
            frame = spark.createDataFrame(timed)
            ratings = lk.timed_from_spark(frame, DOMAINS["binary"], **columns, partitions=3)
            engine = Deadly(spark, marker)
        calendar, method = lk.Calendar.weekly(first=0), lk.DPLists(4.0, 1e-6, head=12)
        made = lk.Stream(folder / place, method, DOMAINS["binary"], calendar, 2, noise=SeededNoise(1))
        made.release(ratings, 2, engine=engine)
        posts = sorted((folder / place / "posts").glob("[0-9]*.npy"))
        found[place] = digest([post.read_bytes() for post in posts])
    return {**found, "posts": len(posts), "killed": was_killed(marker)}


SCENES = {"catalogue": catalogue, "stream": stream}


def main() -> None:
    folder, begin, spark = Path(sys.argv[1]), time.perf_counter(), cluster_session()
    for scene in sys.argv[2:]:
        marker = folder / f"killed in {scene}"
        found = SCENES[scene](spark, folder, marker) if scene in SCENES else fit(scene, spark, marker)
        print(json.dumps({"scene": scene, **found, "seconds": round(time.perf_counter() - begin, 1)}), flush=True)
    os._exit(0)  # Spark ends with the process; to wait for its executors takes seconds


if __name__ == "__main__":
    main()
