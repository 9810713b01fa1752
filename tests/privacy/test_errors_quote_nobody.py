"""No exception, warning, context or repr carries a cell: canaries of every kind, in every column, through every way in.

A canary is a text, a number or an object that shows one whenever it is converted or printed. Whatever is raised is walked
through: words, arguments, notes, causes and contexts.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import lowkey as lk
from lowkey.data import from_frame, read_ratings, read_uncatalogued
from lowkey.data.trace import cells
from lowkey.methods.trace.method import DPTraceRegression

TEXT, NUMBER = "canary", 731955
SHOWN = (TEXT, "731955", "731_955", "7.31955")
COLUMNS = {"user": "user", "item": "item", "rating": "rating"}
DOMAIN = lk.Domain(items=[f"film {i}" for i in range(40)], rating_range=(1.0, 5.0))
NUMBERED = lk.Domain(items=40, rating_range=(1.0, 5.0))


class Loud:
    """Shows itself in every conversion."""

    def __repr__(self) -> str:
        return TEXT

    def __float__(self) -> float:
        raise ValueError(TEXT)

    __int__ = __index__ = __str__ = __float__  # type: ignore[assignment]

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise ValueError(TEXT)


BAD_CELLS: dict[str, Any] = {
    "text": TEXT,
    "text in a number": f"{NUMBER}x",
    "number": NUMBER,
    "negative": -NUMBER,
    "fraction": NUMBER + 0.5,
    "wide": NUMBER * 10**60,
    "decimal": decimal.Decimal(f"{NUMBER}.25"),
    "bytes": TEXT.encode(),
    "broken bytes": TEXT.encode() + b"\xff",
    "surrogate": TEXT + "\udcff",
    "date": datetime.datetime(2001, 1, 1) + datetime.timedelta(microseconds=NUMBER),
    "list": [TEXT],
    "dictionary": {TEXT: NUMBER},
    "complex": complex(NUMBER, 1),
    "object": Loud(),
    "none": None,
}


def columns(column: str, cell: Any, whole: bool) -> dict[str, list[Any]]:
    """Twenty good rows of canary users but for one cell, or but for a whole column of its kind."""
    good: dict[str, list[Any]] = {
        "user": [f"{TEXT} {u}" for u in range(20)],
        "item": [f"film {i}" for i in range(20)],
        "rating": [1.0 + i % 5 for i in range(20)],
    }
    good[column] = [cell] * 20 if whole else [*good[column][:11], cell, *good[column][12:]]
    return good


def arrow(table: dict[str, list[Any]]) -> pa.Table:
    return pa.table({name: pa.array(cells) for name, cells in table.items()})


def csv_file(table: dict[str, list[Any]], folder: Path) -> Path:
    rows = ([str(c) if c is not None else "" for c in row] for row in zip(*table.values(), strict=True))
    (folder / "r.csv").write_text("\n".join(",".join(row) for row in [list(table), *rows]), errors="surrogatepass")
    return folder / "r.csv"


def parquet_file(table: dict[str, list[Any]], folder: Path) -> Path:
    pq.write_table(arrow(table), folder / "r.parquet")
    return folder / "r.parquet"


def many_files(table: dict[str, list[Any]], folder: Path) -> Path:
    """Each row in a file of its own, so that types differ between files and are brought to one."""
    (folder / "many").mkdir(exist_ok=True)
    for at in range(9, 13):
        row = {name: pa.array([cells[at]]) for name, cells in table.items()}
        pq.write_table(pa.table(row), folder / "many" / f"{at}.parquet")
    return folder / "many"


FRAMES: list[Callable[..., Any]] = [
    lambda t: pd.DataFrame(t, dtype=object),
    lambda t: pd.DataFrame(t),
    lambda t: pl.DataFrame(t, strict=False),
    lambda t: pl.DataFrame({name: pl.Series(cells, dtype=pl.Object) for name, cells in t.items()}),
    lambda t: pl.DataFrame(t, strict=False).lazy().with_columns(pl.col("rating").cast(pl.Float64)),
    arrow,
    lambda t: t,
]
FILES = [csv_file, parquet_file, many_files]


def ways(table: dict[str, list[Any]], folder: Path) -> Iterator[Callable[[], Any]]:
    """Every way in that such a table can be put into."""
    for make, domain in itertools.product(FRAMES, (DOMAIN, NUMBERED)):
        if (frame := made(make, table)) is not None:
            yield lambda frame=frame, domain=domain: from_frame(frame, domain, **COLUMNS)
            yield lambda frame=frame, domain=domain: lk.DPBias(1.0, 1e-6).fit(frame, domain=domain)
    for write, stored in itertools.product(FILES, (False, True)):
        if (path := made(write, table, folder)) is not None:
            for domain, duplicates in ((DOMAIN, "error"), (NUMBERED, "sum")):
                yield lambda p=path, d=domain, s=stored, r=duplicates: read_ratings(
                    p, d, **COLUMNS, out_of_core=s, duplicates=r
                )
            yield lambda p=path, s=stored: read_uncatalogued(p, **COLUMNS, rating_range=(1.0, 5.0), out_of_core=s)


def made(make: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return make(*arguments)
    except BaseException:  # such a cell cannot be put there
        return None


def attempt(call: Callable[[], Any]) -> bool:
    """Whether it failed; whatever it says must show no canary."""
    error: BaseException | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = [repr(call())]
        except BaseException as raised:  # a panic of polars is no Exception
            error, said = raised, []
    said += [str(warning.message) for warning in caught]
    seen = [] if error is None else [error]
    for link in seen:
        notes = getattr(link, "__notes__", "")
        said.append(f"{link} {link!r} {link.args!r} {vars(link)} {notes} {traceback.format_exception_only(link)}")
        seen += [chained for chained in (link.__cause__, link.__context__) if chained is not None]
    assert not [text for text in said if any(shown in text for shown in SHOWN)], said
    return error is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # while polars makes the frame
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("cell", BAD_CELLS)
def test_tables_and_files(cell: str, column: str, tmp_path: Path) -> None:
    tried, failed = 0, 0
    for whole in (False, True):
        folder = tmp_path / str(whole)
        folder.mkdir()
        for call in ways(columns(column, BAD_CELLS[cell], whole), folder):
            tried, failed = tried + 1, failed + attempt(call)
    assert tried >= 10
    assert failed >= 5  # or nothing was attacked


def wide_integers(folder: Path) -> Path:
    """Types that Arrow unifies, and a cell that does not fit into the common one."""
    folder.mkdir()
    kinds = [(pa.int64(), 3), (pa.uint64(), 10**19 + NUMBER), (pa.int8(), 4)]
    for at, (kind, user) in enumerate(kinds):
        rows = {"user": pa.array([user], kind), "item": ["film 1"], "rating": pa.array([2.0])}
        pq.write_table(pa.table(rows), folder / f"{at}.parquet")
    return folder


def wide_decimals(folder: Path) -> Path:
    folder.mkdir()
    for at, rating in enumerate(("1.25", f"{NUMBER}.5")):
        cells = pa.array([decimal.Decimal(rating)], pa.decimal128(20 + at, 9 * at + 2))
        pq.write_table(pa.table({"user": [at], "item": ["film 1"], "rating": cells}), folder / f"{at}.parquet")
    return folder


@pytest.mark.parametrize("out_of_core", [False, True])
@pytest.mark.parametrize("make", [wide_integers, wide_decimals])
def test_folders_whose_files_differ_in_width(make: Any, out_of_core: bool, tmp_path: Path) -> None:
    path = make(tmp_path / "many")
    assert attempt(lambda: read_ratings(path, DOMAIN, **COLUMNS, out_of_core=out_of_core))


def test_a_failure_that_nobody_foresaw_keeps_its_kind_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lowkey.data import columns as inside

    def quoting(*arguments: Any) -> Any:
        raise KeyError(TEXT)

    monkeypatch.setattr(inside, "group_by_user", quoting)
    table = columns("rating", 2.0, whole=False)
    path = csv_file(table, tmp_path)
    for call in (
        lambda: from_frame(pd.DataFrame(table), DOMAIN, **COLUMNS),
        lambda: read_ratings(path, DOMAIN, **COLUMNS),
        lambda: read_uncatalogued(path, **COLUMNS, rating_range=(1.0, 5.0)),
    ):
        assert attempt(call)
        with pytest.raises(lk.errors.InputError, match="an unexpected KeyError"):
            call()
    with pytest.raises(TypeError, match="surname"):  # a wrong call is told as such
        read_ratings(path, DOMAIN, **COLUMNS, surname=1)


def objects(*cells: Any) -> np.ndarray:
    """As they are: NumPy would convert them on the way in."""
    array = np.empty(len(cells), object)
    for at, cell in enumerate(cells):
        array[at] = cell
    return array


def test_matrices_keys_and_histories() -> None:
    good = sp.csr_array(([2.0, 3.0], [0, 1], [0, 1, 2]), shape=(2, 40))
    model = lk.Bias().fit(good, domain=NUMBERED).model_
    for cell in BAD_CELLS.values():
        loud = good.copy()
        loud.data = objects(cell, cell)
        assert attempt(lambda loud=loud: lk.Ratings.from_csr(loud, NUMBERED))
        attempt(lambda cell=cell: lk.Ratings.from_csr(good, NUMBERED, keys=[cell, cell]))
        attempt(lambda loud=loud: model.predict(loud))
        attempt(lambda cell=cell: model.recommend({0: cell}))
        attempt(lambda cell=cell: model.recommend([cell]))
        attempt(lambda cell=cell: model.predict({0: 2.0}, items=[cell]))
    far = good.copy()
    far.data[:] = NUMBER
    assert attempt(lambda: lk.Ratings.from_csr(far, NUMBERED))
    assert attempt(lambda: model.predict(far))


@pytest.mark.parametrize("cell", BAD_CELLS)
def test_trace_records(cell: str) -> None:
    bad, rng = BAD_CELLS[cell], np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3, 2)), [*rng.standard_normal(19), bad]
    fit = DPTraceRegression(1, 1.0, 1e-6, error_std=0.1, max_singular_value=1.0).fit
    loud = objects(*[1.0] * 59, bad).reshape(20, 3)
    sparse = [sp.csr_array(x) for x in X]
    pairs = [(x, np.eye(2)) for x in X]
    failed = 0
    for measured in (X, X[:, :, 0], sparse, pairs, cells(np.zeros(20, int), np.zeros(20, int), (3, 2))):
        failed += attempt(lambda measured=measured: fit(measured, y))
        failed += attempt(lambda measured=measured: fit(measured, objects(*y)))
    good = rng.standard_normal(20)
    for measured in (loud, loud.tolist(), [*pairs[:-1], (objects(bad, bad, bad)[:, None], np.eye(2)[:, :1])]):
        failed += attempt(lambda measured=measured: fit(measured, good))
    assert failed >= (0 if isinstance(bad, (int, float, decimal.Decimal)) else 10)  # those are numbers after all


def test_trace_records_of_a_wrong_shape() -> None:
    """scikit-learn prints the whole array beside such words."""
    fit = DPTraceRegression(1, 1.0, 1e-6, error_std=0.1, max_singular_value=1.0).fit
    many = np.full(20, float(NUMBER))
    for X, y in ((many, many), (many[0], many), (many[:, None] * 1j, many), (many[:, None], many * 1j), (many[:, None], 3)):
        assert attempt(lambda X=X, y=y: fit(X, y))
    fitted = fit(np.ones((20, 2)), np.zeros(20))
    with pytest.raises(ValueError, match="Reshape your data"):
        fitted.predict(many)
    assert attempt(lambda: fitted.predict(many))
