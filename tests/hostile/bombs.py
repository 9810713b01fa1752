"""Small files that would become large ones: a corpus for the fuzzer of the readers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CANARY = "canary"


def gzip_of_rows(path: Path) -> Path:
    """Good rows, again and again: some megabytes that are 4 GB of text, and more in memory."""
    return gzipped(path, b"canary,film 1,3\n")


def gzip_of_one_line(path: Path) -> Path:
    return gzipped(path, b"x")


def gzip_of_header(path: Path) -> Path:
    """A header that never ends."""
    return gzipped(path, b"canary,x,", header=b"")


def gzipped(path: Path, text: bytes, header: bytes = b"user,item,rating\n") -> Path:
    """Streams of gzip, one after the other, are one."""
    block = gzip.compress(text * ((10 << 20) // len(text)), mtime=0)
    (path / "bomb.csv.gz").write_bytes(gzip.compress(header, mtime=0) + block * 390)
    return path / "bomb.csv.gz"


def zstd_of_rows(path: Path) -> Path:
    """zstd goes further than gzip: some hundred kilobytes for gigabytes."""
    block = pa.compress(b"canary,film 1,3.731955\n" * 500_000, "zstd", asbytes=True)
    (path / "bomb.csv.zst").write_bytes(pa.compress(b"user,item,rating\n", "zstd", asbytes=True) + block * 100)
    return path / "bomb.csv.zst"


def parquet_of_one_user(path: Path) -> Path:
    """Forty million equal rows in some kilobytes."""
    n = 1 << 20
    table = pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), [CANARY]),
            "item": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["film 1"]),
            "rating": pa.array(np.full(n, 3.731955)),
        }
    )
    with pq.ParquetWriter(path / "bomb.parquet", table.schema, compression="zstd") as file:
        for _ in range(40):
            file.write_table(table, row_group_size=n)
    return path / "bomb.parquet"


def parquet_of_long_text(path: Path) -> Path:
    """Ids of some megabytes each, which are some kilobytes of zstd."""
    users = pa.array([f"{i}{CANARY * 1_000_000}" for i in range(30)], pa.large_string())
    table = pa.table({"user": users, "item": ["film 1"] * 30, "rating": [3.731955] * 30})
    pq.write_table(table, path / "bomb.parquet", compression="zstd", use_dictionary=False)
    return path / "bomb.parquet"


BOMBS: list[Callable[[Path], Path]] = [
    gzip_of_rows,
    gzip_of_one_line,
    gzip_of_header,
    zstd_of_rows,
    parquet_of_one_user,
    parquet_of_long_text,
]
