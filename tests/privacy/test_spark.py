"""Spark: what goes wrong changes no sum, spends no budget unseen and shows nobody's data."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from estimators import DOMAINS
from kept import COLUMNS, base_table
from spark_session import spark  # noqa: F401 (a fixture)
from spark_sweeps import DiesOnce, Quotes

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.columns import ColumnNames
from lowkey.data.spark_blocks import BLOCK_COLUMNS, GroupByUser
from lowkey.data.spark_errors import on_driver, on_executor
from lowkey.data.spark_rows import SparkRows
from lowkey.errors import BudgetError, InputError
from lowkey.kernels.bias import ItemMeans
from lowkey.privacy.sums import Unreleased

DOMAIN = DOMAINS["ratings"]
BOUNDS = (1.5, 5.0)
FIELDS = (2.75 + np.linspace(-1.0, 1.0, DOMAIN.n_items), *BOUNDS)


def expected_means(table: pa.Table) -> np.ndarray:
    sums, _ = lk.LocalEngine(1).sweep(ItemMeans(*FIELDS), lk.from_frame(table, DOMAIN, **COLUMNS))
    return opened(sums["item_means"])


def opened(closed: Unreleased) -> np.ndarray:
    assert closed._units is not None
    return closed._units


def test_a_task_that_is_killed_and_run_again_changes_nothing(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    table = base_table(DOMAIN, 60)
    ratings = lk.from_spark(spark.createDataFrame(table), DOMAIN, **COLUMNS, partitions=2)
    marker = tmp_path / "died"
    sums, _ = lk.SparkEngine(spark).sweep(DiesOnce(*FIELDS, marker=str(marker)), ratings)
    assert marker.exists()  # a process did die
    assert np.array_equal(opened(sums["item_means"]), expected_means(table))


def test_an_error_in_a_task_quotes_nobody(spark: Any) -> None:  # noqa: F811
    ratings = lk.from_spark(spark.createDataFrame(base_table(DOMAIN, 20)), DOMAIN, **COLUMNS, partitions=1)
    with pytest.raises(InputError, match="an unexpected ValueError in a task") as failure:
        lk.SparkEngine(spark).sweep(Quotes(*FIELDS), ratings)
    assert "cast" not in str(failure.value)
    assert failure.value.__context__ is None
    assert failure.value.__cause__ is None


def test_a_user_whose_rows_are_spread_over_files_and_partitions_that_are_empty(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    """Rows in random order in three files, and eight partitions for a handful of users."""
    table = base_table(DOMAIN, 6)
    bounds = [at * len(table) // 3 for at in range(4)]
    for at in range(3):
        pq.write_table(table.slice(bounds[at], bounds[at + 1] - bounds[at]), tmp_path / f"{at}.parquet")
    assert len(pq.read_table(tmp_path)) == len(table)
    ratings = lk.from_spark(spark.read.parquet(str(tmp_path)), DOMAIN, **COLUMNS, partitions=8)
    sums, _ = lk.SparkEngine(spark).sweep(ItemMeans(*FIELDS), ratings)
    assert np.array_equal(opened(sums["item_means"]), expected_means(table))


def spark_people(ratings: lk.Ratings) -> Counter[tuple[bytes, bytes, bytes]]:
    """Key, items and values of every user in the frame of blocks."""
    rows = ratings._open_rows()
    assert isinstance(rows, SparkRows)
    found: Counter[tuple[bytes, bytes, bytes]] = Counter()
    for block in rows._open_frame().collect():
        offsets, keys = np.frombuffer(block["offsets"], np.int64), np.frombuffer(block["keys"], np.uint64)
        items, values = np.frombuffer(block["items"], np.int32), np.frombuffer(block["ratings"], np.float32)
        for key, a, b in zip(keys, offsets, offsets[1:], strict=False):
            found[key.tobytes(), items[a:b].tobytes(), values[a:b].tobytes()] += 1
    return found


def local_people(table: pa.Table, domain: lk.Domain) -> Counter[tuple[bytes, bytes, bytes]]:
    whole = lk.from_frame(table, domain, **COLUMNS)._open_rows().whole()
    ends = zip(whole.keys, whole.offsets, whole.offsets[1:], strict=False)
    return Counter((key.tobytes(), whole.items[a:b].tobytes(), whole.values[a:b].tobytes()) for key, a, b in ends)


def test_people_are_those_of_the_other_readers_and_change_for_nobody_else(spark: Any) -> None:  # noqa: F811
    """Ids in several spellings, which Spark would deal to several partitions; then users leave, come, are exchanged."""
    rows = [(f"user {u:02d}", f"film {(u * 5 + i) % 16:02d}", 1.0 + i) for u in range(13) for i in range(3)]
    spelled = [(f" {user}\u2003" if at % 2 else user, f"{item} ", rating) for at, (user, item, rating) in enumerate(rows)]
    spelled += [("Zoe\u0308", "film 01", 2.0), ("Zo\u00eb ", "film 02", 3.0), ("\tZo\u00eb", "film 03", 4.0)]
    tidy = [*rows, *(("Zo\u00eb", f"film 0{i}", i + 1.0) for i in (1, 2, 3))]
    as_table = lambda rows: pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))
    read = lambda rows: lk.from_spark(spark.createDataFrame(as_table(rows)), DOMAIN, **COLUMNS, partitions=5)
    before = spark_people(read(spelled))
    assert before == local_people(as_table(tidy), DOMAIN)
    assert sum(before.values()) == 14
    for user in ("user 00", "user 06", "Zo\u00eb"):
        left = before - spark_people(read([row for row in spelled if unicodedata.normalize("NFC", row[0]).strip() != user]))
        assert sum(left.values()) == 1
    more = spark_people(read([*spelled, ("a user", "film 03", 5.0)]))
    assert (sum((more - before).values()), sum((before - more).values())) == (1, 0)
    swapped = spark_people(read([("new" if row[0] == "Zoe\u0308" else row[0], *row[1:]) for row in spelled]))
    assert (sum((swapped - before).values()), sum((before - swapped).values())) == (2, 1)  # half of Zoe is a new user
    with pytest.raises(InputError, match="column 'user': got missing values"):
        read([*spelled, (" \u2003", "film 03", 5.0)])


def replaced(table: pa.Table, column: str, value: Any, kind: Any = None) -> pa.Table:
    cells = [value, *table[column].to_pylist()[1:]]
    return table.set_column(table.schema.names.index(column), column, pa.array(cells, kind))


BAD = {
    "none of the names asked for": lambda t: t.rename_columns(["a", "b", "c"]),
    "no 'rating' beside": lambda t: t.drop_columns("rating"),
    "column 'user': got missing values": lambda t: replaced(t, "user", None),
    "column 'item': got missing values": lambda t: replaced(t, "item", None),
    "column 'rating': got missing values": lambda t: replaced(t, "rating", None),
    "ids that are not in the catalogue": lambda t: replaced(t, "item", "a secret film"),
    "ratings outside the range": lambda t: replaced(t, "rating", 77.25),
    "ids that are integers or text": lambda t: t.set_column(0, "user", pa.array(np.arange(len(t)) / 2)),
    "the same item more than once": lambda t: pa.concat_tables([t, t.slice(0, 1)]),
    "no rows": lambda t: t.slice(0, 0),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_frames_are_refused_as_they_are_here(spark: Any, message: str) -> None:  # noqa: F811
    table = BAD[message](base_table(DOMAIN, 6))
    frame = spark.createDataFrame(table)
    said = []
    for read in (
        lambda: lk.from_frame(table, DOMAIN, **COLUMNS),
        lambda: lk.from_spark(frame, DOMAIN, **COLUMNS, partitions=2),
    ):
        with pytest.raises(InputError, match=message) as refusal:
            read()
        said.append(str(refusal.value))
        assert "secret" not in said[-1]
        assert "77" not in said[-1]
        assert refusal.value.__context__ is None
    assert said[0] == said[1]


def test_items_may_be_dropped_but_not_all(spark: Any) -> None:  # noqa: F811
    table = base_table(DOMAIN, 12)
    few = lk.Domain(items=["film 03", "film 11"], rating_range=(0.5, 5.0))
    frame = spark.createDataFrame(table)
    ratings = lk.from_spark(frame, few, **COLUMNS, partitions=3, unknown_items="drop")
    held = lk.from_frame(table, few, **COLUMNS, unknown_items="drop")
    means = ItemMeans(np.full(2, 2.75), *BOUNDS)
    here, _ = lk.LocalEngine(1).sweep(means, held)
    there, _ = lk.SparkEngine(spark).sweep(means, ratings)
    assert np.array_equal(opened(there["item_means"]), opened(here["item_means"]))
    foreign = lk.Domain(items=["x"], rating_range=(0.5, 5.0))
    with pytest.raises(InputError, match="no id that is in the catalogue"):
        lk.from_spark(frame, foreign, **COLUMNS, partitions=2, unknown_items="drop")


def test_exchanged_columns_are_noticed_over_all_partitions(spark: Any) -> None:  # noqa: F811
    """Both columns hold numbers that the catalogue knows, so that only how much of it each shows can tell."""
    users, items = np.repeat(np.arange(1, 21), 6), (np.arange(120) * 7) % 40 + 1
    table = pa.table({"user": users, "item": items, "rating": np.full(120, 3.0)})
    domain, frame = lk.Domain(range(1, 41), (0.5, 5.0)), spark.createDataFrame(table)
    lk.from_spark(frame, domain, user="user", item="item", rating="rating", partitions=3)
    swapped = {"user": "item", "item": "user", "rating": "rating", "duplicates": "mean", "partitions": 3}
    with pytest.raises(InputError, match="look exchanged"):
        lk.from_spark(frame, domain, **swapped)
    lk.from_spark(frame, domain, **swapped, check_axes=False)


def test_what_a_frame_cannot_say(spark: Any) -> None:  # noqa: F811
    frame = spark.createDataFrame(base_table(DOMAIN, 6))
    for options, message in (
        ({"duplicates": "last"}, "Spark frame has none"),
        ({"duplicates": "first"}, "duplicates"),
        ({"unknown_items": "keep"}, "unknown_items"),
        ({"partitions": 0}, "partitions"),
    ):
        with pytest.raises(InputError, match=message):
            lk.from_spark(frame, DOMAIN, **COLUMNS, **options)


def test_names_that_spark_does_not_tell_apart(spark: Any) -> None:  # noqa: F811
    frame = spark.createDataFrame(base_table(DOMAIN, 6)).selectExpr("user", "user as USER", "item", "rating")
    with pytest.raises(InputError, match="'user' more than once"):
        lk.from_spark(frame, DOMAIN, **COLUMNS)


def test_a_user_in_two_partitions_is_noticed(spark: Any) -> None:  # noqa: F811
    """Then one person would count twice, so it must not pass, whatever brought it about."""
    from pyspark.sql import functions as f

    frame = spark.createDataFrame(base_table(DOMAIN, 6))
    torn = frame.withColumn("lowkey place", f.pmod(f.hash("user"), f.lit(4))).repartition(4)  # at random
    task = on_executor(GroupByUser(ColumnNames("user", "item", "rating"), DOMAIN, "error", "error"))
    with pytest.raises(InputError, match="an unexpected TypeError in a task"):
        on_driver(lambda: torn.mapInArrow(task, BLOCK_COLUMNS).count())


def test_engines_and_ratings_must_belong_together(spark: Any) -> None:  # noqa: F811
    table = base_table(DOMAIN, 6)
    held = lk.from_frame(table, DOMAIN, **COLUMNS)
    there = lk.from_spark(spark.createDataFrame(table), DOMAIN, **COLUMNS, partitions=1)
    with pytest.raises(InputError, match="SparkEngine"):
        lk.DPBias(epsilon=1.0, delta=1e-6).fit(there)
    with pytest.raises(InputError, match="from_spark"):
        lk.DPBias(epsilon=1.0, delta=1e-6).fit(held, engine=lk.SparkEngine(spark))
    assert repr(there) == repr(held) == "Ratings(closed, 16 items, ratings 0.5..5)"


DRIVER = """
import os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
from estimators import DOMAINS
from kept import COLUMNS, base_table
from spark_session import SETTINGS
from pyspark.sql import SparkSession
import lowkey as lk

