"""Every way in for a crowd of users: files, folders, frames and matrices, with ids and without, in memory and on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import scipy.sparse as sp
from estimators import Row

import lowkey as lk
from lowkey.data.ids import user_keys

Crowd = dict[str, Row]  # by user id, in the order in which a file or a matrix has them
COLUMNS = {"user": "user", "item": "item", "rating": "rating"}


def table(domain: lk.Domain, crowd: Crowd) -> pa.Table:
    users = np.repeat(list(crowd), [len(items) for items, _ in crowd.values()])
    items = np.concatenate([items for items, _ in crowd.values()])
    values = np.concatenate([values for _, values in crowd.values()])
    return pa.table({"user": pa.array(users), "item": pa.array(domain.ids(items)), "rating": values.astype(np.float64)})


def matrix(domain: lk.Domain, crowd: Crowd) -> sp.csr_array:
    offsets = np.concatenate([[0], np.cumsum([len(items) for items, _ in crowd.values()])])
    items = np.concatenate([items for items, _ in crowd.values()])
    values = np.concatenate([values for _, values in crowd.values()])
    return sp.csr_array((values, items, offsets), shape=(len(crowd), domain.n_items))


def csv_file(rows: pa.Table, folder: Path) -> Path:
    pyarrow.csv.write_csv(rows, folder / "r.csv")
    return folder / "r.csv"


def parquet_file(rows: pa.Table, folder: Path) -> Path:
    pq.write_table(rows, folder / "r.parquet", row_group_size=50)
    return folder / "r.parquet"


def many_files(rows: pa.Table, folder: Path) -> Path:
    """Files of 40 rows, so that users lie across their borders."""
    (folder / "many").mkdir(parents=True, exist_ok=True)
    for old in (folder / "many").iterdir():
        old.unlink()
    for at in range(0, len(rows), 40):
        pq.write_table(rows.slice(at, 40), folder / "many" / f"{at:05d}.parquet")
    return folder / "many"


FILES: dict[str, tuple[Callable[[pa.Table, Path], Path], dict[str, Any]]] = {
    "csv": (csv_file, {}),
    "parquet": (parquet_file, {}),
    "a folder": (many_files, {}),
    "out of core": (parquet_file, {"out_of_core": True}),
    "a folder out of core": (many_files, {"out_of_core": True}),
}
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda rows: rows.to_pandas(),
    "polars": lambda rows: pl.DataFrame(rows.to_pydict()),
    "arrow": lambda rows: rows,
}
WITH_IDS = [*FILES, *FRAMES, "matrix with keys"]
WAYS = [*WITH_IDS, "matrix"]


def read(way: str, domain: lk.Domain, crowd: Crowd, folder: Path) -> lk.Ratings:
    if way == "matrix":
        return lk.Ratings.from_csr(matrix(domain, crowd), domain)
    if way == "matrix with keys":
        return lk.Ratings.from_csr(matrix(domain, crowd), domain, keys=user_keys(pa.array(list(crowd))))
    if way in FRAMES:
        return lk.from_frame(FRAMES[way](table(domain, crowd)), domain, **COLUMNS)
    write, options = FILES[way]
    return lk.read_ratings(write(table(domain, crowd), folder), domain, **COLUMNS, **options)


def rows_of(ratings: lk.Ratings) -> tuple[list[Row], np.ndarray]:
    """Bare rows and keys, in the order in which they are held."""
    csr = ratings._open_csr()
    ends = zip(csr.indptr, csr.indptr[1:], strict=False)
    return [(csr.indices[a:b].astype(np.int32), csr.data[a:b]) for a, b in ends], ratings._open_keys()


def people(ratings: lk.Ratings) -> Counter[tuple[int, bytes, bytes]]:
    """Who is there: key, items and values, as often as they occur."""
    rows, keys = rows_of(ratings)
    return Counter((int(key), items.tobytes(), values.tobytes()) for key, (items, values) in zip(keys, rows, strict=True))
