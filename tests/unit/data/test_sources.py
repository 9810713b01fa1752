"""Data as it comes: messy text, other formats, folders, object stores, databases, counts, times, and exchanged columns."""

from __future__ import annotations

import gzip
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import lowkey as lk
from lowkey.data.text_files import Text
from lowkey.errors import InputError

CATALOGUE = ["f1", "f2", "f3", "f4"]
DOMAIN = lk.Domain(CATALOGUE, (0.5, 5.0))
ROWS = [("ann", "f2", 2.5), ("bob", "f2", 4.0), ("ann", "f1", 5.0), ("cy", "f3", 0.5)]
EXPECTED = [[5.0, 2.5, 0, 0], [0, 4.0, 0, 0], [0, 0, 0.5, 0]]
NAMES = {"user": "User ID", "item": "film", "rating": "stars"}
TABLE = pa.table(dict(zip(NAMES.values(), map(list, zip(*ROWS, strict=True)), strict=True)))
SECRET = "canary-4711"


def dense(ratings: lk.Ratings) -> list[list[float]]:
    return ratings._open_csr().toarray().tolist()


def read(path: Any, **options: Any) -> list[list[float]]:
    return dense(lk.read_ratings(path, DOMAIN, **{**NAMES, **options}))


# --- text ----------------------------------------------------------------------------------------------------------

MESSY = " User ID ;'film';stars;note\n" + "".join(
    f"{who};'{film}';{str(stars).replace('.', ',')};'naïve; a note'\n" for who, film, stars in ROWS
)
WRITTEN = Text(delimiter=";", decimal=",", encoding="latin-1", null=("NA", "-"), quote="'")


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_messy_text_file(tmp_path: Path, ending: str) -> None:
    bytes_ = (MESSY + "dan;NA;3,5;x\neve;'f4';-;x\n").encode("latin-1")
    file = tmp_path / f"export.csv{ending}"
    packed = {"": bytes_, ".gz": gzip.compress(bytes_), ".zst": pa.Codec("zstd").compress(bytes_, asbytes=True)}
    file.write_bytes(packed[ending])
    assert read(file, text=WRITTEN, missing="drop") == EXPECTED
    with pytest.raises(InputError, match="missing values"):
        read(file, text=WRITTEN)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"delimiter": ";;"}, "delimiter"),
        ({"decimal": "x"}, "decimal"),
        ({"delimiter": ",", "decimal": ","}, "two purposes"),
        ({"quote": "''"}, "quote"),
        ({"encoding": "klingon"}, "encoding"),
    ],
)
def test_text_options_that_make_no_sense(options: dict[str, str], word: str) -> None:
    with pytest.raises(InputError, match=word):
        Text(**options)


def test_text_options_are_for_text(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "r.parquet")
    with pytest.raises(InputError, match="options of text files"):
        read(tmp_path / "r.parquet", text=WRITTEN)


# --- other formats and folders ---------------------------------------------------------------------------------------


def test_json_lines_arrow_and_feather(tmp_path: Path) -> None:
    lines = "\n".join(pl.DataFrame(TABLE.to_pydict()).write_ndjson().splitlines()) + "\n"
    (tmp_path / "r.jsonl").write_text(lines)
    (tmp_path / "r.ndjson.gz").write_bytes(gzip.compress(lines.encode()))
    pyarrow.feather.write_feather(TABLE, tmp_path / "r.feather")
    with pyarrow.ipc.new_stream(tmp_path / "r.arrow", TABLE.schema) as stream:
        stream.write(TABLE)
    for name in ("r.jsonl", "r.ndjson.gz", "r.feather", "r.arrow"):
        assert read(tmp_path / name) == EXPECTED, name
    (tmp_path / "bad.jsonl").write_text(f'{{{{"User ID": "{SECRET}", "film": 1}}}}\n{{{{"User ID": 3}}}}\n')
    (tmp_path / "bad.arrow").write_bytes(b"ARROW1 " + SECRET.encode())
    for name in ("bad.jsonl", "bad.arrow"):
        with pytest.raises(InputError) as refused:
            read(tmp_path / name)
        assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_movielens_folder_by_its_path_and_a_folder_of_parquet(tmp_path: Path) -> None:
    (tmp_path / "ml").mkdir()
    (tmp_path / "ml" / "u.data").write_text("".join(f"{who}\t{film}\t{stars}\t1\n" for who, film, stars in ROWS))
    (tmp_path / "ml" / "README").write_text("about")
    assert read(tmp_path / "ml", user="userId", item="movieId", rating="rating") == EXPECTED
    (tmp_path / "parts").mkdir()
    pq.write_table(TABLE.slice(0, 2), tmp_path / "parts" / "1.parquet")
    pq.write_table(TABLE.slice(2), tmp_path / "parts" / "2.parquet")
    for place in (tmp_path / "parts", f"file://{tmp_path / 'parts'}"):
        assert read(place) == EXPECTED