os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[1]")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

class Dying(lk.Billboard):
    def post(self, unreleased, inputs=""):
        if len(self.ledger.spent()) == 1:
            os._exit(7)
        return super().post(unreleased, inputs)

ratings = lk.from_spark(spark.createDataFrame(base_table(DOMAINS["ratings"], 30)), DOMAINS["ratings"], **COLUMNS)
ledger = lk.Ledger(sys.argv[2], total=(1.5, 1e-6))
lk.DPBias(epsilon=1.0, delta=1e-6, n_iter=3).fit(ratings, engine=lk.SparkEngine(spark), billboard=Dying(ledger))
"""


def test_a_driver_that_dies_between_two_posts_leaves_an_honest_ledger(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    """What it posted stays spent: a rerun starts anew and pays on top, and what does not fit the total is refused."""
    path = tmp_path / "people.jsonl"
    here = Path(__file__).parent
    places = os.pathsep.join([str(here), str(here.parent / "conformance")])
    died = subprocess.run([sys.executable, "-c", DRIVER, places, str(path)], capture_output=True)
    assert died.returncode == 7, died.stderr[-2000:]
    ledger = lk.Ledger(path)
    (plan,) = ledger.plans()
    one_post = lk.DPBias(epsilon=1.0, delta=1e-6, n_iter=3)
    assert [line.name for line in ledger.spent()] == [plan.lines[0].name]
    spent = ledger.price(1e-6).epsilon
    assert 0.0 < spent < plan.price.epsilon
    ratings = lk.from_spark(spark.createDataFrame(base_table(DOMAIN, 30)), DOMAIN, **COLUMNS)
    one_post.fit(ratings, engine=lk.SparkEngine(spark), billboard=lk.Billboard(ledger))
    both = ledger.price(1e-6).epsilon
    assert both > max(spent, plan.price.epsilon)
    assert one_post.guarantee_.epsilon == both  # what is stated covers the posts of the run that died
    assert len(ledger.spent()) == 1 + sum(line.times for line in plan.lines)
    with pytest.raises(BudgetError):
        one_post.fit(ratings, engine=lk.SparkEngine(spark), billboard=lk.Billboard(ledger))


def release(file: Path, private_catalogue: bool = False) -> int:
    items = file.parent / "items.txt"
    items.write_text("\n".join(DOMAIN.item_ids.to_pylist()))
    catalogue = (
        ["--private-catalogue", "--epsilon", "90"] if private_catalogue else ["--items", str(items), "--epsilon", "1"]
    )
    names = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5", *catalogue]
    budget = ["--delta", "1e-6", "--method", "bias", "--quiet", "--out", str(file.parent / "out")]
    return run(["release", str(file), *names, *budget, "--engine", "spark", "--partitions", "2"])


@pytest.mark.parametrize("private_catalogue", [False, True])
def test_the_command_line_releases_from_spark(spark: Any, tmp_path: Path, private_catalogue: bool) -> None:  # noqa: F811
    pq.write_table(base_table(DOMAIN, 60), tmp_path / "r.parquet")
    assert release(tmp_path / "r.parquet", private_catalogue) == 0
    assert run(["verify", str(tmp_path / "out")]) == 0


def test_files_that_cannot_be_read_are_named_by_the_command_line(spark: Any, tmp_path: Path, capsys: Any) -> None:  # noqa: F811
    table = base_table(DOMAIN, 6)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and a secret film")
    for folder, tables in (
        ("empty", []),
        ("mixed", [table, table.set_column(2, "rating", table["item"])]),
        ("lacking", [table, table.drop_columns("rating")]),
    ):
        (tmp_path / folder).mkdir()
        for at, part in enumerate(tables):
            pq.write_table(part, tmp_path / folder / f"{at}.parquet")
    for name, message in (
        ("broken.parquet", "cannot be read as Parquet"),
        ("empty", "no Parquet file in it"),
        ("mixed", "columns have different types"),
        ("lacking", "no 'rating' among"),
    ):
        assert release(tmp_path / name) == 2, name
        said = capsys.readouterr().err
        assert message in said, said
        assert "secret" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "flink"], "local or spark"),
        (["--master", "local[2]"], "no --engine spark"),
        (["--engine", "spark", "--in-memory"], "Spark decides"),
        (["--engine", "spark", "--private-catalogue", "--time", "rating"], "leaving --engine out"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, capsys: Any, options: list[str], message: str) -> None:
    pq.write_table(base_table(DOMAIN, 6), tmp_path / "r.parquet")
    items = [] if "--private-catalogue" in options else ["--items", "1..3"]
    names = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5", *items]
    order = [
        "release",
        str(tmp_path / "r.parquet"),
        *names,
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--out",
        str(tmp_path / "o"),
    ]
    assert run([*order, *options]) == 2
    assert message in capsys.readouterr().err
