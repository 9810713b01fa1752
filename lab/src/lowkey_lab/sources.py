"""Lab room: where the real data sets lie, what they should be, and where to get what is absent. Nothing is fetched.

A data set is a Parquet file ``NAME.parquet`` in the folder ``LOWKEY_DATA`` (columns user, item, rating), or its files as
they were published, unpacked there.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
import scipy.sparse

from lowkey.data.columns import ColumnNames
from lowkey.data.formats import format_of, read_columns
from lowkey.data.sources import existing_path
from lowkey.errors import refuse

MOVIELENS = "https://grouplens.org/datasets/movielens/"


class Source(NamedTuple):
    """Where to get it, which file of it is read when there is no Parquet file, and the checksum of ours."""

    where: str
    original: str | None = None
    sha256: str | None = None


SOURCES = {
    "ml-100k": Source(MOVIELENS + "100k/", "ml-100k/u.data",
                      "e2834dfd0d89806b41dffdbe115bc67b453ba2a52d1afb1dbb109f748768e35b"),
    "ml-100k-u1": Source(MOVIELENS + "100k/", None, "93d1acdb9ff19b95b94d8ba989c77a0d7585e04603dcb6d9167fbeeb361bdbb1"),
    "ml-100k-u2": Source(MOVIELENS + "100k/", None, "d7dac87fd11c52e6ca7a682f5f8ffb2aa57a9593ce553e8e88d1a658f4897d28"),
    "ml-100k-u3": Source(MOVIELENS + "100k/", None, "568ad127e6622c48b203ee19efe9a1a81f59d711b9d1ad457da81aad2c30a453"),
    "ml-100k-u4": Source(MOVIELENS + "100k/", None, "a9ae87a5012cdae0e67c2f169daa971c1f8a1ea21cae3f29321c0f058c900024"),
    "ml-100k-u5": Source(MOVIELENS + "100k/", None, "86d60fb4b5ae80cc81ced9eae19390a45b723b12d18766377deb6056158a346b"),
    "ml-1m": Source(MOVIELENS + "1m/", "ml-1m/ratings.dat",
                    "a3a6806788a3f3611a36079a04d85ea98bcb399e78878fe143fbc3808d2d81d3"),
    "ml-10m": Source(MOVIELENS + "10m/", "ml-10M100K/ratings.dat"),
    "ml-20m": Source(MOVIELENS + "20m/", "ml-20m/ratings.csv"),
    "ml-25m": Source(MOVIELENS + "25m/", "ml-25m/ratings.csv"),
    "jester": Source("https://eigentaste.berkeley.edu/dataset/ (data set 1, part 1)", None,
                     "965e881c4f0f4029ff69e4eff98e8c533f770e7a3295a933c14fc0b5d3534489"),
    "jester5k": Source("the R package recommenderlabJester", None,
                       "198f6bb11b0334022e443b3538e5631dc764fdc66d81db62235f0f1b57979a94"),
    "book-crossing": Source("http://www2.informatik.uni-freiburg.de/~cziegler/BX/", None,
                            "bba152d432a192cea5a0d72d73e6d296f68a6ad50fda648aa37ceb95b69610fe"),
    "ciaodvd": Source("CiaoDVD (Guo et al. 2014), turned into Parquet", None,
                      "c86ef4391759cadf210902359868f21bc7818783f617d9670f24d8b6addd79bb"),
    "rc": Source("https://archive.ics.uci.edu/dataset/232/restaurant+consumer+data", None,
                 "0f33f261a9722324bfe89d5ca3f4f23846f1ffc5e159c43f039a75addb7b1fcc"),
    "netflix": Source("https://archive.org/details/nf_prize_dataset.tar", "netflix/training_set"),
    "msweb": Source("https://archive.ics.uci.edu/dataset/4/anonymous+microsoft+web+data", None,
                    "5de123cb5aaa33f225c7953219e9eb33356b07ecdb5f71cbbcb9d7c49ee43768"),
}  # fmt: skip


def data_folder() -> Path:
    """``LOWKEY_DATA``, or else a folder next to the repository."""
    return Path(os.environ.get("LOWKEY_DATA", "../shared/data"))


def found(name: str) -> Path | None:
    """The file of a data set, if it is there."""
    original = SOURCES[name].original
    places = [data_folder() / f"{name}.parquet", *([data_folder() / original] if original else [])]
    return next((place for place in places if place.exists()), None)


def path_of(name: str) -> Path:
    """The file of a data set, or a message that says where to get it."""
    path, source = found(name), SOURCES[name]
    if path is None:
        original = f" or {source.original}" if source.original else ""
        needed = f"{name}.parquet (columns user, item, rating){original} in the folder LOWKEY_DATA"
        refuse(f"data {name!r}", got="no such file", needed=needed, try_=f"{source.where} (nothing is downloaded for you)")
    return path


def checksum(name: str) -> str:
    """What is known of a data set's file: "as listed", "differs from the listed file" or "no checksum listed"."""
    known = SOURCES[name].sha256
    if known is None or path_of(name).suffix != ".parquet":
        return "no checksum listed"
    return "as listed" if _sha256(path_of(name)) == known else "differs from the listed file"


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def columns(name: str, *more: str) -> dict[str, np.ndarray]:
    """user, item and rating as arrays, in the order of the file; ``more`` columns of a Parquet file."""
    path = path_of(name)
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path, columns=["user", "item", "rating", *more])
        return {column: table[column].to_numpy() for column in ("user", "item", "rating", *more)}
    return netflix(path) if path.is_dir() else _read(path, ColumnNames("userId", "movieId", "rating"))