# --- object stores -----------------------------------------------------------------------------------------------------


PLACES = {"s3": "key:{secret}@bucket/{name}?scheme=http&region=us-east-1", "gs": "anonymous@bucket/{name}?scheme=http"}


@pytest.mark.parametrize("store", PLACES)
def test_an_object_store(store: str, tmp_path: Path) -> None:
    """In a process of its own: pyarrow holds Python's lock while it opens a file of Google's."""
    pq.write_table(TABLE, tmp_path / "r.parquet")
    command = [sys.executable, str(Path(__file__).with_name("bucket.py")), str(tmp_path / "r.parquet")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    end = f"&endpoint_override=127.0.0.1:{server.stdout.readline().strip()}"
    try:
        assert read(f"{store}://{PLACES[store].format(secret=SECRET, name='r.parquet')}{end}") == EXPECTED
        with pytest.raises(InputError, match=rf"{store}://: got an address where nothing") as refused:
            read(f"{store}://{PLACES[store].format(secret=SECRET, name='none.parquet')}{end}")
        assert SECRET not in str(refused.value)
    finally:
        server.kill()
        server.wait()


# --- databases ---------------------------------------------------------------------------------------------------------


def fill(connection: Any, mark: str) -> None:
    connection.execute('CREATE TABLE ratings ("User ID" TEXT, film TEXT, stars DOUBLE PRECISION)')
    for row in ROWS:
        connection.execute(f"INSERT INTO ratings VALUES ({mark}, {mark}, {mark})", row)


def check_database(address: str) -> None:
    assert read(address, query="ratings") == EXPECTED
    few = read(address, query="SELECT * FROM ratings WHERE \"User ID\" <> 'bob';")
    assert few == [EXPECTED[0], EXPECTED[2]]
    for query, word in (
        ("nowhere", "does not answer"),
        ("SELECT 1 AS one", "'User ID'"),
        (None, "query"),
        ("x y", "answer"),
    ):
        with pytest.raises(InputError, match=word) as refused:
            read(address, query=query)
        assert "ann" not in str(refused.value)


def test_sqlite(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        fill(connection, "?")
    check_database(f"sqlite:///{tmp_path / 'shop.db'}")
    with pytest.raises(InputError, match="does not exist"):
        read("sqlite:///nowhere.db", query="ratings")
    with pytest.raises(InputError, match="query"):
        read(tmp_path / "shop.db", query="ratings", format="csv")


def test_duckdb(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        fill(connection, "?")
    check_database(f"duckdb:///{tmp_path / 'shop.duckdb'}")


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("no PostgreSQL server is installed")
    if os.getuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no runuser")
    folder = tmp_path_factory.mktemp("postgres")
    data, bin_ = folder / "data", programs[-1]
    as_user = ["runuser", "-u", "nobody", "--"] if os.getuid() == 0 else []
    if as_user:
        for place in (folder, *list(folder.parents)[:2]):
            place.chmod(0o777)
    made = subprocess.run([*as_user, bin_ / "initdb", "-D", data, "-U", "me", "-A", "trust"], capture_output=True, cwd="/")
    if made.returncode:
        pytest.skip(f"initdb failed: {made.stderr[-200:]!r}")
    port = "54329"
    server = subprocess.Popen(
        [*as_user, bin_ / "postgres", "-D", data, "-p", port, "-k", folder, "-h", "127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
    )  # fmt: skip
    for _ in range(100):
        if subprocess.run([bin_ / "pg_isready", "-h", "127.0.0.1", "-p", port], capture_output=True).returncode == 0:
            break
        time.sleep(0.1)
    yield f"postgresql://me@127.0.0.1:{port}/postgres"
    subprocess.run([*as_user, bin_ / "pg_ctl", "-D", data, "stop", "-m", "immediate"], capture_output=True, cwd="/")
    server.wait(10)


def test_postgresql(postgres: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute('CREATE TABLE ratings ("User ID" TEXT, film TEXT, stars DOUBLE PRECISION)')
        for who, film, stars in ROWS:
            cursor.execute(f"INSERT INTO ratings VALUES ('{who}', '{film}', {stars})")
        connection.commit()
    check_database(postgres)


# --- counts, flags, times ------------------------------------------------------------------------------------------------

COUNTS = lk.Domain(CATALOGUE, (1, 20), feedback="counts")


@pytest.mark.parametrize("out_of_core", [False, True])
def test_counts_are_summed_and_taken_up_to_the_largest(tmp_path: Path, out_of_core: bool) -> None:
    plays = pa.table({"who": ["a", "a", "b", "b"], "what": ["f1", "f1", "f2", "f3"], "plays": [3, 4, 1000, 1]})
    pq.write_table(plays, tmp_path / "r.parquet")
    columns = {"user": "who", "item": "what", "out_of_core": out_of_core}
    given = lk.read_ratings(tmp_path / "r.parquet", COUNTS, rating="plays", **columns)
    assert sorted(dense(given)) == [[0, 20, 1, 0], [7, 0, 0, 0]]  # in memory by id, on disk by key
    assert sorted(dense(lk.read_ratings(tmp_path / "r.parquet", COUNTS, **columns))) == [[0, 1, 1, 0], [2, 0, 0, 0]]
    binary = lk.read_ratings(tmp_path / "r.parquet", lk.Domain(CATALOGUE, feedback="binary"), **columns)
    assert sorted(dense(binary)) == [[0, 1, 1, 0], [1, 0, 0, 0]]
    for values in ([0, 1, 1, 1], [-3, 4, 1, 1], [np.nan, 1, 1, 1]):
        pq.write_table(plays.set_column(2, "plays", pa.array(values)), tmp_path / "bad.parquet")
        with pytest.raises(InputError):
            lk.read_ratings(tmp_path / "bad.parquet", COUNTS, rating="plays", duplicates="mean", **columns)


def test_counts_fit_release_and_recommend(tmp_path: Path) -> None:
    domain = lk.Domain([f"f{i}" for i in range(40)], (1, 20), feedback="counts", expected_users=3000)
    rng = np.random.default_rng(1)
    log = pa.table({"who": rng.integers(0, 3000, 30_000), "what": [f"f{i}" for i in rng.integers(0, 40, 30_000) // 2]})
    model = lk.DPRecommender(2.0, 1e-6).fit(log, domain=domain, user="who", item="what")
    assert "counts 1..20, more is taken for 20" in str(model.guarantee_)
    model.release(tmp_path / "r")
    assert all(check.ok for check in lk.verify(tmp_path / "r"))
    loaded = lk.load(tmp_path / "r")
    mine = {"f1": 7, "f3": 1}
    assert loaded.recommend(mine, 5).ids.tolist() == model.recommend({"f1": 700, "f3": 1}, 5).ids.tolist()
    assert loaded.recommend(["f1", "f3"], 5).ids.tolist() == model.recommend({"f1": 1, "f3": 1}, 5).ids.tolist()
    with pytest.raises(InputError, match="range"):
        loaded.recommend({"f1": 0}, 5)


@pytest.mark.parametrize("out_of_core", [False, True])
def test_truth_values_say_what_was_taken(tmp_path: Path, out_of_core: bool) -> None:
    log = pa.table({"who": ["a", "a", "b", "c"], "what": CATALOGUE, "clicked": [True, False, None, True]})
    pq.write_table(log, tmp_path / "r.parquet")
    columns = {"user": "who", "item": "what", "rating": "clicked", "out_of_core": out_of_core}
    binary = lk.read_ratings(tmp_path / "r.parquet", lk.Domain(CATALOGUE, feedback="binary"), **columns)
    assert sorted(dense(binary)) == [[0, 0, 0, 1], [1, 0, 0, 0]]
    zero_one = pa.table({"who": ["a", "b"], "what": ["f1", "f2"], "like": [True, False]})
    liked = lk.from_frame(zero_one, lk.Domain(CATALOGUE, (0, 1)), user="who", item="what", rating="like")
    assert liked._open_csr().data.tolist() == [1.0, 0.0]


def test_last_is_last_in_time() -> None:
    times = {"late": [30, 10, 20], "dates": np.array(["2026-03-01", "2026-01-01", "2026-02-01"], "datetime64[D]")}
    table = pa.table({"who": ["a"] * 3, "what": ["f1"] * 3, "stars": [1.0, 2.0, 3.0], **times, "words": ["x", "y", "z"]})
    columns = {"user": "who", "item": "what", "rating": "stars", "duplicates": "last"}
    assert dense(lk.from_frame(table, DOMAIN, **columns))[0][0] == 3.0
    for time_column in times:
        assert dense(lk.from_frame(table, DOMAIN, **columns, time=time_column))[0][0] == 1.0
    with pytest.raises(InputError, match="time column 'words'"):
        lk.from_frame(table, DOMAIN, **columns, time="words")


def test_time_and_pieces_do_not_go_together(tmp_path: Path) -> None:
    pq.write_table(TABLE.append_column("t", pa.array(range(4))), tmp_path / "r.parquet")
    with pytest.raises(InputError, match="a time column"):
        read(tmp_path / "r.parquet", time="t", out_of_core=True)


# --- exchanged columns ---


def square(n_users: int, n_items: int, used: int) -> pa.Table:
    """Whole numbers from 1 on for both, as MovieLens has them."""
    rng = np.random.default_rng(0)
    users = np.concatenate([np.arange(1, n_users + 1), rng.integers(1, n_users + 1, 3000)])
    items = np.concatenate([rng.integers(1, used + 1, n_users), np.resize(np.arange(1, used + 1), 3000)])
    rows = np.unique(np.stack([users, items]), axis=1)
    return pa.table({"userId": rows[0], "movieId": rows[1], "rating": np.full(rows.shape[1], 3.0)})


@pytest.mark.parametrize("out_of_core", [False, True])
@pytest.mark.parametrize(("n_users", "used"), [(943, 1682), (1200, 1500), (3000, 1600)])
def test_exchanged_numbers_are_noticed(tmp_path: Path, n_users: int, used: int, out_of_core: bool) -> None:
    pq.write_table(square(n_users, 1682, used), tmp_path / "r.parquet")
    domain = lk.Domain(range(1, 1683), (1, 5))
    right = {"user": "userId", "item": "movieId", "rating": "rating", "out_of_core": out_of_core}
    swapped = {**right, "user": "movieId", "item": "userId", "unknown_items": "drop"}
    lk.read_ratings(tmp_path / "r.parquet", domain, **right)
    with pytest.raises(InputError, match=r"look exchanged.*user='userId', item='movieId'") as refused:
        lk.read_ratings(tmp_path / "r.parquet", domain, **swapped)
    assert not any(letter.isdigit() for letter in str(refused.value))
    lk.read_ratings(tmp_path / "r.parquet", domain, **swapped, check_axes=False)
