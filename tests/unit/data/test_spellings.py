"""One person, one key, in every reader: a table whose ids are spelled in several ways, read in all of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowkey as lk
from lowkey.data import from_frame, read_catalogue, read_ratings, read_uncatalogued
from lowkey.data.ids import user_keys
from lowkey.errors import InputError

COLUMNS = {"user": "user", "item": "item", "rating": "rating"}
NFC, NFD = "Zoe\u0308".replace("e\u0308", "ë"), "Zoe\u0308"
# (as spelled, item as spelled, rating); the user whom it is, and the place of the item, by hand
ROWS = [
    ("ann", "Amélie", 1.0),
    ("ann ", "film 7", 2.0),
    ("\u00a0ann\u2003", "Heat", 3.0),
    (NFC, "Ame\u0301lie", 4.0),
    (NFD, " Heat", 5.0),
    (f"\t{NFD} ", "film 7 ", 1.5),
    ("Ann", "Heat\u2009", 2.5),  # another person: letters are not folded
    ("7", "Amélie", 3.5),
    ("07", "Amélie", 4.5),  # another person: digits are not folded
]
CATALOGUE = ["Amélie", "Heat", "film 7"]
DOMAIN = lk.Domain(items=CATALOGUE, rating_range=(1.0, 5.0))
PEOPLE = {
    "ann": {0: 1.0, 1: 3.0, 2: 2.0},
    NFC: {0: 4.0, 1: 5.0, 2: 1.5},
    "Ann": {1: 2.5},
    "7": {0: 3.5},
    "07": {0: 4.5},
}


def table(rows: Any = ROWS) -> pa.Table:
    users, items, ratings = zip(*rows, strict=True)
    return pa.table({"user": pa.array(users), "item": pa.array(items), "rating": pa.array(ratings)})


def as_text(rows: pa.Table, delimiter: str) -> str:
    lines = [delimiter.join(f'"{cell}"' for cell in row.values()) for row in rows.to_pylist()]
    return "\n".join([delimiter.join(COLUMNS), *lines]) + "\n"


def text_file(ending: str, delimiter: str) -> Callable[[pa.Table, Path], Any]:
    def way(rows: pa.Table, folder: Path) -> Any:
        (folder / f"r.{ending}").write_text(as_text(rows, delimiter))
        return folder / f"r.{ending}"

    return way


def parquet(rows: pa.Table, folder: Path) -> Path:
    pq.write_table(rows, folder / "r.parquet", row_group_size=2)
    return folder / "r.parquet"


def many_files(rows: pa.Table, folder: Path) -> Path:
    (folder / "many").mkdir(exist_ok=True)
    for at in range(len(rows)):
        pq.write_table(rows.slice(at, 1), folder / "many" / f"{at}.parquet")
    return folder / "many"


def dictionaries(rows: pa.Table) -> pa.Table:
    for at, name in enumerate(("user", "item")):
        rows = rows.set_column(at, name, rows[name].dictionary_encode())
    return rows


FILES = {
    "csv": text_file("csv", ","),
    "tsv": text_file("tsv", "\t"),
    "parquet": parquet,
    "parquet dictionaries": lambda rows, folder: parquet(dictionaries(rows), folder),
    "a folder": many_files,
}
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda rows: rows,
    "arrow dictionaries": dictionaries,
    "arrow chunks": lambda rows: pa.concat_tables([rows.slice(at, 1) for at in range(len(rows))]),
    "pandas": lambda rows: rows.to_pandas(),
    "pandas categories": lambda rows: rows.to_pandas().astype({"user": "category", "item": "category"}),
    "polars": lambda rows: pl.DataFrame(rows.to_pydict()),
    "polars lazy": lambda rows: pl.DataFrame(rows.to_pydict()).lazy(),
}
WAYS = [
    *(
        (name, out_of_core)
        for name in FILES
        for out_of_core in (False, True)
        if not (out_of_core and name in ("csv", "tsv"))
    ),
    *((name, False) for name in FRAMES),
]


def read(way: str, out_of_core: bool, rows: pa.Table, folder: Path, domain: lk.Domain = DOMAIN) -> lk.Ratings:
    if way in FRAMES:
        return from_frame(FRAMES[way](rows), domain, **COLUMNS)
    return read_ratings(FILES[way](rows, folder), domain, **COLUMNS, out_of_core=out_of_core)


def people(ratings: lk.Ratings) -> dict[int, dict[int, float]]:
    csr, keys = ratings._open_csr(), ratings._open_keys().tolist()
    assert len(set(keys)) == len(keys)
    return {
        key: dict(zip(csr.indices[a:b].tolist(), csr.data[a:b].tolist(), strict=True))
        for key, a, b in zip(keys, csr.indptr, csr.indptr[1:], strict=False)
    }


def expected() -> dict[int, dict[int, float]]:
    return dict(zip(user_keys(pa.array(list(PEOPLE))).tolist(), PEOPLE.values(), strict=True))


@pytest.mark.parametrize(("way", "out_of_core"), WAYS)
def test_one_table_in_every_reader(way: str, out_of_core: bool, tmp_path: Path) -> None:
    assert people(read(way, out_of_core, table(), tmp_path)) == expected()


@pytest.mark.parametrize(("way", "out_of_core"), [w for w in WAYS if w[0] in FILES])
def test_a_private_catalogue_too(way: str, out_of_core: bool, tmp_path: Path) -> None:
    path = FILES[way](table(), tmp_path)
    rows = read_uncatalogued(path, **COLUMNS, rating_range=(1.0, 5.0), out_of_core=out_of_core)
    assert rows._open_ids().to_pylist() == sorted(CATALOGUE)
    assert people(rows.with_items(CATALOGUE)) == expected()


@pytest.mark.parametrize(("way", "out_of_core"), WAYS)
@pytest.mark.parametrize("column", ["user", "item"])
@pytest.mark.parametrize("blank", ["", " \u2003\t"])
def test_what_is_empty_is_missing(way: str, out_of_core: bool, column: str, blank: str, tmp_path: Path) -> None:
    cells = [*table()[column].to_pylist()[:-1], blank]
    rows = table().set_column(list(COLUMNS).index(column), column, pa.array(cells))
    with pytest.raises(InputError, match=f"column '{column}': got missing values"):
        read(way, out_of_core, rows, tmp_path)


def test_a_category_without_rows_is_not_missing() -> None:
    """In pandas and polars, categories outlive the rows that had them."""
    rows = table([*ROWS, (" ", "Heat", 1.0)])
    frame = FRAMES["pandas categories"](rows)
    assert people(from_frame(frame[frame["user"] != " "], DOMAIN, **COLUMNS)) == expected()


@pytest.mark.parametrize(("way", "out_of_core"), WAYS)
def test_numbers_are_the_same_ids_as_their_text(way: str, out_of_core: bool, tmp_path: Path) -> None:
    """7 is "7", wherever and as whatever it was stored: text files know no numbers."""
    users, items = [12, 7, -3, 2**63 - 1, 12], [30, 10, 20, 20, 10]
    numbers = pa.table({"user": users, "item": items, "rating": [1.0, 2.0, 3.0, 4.0, 5.0]})
    texts = numbers.set_column(0, "user", numbers["user"].cast(pa.string()))
    texts = texts.set_column(1, "item", texts["item"].cast(pa.string()))
    wanted = dict(
        zip(
            user_keys(pa.array([12, 7, -3, 2**63 - 1])).tolist(),
            [{2: 1.0, 0: 5.0}, {0: 2.0}, {1: 3.0}, {1: 4.0}],
            strict=True,
        )
    )
    for rows in (numbers, texts):
        for domain in (lk.Domain([10, 20, 30], (1.0, 5.0)), lk.Domain(["10", "20", "30"], (1.0, 5.0))):
            assert people(read(way, out_of_core, rows, tmp_path, domain)) == wanted


def test_catalogues_and_histories(tmp_path: Path) -> None:
    for again in (["Heat", "Heat "], [NFC, NFD]):
        with pytest.raises(InputError, match="the same id more than once"):
            lk.Domain(again, (1.0, 5.0))
    with pytest.raises(InputError, match="missing values"):
        lk.Domain(["Heat", " "], (1.0, 5.0))
    (tmp_path / "c.txt").write_text(f" Heat\n{NFD}\t\n")
    (tmp_path / "c.csv").write_text(f'item\n" Heat"\n{NFD}\n')
    pq.write_table(pa.table({"item": [" Heat", NFD]}), tmp_path / "c.parquet")
    for name in ("c.txt", "c.csv", "c.parquet"):
        assert read_catalogue(tmp_path / name, item="item").to_pylist() == ["Heat", NFC]
    domain = lk.Domain(["Heat", NFD], (1.0, 5.0))
    assert domain.item_ids.to_pylist() == ["Heat", NFC]
    assert domain.positions(["Heat ", NFD, NFC, "heat"]).tolist() == [0, 1, 1, -1]
    frame = pd.DataFrame({"user": ["a", "b"], "item": ["Heat", NFC], "rating": [1.0, 5.0]})
    model = lk.Bias().fit(from_frame(frame, domain, **COLUMNS)).model_
    spelled = model.predict({" Heat": 2.0, NFD: 3.0}, items=[f"{NFC} "])
    assert spelled.tolist() == model.predict({"Heat": 2.0, NFC: 3.0}, items=[NFC]).tolist()
    with pytest.raises(InputError, match="the same item twice"):
        model.recommend({"Heat": 2.0, "Heat ": 3.0})


@given(st.lists(st.text(max_size=6), min_size=1, max_size=20))
def test_the_rule_is_the_one_that_python_has_too(texts: list[str]) -> None:
    """Normal form C, then no white space around; twice is once; and only that."""
    from lowkey.data.ids import tidy_text

    found = tidy_text(pa.array(texts), "ids")
    assert found.to_pylist() == [unicodedata.normalize("NFC", text).strip() for text in texts]
    assert tidy_text(found, "ids").equals(found)


def test_bytes_that_are_no_text_are_not_quoted(tmp_path: Path) -> None:
    buffers = [None, pa.py_buffer(np.array([0, 6, 9], np.int32)), pa.py_buffer(b"secr\xff\xfeann")]
    broken = pa.Array.from_buffers(pa.string(), 2, buffers)
    rows = pa.table({"user": broken, "item": ["Heat", "Heat"], "rating": [1.0, 2.0]})
    for way in ("arrow", "parquet"):
        with pytest.raises(InputError, match=r"bytes that are no text|cannot be read") as refusal:
            read(way, False, rows, tmp_path)
        assert refusal.value.__context__ is None
        assert "secr" not in repr(refusal.value)