def netflix(folder: Path) -> dict[str, np.ndarray]:
    """The prize's files as they come: a line ``MOVIE:``, then lines ``user,rating,date``; a file a film, or several."""
    found: dict[str, list[np.ndarray]] = {"user": [], "item": [], "rating": []}
    for path in sorted(folder.glob("*.txt")):
        film = np.int64(0)
        for block in re.split(r"(?m)^(\d+):\s*$", path.read_text()):
            if block.strip().isdigit():
                film = np.int64(block)
            elif block.strip():
                users, stars = zip(*(line.split(",")[:2] for line in block.split()), strict=True)
                found["user"].append(np.array(users, np.int64))
                found["rating"].append(np.array(stars, np.float32))
                found["item"].append(np.full(len(users), film))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def file_columns(path: Path, user: str, item: str, rating: str | None) -> dict[str, np.ndarray]:
    """The same of any file that ``lowkey release`` reads."""
    return _read(existing_path(path, "--data"), ColumnNames(user, item, rating))


def _read(path: Path, names: ColumnNames) -> dict[str, np.ndarray]:
    read = read_columns(path, format_of(path, None), names, None)
    ours = dict(zip(names.as_list(), ("user", "item", "rating"), strict=False))
    return {ours[name]: _plain(column) for name, column in read.items()}


def _plain(column: Any) -> np.ndarray:
    """Numbers as they are, ids in digits as numbers, other ids as the places they take among all."""
    if not pyarrow.types.is_dictionary(column.type) and not pyarrow.types.is_string(column.type):
        return column.to_numpy()
    texts = column.cast(pyarrow.string())
    try:
        return texts.cast(pyarrow.int64()).to_numpy()
    except pyarrow.ArrowInvalid:
        return texts.combine_chunks().dictionary_encode().indices.to_numpy()


def as_rows(table: dict[str, np.ndarray]) -> Any:
    """A CSR array of users by items, both in the order of their ids; without a rating column, of ones."""
    users, items = (np.unique(table[name], return_inverse=True)[1] for name in ("user", "item"))
    values = table["rating"] if "rating" in table else np.ones(len(users))
    return scipy.sparse.csr_array((values.astype(np.float32), (users, items)))
