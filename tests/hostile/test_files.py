"""Rating files that are damaged, bombs, or something else: refused or read, never a crash, a hang, a cell in an error.

``LOWKEY_FUZZ=5000`` tries so many (make fuzz). Every user, and every rating, has a canary in it.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from bombs import BOMBS, CANARY
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mutations import byte_changes
from trial import REFUSED, Figures, Tally, attempt

import lowkey as lk
from lowkey.data import read_ratings, read_uncatalogued
from lowkey.data.public_tables import whole_table
from lowkey.data.timed import TimedRatings

EXAMPLES = int(os.environ.get("LOWKEY_FUZZ", "60"))
PRIVATE = (CANARY, "731955")
COLUMNS = {"user": "user", "item": "item", "rating": "rating"}
MOVIELENS = {"user": "userId", "item": "movieId", "rating": "rating"}
DOMAIN = lk.Domain(items=[f"film {i}" for i in range(40)], rating_range=(1.0, 5.0))
NUMBERED = lk.Domain(items=40, rating_range=(1.0, 5.0))
RNG = np.random.default_rng(3)
CELLS = RNG.choice(30 * 40, 200, replace=False)
USERS, ITEMS = [f"{CANARY} {cell // 40}" for cell in CELLS], [f"film {cell % 40}" for cell in CELLS]
RATINGS = np.round(RNG.integers(1, 5, 200) + 0.731955, 6).tolist()
TABLE = pa.table({"user": USERS, "item": ITEMS, "rating": RATINGS, "time": np.arange(200)})


def lines(separator: str, header: str, rows: Any) -> bytes:
    return "\n".join([*([header] if header else []), *(separator.join(map(str, row)) for row in rows)]).encode()


def parquet_bytes(**options: Any) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(TABLE, out, **options)
    return out.getvalue().to_pybytes()


ROWS = list(zip(USERS, ITEMS, RATINGS, strict=True))
POSITIONS = [(user, item.removeprefix("film "), rating, 9) for user, item, rating in ROWS]
CSV = lines(",", "user,item,rating", ROWS)
FILES: dict[str, bytes] = {
    "r.csv": CSV,
    "no-header.csv": lines(",", "", ROWS),
    "quoted.csv": lines(",", "user,item,rating", [(f'"{u}"', f'"{i}"', r) for u, i, r in ROWS]),
    "r.tsv": lines("\t", "user\titem\trating", ROWS),
    "r.inter": lines("\t", "user:token\titem:token\trating:float", ROWS),
    "u.data": lines("\t", "", POSITIONS),
    "ratings.dat": lines("::", "", POSITIONS),
    "r.csv.gz": gzip.compress(CSV, mtime=0),
    "r.csv.zst": pa.compress(CSV, "zstd", asbytes=True),
    "plain.parquet": parquet_bytes(compression="none", use_dictionary=False),
    "r.parquet": parquet_bytes(compression="zstd"),
}


def named(path: Path) -> tuple[Any, dict[str, str]]:
    return (NUMBERED, MOVIELENS) if path.name.endswith(("u.data", "ratings.dat")) else (DOMAIN, COLUMNS)


def in_memory(path: Path) -> Any:
    domain, columns = named(path)
    return read_ratings(path, domain, **columns, duplicates="last", unknown_items="drop")


def on_disk(path: Path) -> Any:
    domain, columns = named(path)
    return read_ratings(path, domain, **columns, out_of_core=True)


def uncatalogued(path: Path) -> Any:
    return read_uncatalogued(path, **named(path)[1], rating_range=(1.0, 5.0))


def timed(path: Path) -> Any:
    return TimedRatings.from_file(path, DOMAIN, **COLUMNS, time="time")


WAYS = [in_memory, on_disk, uncatalogued, timed]


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever reading loads and compiles is there before trials are forked."""
    for name, data in FILES.items():
        path = tmp_path_factory.mktemp("good") / name
        path.write_bytes(data)
        ways = WAYS if name.endswith("parquet") else [in_memory, uncatalogued]
        for way in ways if name != "no-header.csv" else ():
            way(path)


def test_damaged_files(tmp_path: Path, record_property: Figures) -> None:
    tally = Tally("damaged files")

    @settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(sorted(FILES)), st.lists(byte_changes(), min_size=1, max_size=3), st.sampled_from(WAYS))
    def every(name: str, changes: list[Callable[[bytes], bytes]], way: Callable[[Path], Any]) -> None:
        path, data = tmp_path / name, FILES[name]
        for change in changes:
            data = change(data)
        path.write_bytes(data)
        assert tally.add(attempt(lambda: way(path))).faults(PRIVATE) == []

    every()
    record_property("figures", str(tally))


@pytest.mark.parametrize("column", [0, 1])
def test_indices_that_point_nowhere(tmp_path: Path, column: int) -> None:
    """Text is read as a dictionary, whose indices Arrow does not look at."""
    data, path = bytearray(parquet_bytes(compression="none")), tmp_path / "wild.parquet"
    chunk = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata.row_group(0).column(column)
    end = chunk.dictionary_page_offset + chunk.total_compressed_size
    data[end - 40 : end] = b"\xff" * 40
    path.write_bytes(data)
    assert [attempt(lambda way=way: way(path)).how for way in WAYS] == [REFUSED] * len(WAYS)


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs(tmp_path: Path, bomb: Callable[[Path], Path]) -> None:
    path = bomb(tmp_path)
    assert path.stat().st_size < 1 << 25
    ways = WAYS if path.suffix == ".parquet" else [in_memory, uncatalogued]
    for way in ways:
        trial = attempt(lambda way=way: way(path))
        assert trial.faults(PRIVATE) == [], (way.__name__, trial)
        assert trial.how == REFUSED, (way.__name__, trial)


@pytest.mark.parametrize("name", FILES)
def test_names_are_listed_only_if_they_are_names(tmp_path: Path, name: str) -> None:
    """A column that is missing: the list of those that are there must not be somebody's row."""
    path = tmp_path / name
    path.write_bytes(FILES[name].replace(b"user,item", f"{CANARY} 7,item".encode()))
    trial = attempt(lambda: read_ratings(path, DOMAIN, user="nobody", item="item", rating="rating"))
    assert trial.how == REFUSED
    assert trial.faults(PRIVATE) == []


@pytest.mark.parametrize("name", ["r.csv", "plain.parquet", "r.parquet"])
def test_damaged_public_tables(tmp_path: Path, name: str) -> None:
    """Features of items: what cannot be read is refused, in words."""
    whole = FILES[name]
    for data in (whole[: len(whole) // 2], whole[:200] + b"\xff\x00\n,\n" * 9 + whole[200:]):
        (tmp_path / name).write_bytes(data)
        assert attempt(lambda: whole_table(tmp_path / name)).faults() == []
