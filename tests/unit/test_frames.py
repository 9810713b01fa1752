"""Frames in and out, notebooks, and whom `recommend` is asked for: the same histories give the same lists in any form."""

from __future__ import annotations

import inspect
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError

COLUMNS = {"user": "who", "item": "film", "rating": "stars"}
HISTORIES = {"ann": {"a": 5.0, "b": 1.0}, "bob": {"c": 2.0}, "cy": {"d": 4.0, "a": 3.0}}
DOMAIN = lk.Domain(list("abcdefgh"), (1.0, 5.0), expected_users=500)
FRAMES = {
    "pandas": (pd.DataFrame, pd.DataFrame),
    "polars": (pl.DataFrame, pl.DataFrame),
    "lazy polars": (pl.LazyFrame, pl.LazyFrame),
    "arrow": (pa.table, pa.Table),
    "duckdb": (lambda columns: duckdb.from_arrow(pa.table(columns)), duckdb.DuckDBPyRelation),
}


def columns(histories: dict[str, dict[str, float]]) -> dict[str, list[Any]]:
    rows = [(who, film, stars) for who, history in histories.items() for film, stars in history.items()]
    return dict(zip(COLUMNS.values(), map(list, zip(*rows, strict=True)), strict=True))


@pytest.fixture(scope="module")
def model() -> lk.Model:
    made = taste(500, 8, 4.0, seed=3)
    return lk.Bias().fit(lk.Ratings.from_csr(made.csr, lk.Domain(list("abcdefgh"), (0.5, 5.0)))).model_


def table_of(frame: Any) -> list[dict[str, Any]]:
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pd.DataFrame):
        return frame.to_dict("records")
    return frame.to_dicts() if isinstance(frame, pl.DataFrame) else pa.table(frame).to_pylist()


@pytest.mark.parametrize("kind", FRAMES)
def test_lists_for_all_users_in_a_frame_of_the_callers_kind(kind: str, model: lk.Model) -> None:
    make, expected = FRAMES[kind]
    found = model.recommend(make(columns(HISTORIES)), 3, **COLUMNS, exclude=["h"])
    assert isinstance(found, expected)
    rows = table_of(found)
    assert list(rows[0]) == ["user", "item", "score", "rank"]
    for who, history in HISTORIES.items():
        ids, scores = model.recommend(history, 3, exclude=["h"])
        mine = [row for row in rows if row["user"] == who]
        assert [row["item"] for row in mine] == list(ids)
        assert [row["rank"] for row in mine] == [1, 2, 3]
        assert np.allclose([row["score"] for row in mine], scores)


@pytest.mark.parametrize("end", [0.3, 0.7])  # one float32 of them is above, and one below
def test_a_stored_end_of_the_scale_is_that_end_for_fits_and_histories_alike(end: float) -> None:
    stored = sp.csr_array(np.full((4, 3), end, np.float32))
    model = lk.Bias().fit(stored, domain=lk.Domain(3, (0.0, end)))
    assert np.abs(model.predict(stored) - end).max() < 0.02
    with pytest.raises(InputError, match="a rating outside the range"):
        model.predict(stored * np.float32(1.001))


def test_lists_and_dicts_of_histories_are_asked_for_together(model: lk.Model) -> None:
    one_by_one = [model.recommend(history, 2).ids.tolist() for history in HISTORIES.values()]
    by_name = model.recommend(HISTORIES, 2)
    assert by_name["user"].to_pylist() == [who for who in HISTORIES for _ in range(2)]
    numbered = model.recommend(list(HISTORIES.values()), 2)
    assert numbered["user"].to_pylist() == [0, 0, 1, 1, 2, 2]
    for found in (by_name, numbered):
        assert np.reshape(found["item"].to_pylist(), (3, 2)).tolist() == one_by_one


def test_one_history_is_a_small_table_that_comes_apart_as_ever(model: lk.Model) -> None:
    found = model.recommend(HISTORIES["ann"], 3)
    ids, scores = found
    assert found[0] is ids
    assert found.scores is scores
    assert len(found) == 2
    assert [line.split()[1] for line in repr(found).splitlines()] == ["item", *ids]
    assert found._repr_html_().count("<tr>") == 4
    for table in (found.to_arrow(), pa.Table.from_pandas(found.to_pandas())):
        assert table["item"].to_pylist() == list(ids)
    frame = pl.DataFrame({"film": ["a", "b"], "stars": [5.0, 1.0]})
    assert model.recommend(frame, 3, item="film", rating="stars").ids.tolist() == list(ids)


def test_unknown_ids_are_refused_or_left_out_and_counted(model: lk.Model) -> None:
    strange = {**HISTORIES, "bob": {"c": 2.0, "no such film": 5.0, "nor this": 1.0}}
    frame = pl.DataFrame(columns(strange))
    for ask in (lambda **o: model.recommend(strange["bob"], 2, **o), lambda **o: model.recommend(frame, 2, **COLUMNS, **o)):
        with pytest.raises(InputError) as refused:
            ask()
        assert "no such film" not in str(refused.value)
    one = model.recommend(strange["bob"], 2, unknown="ignore")
    assert one.ignored == 2
    assert "2 unknown items" in repr(one)
    assert one.ids.tolist() == model.recommend(HISTORIES["bob"], 2).ids.tolist()
    found = model.recommend(frame, 2, **COLUMNS, unknown="ignore")
    assert dict(zip(found["user"], found["ignored"], strict=True)) == {"ann": 0, "bob": 2, "cy": 0}
    with pytest.raises(InputError, match="unknown"):
        model.recommend(HISTORIES["ann"], unknown="maybe")


@pytest.mark.parametrize("kind", FRAMES)
def test_fit_on_a_frame(kind: str) -> None:
    rows, expected = FRAMES[kind][0](columns(HISTORIES)), lk.from_frame(pa.table(columns(HISTORIES)), DOMAIN, **COLUMNS)
    one, two = lk.Bias().fit(rows, domain=DOMAIN, **COLUMNS), lk.Bias().fit(expected)
    assert np.array_equal(one.predict(sp.csr_array((1, 8))), two.predict(sp.csr_array((1, 8))))
    private = lk.DPBias(1.0, 1e-6).fit(rows, domain=DOMAIN, **COLUMNS)
    assert "one 'who' is protected" in str(private.guarantee_)
    with pytest.raises(InputError, match="no frame"):
        lk.Bias().fit(expected, user="who")


def test_an_estimator_and_a_model_can_be_looked_at(tmp_path: Any) -> None:
    estimator = lk.DPBias(2.0, 1e-5)
    assert "epsilon" in estimator._repr_mimebundle_()["text/html"]
    assert dict(inspect.getmembers(estimator))["epsilon"] == 2.0
    assert "recommend" in dir(estimator)
    estimator.fit(taste(300, 40, 5.0, seed=1).ratings())
    shown = estimator._repr_mimebundle_()["text/html"]
    estimator.release(tmp_path / "r")
    model = lk.load(tmp_path / "r")
    for text in (shown, estimator._repr_html_(), repr(model), model._repr_html_()):
        for part in ("DPBias", "epsilon = 2", "one user", "40 items"):
            assert part in text
        assert "array" not in text
        assert len(text) < 500
