"""Ratings on disk: the same rows as in memory, in files without a name, read piece by piece."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data import external_sort, formats, stored
from lowkey.data.readers import read_ratings, read_uncatalogued
from lowkey.data.synthetic import write_taste
from lowkey.errors import InputError
from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

COLUMNS = {"user": "user", "item": "item", "rating": "rating"}
DOMAIN = lk.Domain(items=[f"film {i}" for i in range(40)], rating_range=(1.0, 9.0))
BINARY = lk.Domain(items=[f"film {i}" for i in range(40)], feedback="binary")


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_sort, "BUCKET_ROWS", 64)
    monkeypatch.setattr(formats, "BATCH_ROWS", 50)


def a_table(n_rows: int = 900, n_users: int = 120, *, text: bool = True, repeats: bool = False, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    cells = rng.choice(n_users * 40, n_rows, replace=repeats)
    users = [f"u{cell // 40}" for cell in cells] if text else (cells // 40 - 50)
    items = [f"film {cell % 40}" for cell in cells]
    return pa.table({"user": users, "item": items, "rating": rng.integers(1, 10, n_rows).astype(np.float64)})


def written(folder: Path, table: pa.Table, name: str = "r.parquet") -> Path:
    pq.write_table(table, folder / name, row_group_size=130)
    return folder / name


def rows_by_key(ratings: Any) -> dict[int, tuple[list[int], list[float]]]:
    csr = ratings._open_csr()
    rows = [(csr.indices[a:b].tolist(), csr.data[a:b].tolist()) for a, b in zip(csr.indptr, csr.indptr[1:], strict=False)]
    return dict(zip(ratings._open_keys().tolist(), rows, strict=True))


def both(path: Path, domain: lk.Domain = DOMAIN, **options: Any) -> tuple[Any, Any]:
    return tuple(read_ratings(path, domain, **COLUMNS, **options, out_of_core=stored) for stored in (False, True))


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("domain", [DOMAIN, BINARY], ids=["ratings", "binary"])
def test_the_same_rows_as_in_memory(tmp_path: Path, text: bool, domain: lk.Domain) -> None:
    held, on_disk = both(written(tmp_path, a_table(text=text)), domain)
    assert rows_by_key(on_disk) == rows_by_key(held)
    assert len(list(on_disk._open_blocks(1 << 20))) > 8  # several parts, or this tests nothing
    assert all(len(block.keys) <= 3 for block in on_disk._open_blocks(3))
    assert sum(len(block.keys) for block in on_disk._open_blocks(3)) == len(held._open_keys())


@pytest.mark.parametrize("duplicates", ["last", "mean", "sum"])
def test_duplicates_are_settled_in_file_order(tmp_path: Path, duplicates: str) -> None:
    domain = lk.Domain(items=DOMAIN.item_ids, rating_range=(1.0, 900.0))
    path = written(tmp_path, a_table(900, 12, repeats=True))
    held, on_disk = both(path, domain, duplicates=duplicates)
    assert rows_by_key(on_disk) == rows_by_key(held)
    with pytest.raises(InputError, match="more than once"):
        read_ratings(path, domain, **COLUMNS, out_of_core=True)


def test_users_who_lose_every_entry_stay(tmp_path: Path) -> None:
    few = lk.Domain(items=["film 3", "film 17"], rating_range=(1.0, 9.0))
    held, on_disk = both(written(tmp_path, a_table()), few, unknown_items="drop")
    assert rows_by_key(on_disk) == rows_by_key(held)
    assert any(items == [] for items, _ in rows_by_key(on_disk).values())


def test_a_folder_whose_files_share_users_and_differ_in_width(tmp_path: Path) -> None:
    whole = a_table(text=False)
    folder = tmp_path / "many"
    folder.mkdir()
    for at in range(4):
        part = whole.slice(at * 225, 225)
        kind = pa.int32() if at % 2 else pa.int64()
        written(folder, part.set_column(0, "user", part["user"].cast(kind)), f"{at}.parquet")
    one = read_ratings(written(tmp_path, whole), DOMAIN, **COLUMNS, out_of_core=False)
    assert rows_by_key(read_ratings(folder, DOMAIN, **COLUMNS, out_of_core=True)) == rows_by_key(one)


def test_people_whose_keys_collide_stay_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """64 bits may collide among text ids. Two people in one row would move a sum by more than one person may."""
    path, real = written(tmp_path, a_table()), external_sort.user_keys
    held = read_ratings(path, DOMAIN, **COLUMNS, out_of_core=False)
    monkeypatch.setattr(external_sort, "user_keys", lambda ids: real(ids) % np.uint64(3))
    crowded = read_ratings(path, DOMAIN, **COLUMNS, out_of_core=True)
    assert set(crowded._open_keys().tolist()) == {0, 1, 2}
    found = [row for block in crowded._open_blocks(1) for row in [(block.items.tolist(), block.values.tolist())]]
    assert sorted(found) == sorted(rows_by_key(held).values())


@pytest.mark.parametrize("text", [True, False])
def test_a_user_with_thousands_of_rows_is_one_user(tmp_path: Path, text: bool) -> None:
    """Spread over all batches of a folder of files, far beyond a bucket's size: in two parts they would count twice."""
    n_items, heavy = 3000, 2600
    domain = lk.Domain(items=n_items, rating_range=(1.0, 9.0))
    rng = np.random.default_rng(4)
    light = rng.choice(40 * n_items, 800, replace=False)
    users = np.concatenate([np.full(heavy, 1000), light // n_items])
    items = np.concatenate([rng.choice(n_items, heavy, replace=False), light % n_items])
    order = rng.permutation(len(users))
    ids = pa.array(users[order]).cast(pa.string() if text else pa.int64())
    table = pa.table({"user": ids, "item": items[order], "rating": rng.integers(1, 10, len(users)).astype(float)})
    folder = tmp_path / "many"
    folder.mkdir()
    for at in range(3):
        written(folder, table.slice(at * 1200, 1200), f"{at}.parquet")
    held, on_disk = both(folder, domain)
    assert rows_by_key(on_disk) == rows_by_key(held)
    blocks = list(on_disk._open_blocks(1 << 20))
    assert len(blocks) > 8
    counts = np.concatenate([np.diff(block.offsets) for block in blocks])
    assert sorted(counts.tolist()) == sorted(np.bincount(users).tolist())[-len(counts) :]
    assert len(counts) == len(np.unique(users))
    assert counts.max() == heavy
    means = ItemMeans(np.full(n_items, 5.0), 2.0, 9.0)
    for engine in (lk.LocalEngine(1), lk.LocalEngine(1, block_size=3)):
        (here,), (there,) = (engine.sweep(means, ratings)[0].values() for ratings in (held, on_disk))
        assert np.array_equal(here._open(), there._open())


def test_a_private_catalogue(tmp_path: Path) -> None:
    path = written(tmp_path, a_table())
    read = [read_uncatalogued(path, **COLUMNS, rating_range=(1.0, 9.0), out_of_core=on_disk) for on_disk in (False, True)]
    assert read[0]._open_ids().to_pylist() == read[1]._open_ids().to_pylist()
    chosen = ["film 30", "film 2", "film 9", "never seen"]
    held, on_disk = (rows.with_items(chosen) for rows in read)
    assert rows_by_key(on_disk) == rows_by_key(held)


def test_parts_are_read_one_ahead_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many parts there are, at most three are in memory: in use, being read, and read but not yet asked for."""
    ratings = read_ratings(written(tmp_path, a_table()), DOMAIN, **COLUMNS, out_of_core=True)
    real, read = stored.read_part, 0

    def counted(*part: Any) -> Any:
        nonlocal read
        read += 1
        return real(*part)

    monkeypatch.setattr(stored, "read_part", counted)
    ahead = []
    for used, _ in enumerate(ratings._open_blocks(1 << 20), 1):
        ahead.append(read - used)
    assert read == used > 8
    assert max(ahead) <= 1


def open_files(place: Path) -> list[os.stat_result]:
    """What this process has open that was made in a place."""
    links = [(link, os.readlink(link)) for link in Path("/proc/self/fd").iterdir() if os.path.lexists(link)]
    return [os.stat(link) for link, target in links if target.startswith(str(place))]


def test_the_rows_are_in_a_file_without_a_name_that_goes_with_them(tmp_path: Path) -> None:
    path = written(tmp_path, a_table())
    ratings = read_ratings(path, DOMAIN, **COLUMNS, out_of_core=True)
    assert os.listdir(tmp_path) == [path.name]
    (file,) = open_files(tmp_path)  # and the unsorted copy is gone already
    assert (file.st_nlink, stat.S_IMODE(file.st_mode) & 0o077) == (0, 0)
    assert file.st_size > 8 * 900
    del ratings
    gc.collect()
    assert not open_files(tmp_path)


class Counting(Sweep):
    """Users count the passes they have seen."""

    keeps_state = True

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return (Statistic("x", (1,), Grid(0), Sensitivity.of_vectors(1.0), 1),)

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        seen = np.ones(len(block.keys)) if local is None else local + 1.0
        sums["x"] += int(seen.sum())
        return seen


def test_what_users_keep_between_passes_is_on_disk_too_and_goes(tmp_path: Path) -> None:
    held, on_disk = both(written(tmp_path, a_table()))
    n_users, local = len(held._open_keys()), None
    for passes in (1, 2, 3):
        sums, local = lk.LocalEngine(1, block_size=5).sweep(Counting(), on_disk, local)
        assert sums["x"]._units is not None
        assert sums["x"]._units[0] == passes * n_users
        assert len(open_files(tmp_path)) == 2  # the rows and the last state alone
        assert len(os.listdir(tmp_path)) == 1
    del local
    gc.collect()
    assert len(open_files(tmp_path)) == 1


def test_the_file_goes_when_reading_fails(tmp_path: Path) -> None:
    elsewhere = tmp_path / "scratch"
    elsewhere.mkdir()
    table = a_table()
    ratings = table["rating"].to_numpy().copy()
    ratings[-1] = 77.0
    path = written(tmp_path, table.set_column(2, "rating", pa.array(ratings)))
    with pytest.raises(InputError, match="outside the range") as refusal:
        read_ratings(path, DOMAIN, **COLUMNS, out_of_core=True, scratch=elsewhere)
    assert not os.listdir(elsewhere)
    assert refusal.tb is not None


KILLED = """
import os, signal, sys
from lowkey.data import external_sort, scratch
from lowkey.data.readers import read_ratings
import lowkey as lk
external_sort.BUCKET_ROWS, calls = 64, [0]
write = os.pwrite
def counted(*arguments):
    calls[0] += 1
    done = write(*arguments)
    if calls[0] == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return done
os.pwrite = counted
domain = lk.Domain(items=[f"film {i}" for i in range(40)], rating_range=(1.0, 9.0))
read_ratings(sys.argv[1], domain, user="user", item="item", rating="rating", out_of_core=True)
"""


@pytest.mark.parametrize("at", [1, 9])
def test_a_kill_leaves_no_row_on_disk(tmp_path: Path, at: int) -> None:
    """In the unsorted copy and in the parts: what is written has no name that anybody could find it by."""
    path = written(tmp_path, a_table())
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), str(at)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == [path.name]


BAD = {
    "missing values": lambda t: t.set_column(0, "user", pa.array([None, *t["user"].to_pylist()[1:]])),
    "not in the catalogue": lambda t: t.set_column(1, "item", pa.array(["secret film", *t["item"].to_pylist()[1:]])),
    "outside the range": lambda t: t.set_column(2, "rating", pa.array([9.5, *t["rating"].to_pylist()[1:]])),
    "no 'rating' among": lambda t: t.drop_columns("rating"),
    "ids that are integers or text": lambda t: t.set_column(0, "user", pa.array(np.arange(len(t)) / 2)),
    "no rows": lambda t: t.slice(0, 0),
    "no id that is in the catalogue": lambda t: t.set_column(1, "item", pa.array(["x"] * len(t))),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_refused_in_the_same_words(tmp_path: Path, message: str) -> None:
    path = written(tmp_path, BAD[message](a_table()))
    options = {"unknown_items": "drop"} if message.startswith("no id") else {}
    said = []
    for on_disk in (False, True):
        with pytest.raises(InputError, match=message) as refusal:
            read_ratings(path, DOMAIN, **COLUMNS, **options, out_of_core=on_disk)
        said.append(str(refusal.value))
    assert said[0] == said[1]
    assert len(os.listdir(tmp_path)) == 1


def test_only_parquet_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating\nu1,film 1,3\n")
    with pytest.raises(InputError, match="Parquet"):
        read_ratings(tmp_path / "r.csv", DOMAIN, **COLUMNS, out_of_core=True)
    assert rows_by_key(read_ratings(tmp_path / "r.csv", DOMAIN, **COLUMNS))


def test_a_torn_file_is_no_parquet(tmp_path: Path) -> None:
    path = written(tmp_path, a_table())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_ratings(path, DOMAIN, **COLUMNS, out_of_core=True)


def test_files_that_would_fill_half_the_memory_stay_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, a_table())
    assert not isinstance(read_ratings(path, DOMAIN, **COLUMNS)._open_rows(), stored.StoredRows)
    monkeypatch.setattr(formats, "memory_bytes", lambda: 900 * formats.HELD_BYTES_PER_ROW * 1.99)
    assert isinstance(read_ratings(path, DOMAIN, **COLUMNS)._open_rows(), stored.StoredRows)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="scratch file"):
        read_ratings(written(tmp_path, a_table()), DOMAIN, **COLUMNS, out_of_core=True, scratch=tmp_path / "nowhere")


def test_progress_rises_to_one(tmp_path: Path) -> None:
    told: list[float] = []
    read_ratings(written(tmp_path, a_table()), DOMAIN, **COLUMNS, out_of_core=True, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 10


@pytest.mark.parametrize("catalogue", [["--items", "0..49"], ["--private-catalogue"]], ids=["public", "private"])
def test_the_command_line_releases_from_disk(tmp_path: Path, catalogue: list[str]) -> None:
    write_taste(tmp_path / "r.parquet", 3000, 50, 12.0, numbers=True)
    names = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5"]
    budget = ["--epsilon", "8", "--delta", "1e-6", "--method", "bias", "--quiet"]
    release = ["release", str(tmp_path / "r.parquet"), *names, *catalogue, *budget]
    assert run([*release, "--out-of-core", "--out", str(tmp_path / "out")]) == 0
    assert run(["verify", str(tmp_path / "out")]) == 0
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
