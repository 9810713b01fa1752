"""The same sums to the bit from memory, from disk and from Spark, for every method of the table.

A whole fit of every case runs in memory and from disk. On Spark it is the number of jobs that takes time: all sweeps of all
cases are run together as one sweep with one, three and eight partitions (those
after which users keep something one by one, as that cannot be run together), and a whole fit of some estimators with three.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from estimators import DOMAINS, Case
from kept import COLUMNS, KeepingBillboard, base_table
from spark_scenes import USERS_CASES
from spark_session import spark  # noqa: F401 (a fixture)
from spark_sweeps import Together

import lowkey as lk
from lowkey.data import external_sort
from lowkey.data.stored import StoredRows
from lowkey.engines import spark as spark_engine
from lowkey.engines.local import Engine
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.sums import Unreleased

N_USERS = 120
FITTED = [case for case in USERS_CASES if str(case) in ("DPLMC-ratings", "DPMoments-binary", "DPFactors-ratings")]
PARTITIONS = (1, 3, 8)
WEEKLY = lk.Calendar.weekly(first=0)


@dataclass
class Noting(Engine):
    """The local engine, which notes what it was asked."""

    asked: list[Sweep]

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        self.asked.append(sweep)
        return lk.LocalEngine(1, 50).sweep(sweep, data, local)


@cache
def local_fit(case: Case) -> tuple[list[tuple[str, bytes]], list[Sweep]]:
    """Every sum of a fit in memory, and every sweep it took."""
    billboard, engine = KeepingBillboard(), Noting([])
    data = lk.from_frame(base_table(case.domain, N_USERS), case.domain, **COLUMNS)
    case.make().fit(data, engine=engine, billboard=billboard)
    assert billboard.opened
    return billboard.opened, engine.asked


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, lk.Ratings]:
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "BUCKET_ROWS", 100)
        for feedback, domain in DOMAINS.items():
            path = tmp_path_factory.mktemp("data") / "r.parquet"
            pq.write_table(base_table(domain, N_USERS, seed=1), path, row_group_size=200)
            found[feedback] = lk.read_ratings(path, domain, **COLUMNS, out_of_core=True)
            assert isinstance(found[feedback]._open_rows(), StoredRows)
    return found


@pytest.fixture(scope="module")
def on_spark(spark: Any) -> Callable[[str, int], lk.Ratings]:  # noqa: F811
    @cache
    def ratings(feedback: str, partitions: int) -> lk.Ratings:
        frame = spark.createDataFrame(base_table(DOMAINS[feedback], N_USERS, seed=2))
        return lk.from_spark(frame, DOMAINS[feedback], **COLUMNS, partitions=partitions)

    return ratings


@pytest.mark.parametrize("case", USERS_CASES, ids=str)
def test_out_of_core_gives_the_same_sums(case: Case, on_disk: dict[str, lk.Ratings]) -> None:
    billboard = KeepingBillboard()
    case.make().fit(on_disk[case.feedback], engine=lk.LocalEngine(1), billboard=billboard)
    assert billboard.opened == local_fit(case)[0]


@pytest.mark.parametrize("case", FITTED, ids=str)
def test_spark_gives_the_same_sums(case: Case, spark: Any, on_spark: Callable[[str, int], lk.Ratings]) -> None:  # noqa: F811
    billboard = KeepingBillboard()
    case.make().fit(on_spark(case.feedback, 3), engine=lk.SparkEngine(spark), billboard=billboard)
    assert billboard.opened == local_fit(case)[0]


def stream_posts(folder: Path, cohorts: list[lk.Ratings], engine: Engine) -> list[bytes]:
    """All posts of a stream of two releases under the same noise: equal if, and only if, the sums are."""
    stream = lk.Stream(folder, lk.DPLists(4.0, 1e-6, head=12), DOMAINS["binary"], WEEKLY, 2, noise=SeededNoise(1))
    stream._cohorts = lambda ratings, release: cohorts[:release]
    stream.release(cohorts[0], 2, engine=engine)  # type: ignore[arg-type]
    posts = sorted((folder / "posts").glob("[0-9]*.npy"))
    assert len(posts) == 6  # counts, moments and fit, twice
    return [post.read_bytes() for post in posts]


def cohort_tables(seed: int = 0) -> list[pa.Table]:
    table = base_table(DOMAINS["binary"], N_USERS, seed)
    early = table["user"].to_numpy() % 3 == 0
    return [table.filter(pa.array(mask)) for mask in (early, ~early)]


def test_out_of_core_gives_a_stream_the_same_sums(tmp_path: Path, monkeypatch: Any) -> None:
    """On Spark: test_local_cluster.py."""
    domain = DOMAINS["binary"]
    here = [lk.from_frame(table, domain, **COLUMNS) for table in cohort_tables()]
    expected = stream_posts(tmp_path / "here", here, lk.LocalEngine(1, 50))
    monkeypatch.setattr(external_sort, "BUCKET_ROWS", 100)
    stored = []
    for number, table in enumerate(cohort_tables(seed=1)):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=200)
        stored.append(lk.read_ratings(tmp_path / f"{number}.parquet", domain, **COLUMNS, out_of_core=True))
    assert stream_posts(tmp_path / "stored", stored, lk.LocalEngine(1)) == expected


@pytest.mark.parametrize("partitions", PARTITIONS[::2])
def test_what_users_keep_stays_theirs(partitions: int, spark: Any, on_spark: Callable[[str, int], lk.Ratings]) -> None:  # noqa: F811
    """The passes after which users keep something cannot be run together; those of one method, one after the other."""
    steps = [step for case in FITTED for step in local_fit(case)[1] if step.keeps_state]
    assert len({type(sweep) for sweep in steps}) == 1 < len(steps)
    data, here, there = lk.from_frame(base_table(DOMAINS["ratings"], N_USERS), DOMAINS["ratings"], **COLUMNS), None, None
    for sweep in steps:
        expected, here = lk.LocalEngine(1).sweep(sweep, data, here)
        found, there = lk.SparkEngine(spark).sweep(sweep, on_spark("ratings", partitions), there)
        assert_same(found, expected)


def assert_same(found: dict[str, Unreleased], expected: dict[str, Unreleased]) -> None:
    assert found.keys() == expected.keys()
    for name, closed in found.items():
        assert isinstance(closed, Unreleased), name
        assert np.array_equal(closed._units, expected[name]._units), name


ROADS: dict[str, dict[str, int]] = {
    "straight to the driver": {},
    "added up before": {"STRAIGHT_BYTES": 0},
    "row by row": {"STRAIGHT_BYTES": 0, "ARROW_BYTES": 0},
}


@pytest.mark.parametrize(
    ("partitions", "road"), [*((p, "straight to the driver") for p in PARTITIONS), *((8, r) for r in list(ROADS)[1:])]
)
@pytest.mark.parametrize("feedback", DOMAINS)
def test_the_number_of_partitions_does_not_matter(
    feedback: str,
    partitions: int,
    road: str,
    spark: Any,  # noqa: F811
    on_spark: Callable[[str, int], lk.Ratings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor whether sums are added up on the executors, in chunks that cut every array, or how they reach the driver."""
    for limit, size in ROADS[road].items():
        monkeypatch.setattr(spark_engine, limit, size)
    steps = [step for case in USERS_CASES if case.feedback == feedback for step in local_fit(case)[1]]
    together = Together([step for step in steps if not step.keeps_state])
    data = lk.from_frame(base_table(DOMAINS[feedback], N_USERS), DOMAINS[feedback], **COLUMNS)
    expected, _ = lk.LocalEngine(1).sweep(together, data)
    engine = lk.SparkEngine(spark, chunk=101)
    found, _ = engine.sweep(together, on_spark(feedback, partitions))
    assert len(found) > 3
    assert_same(found, expected)
