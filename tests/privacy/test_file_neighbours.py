"""Neighbours as a curator has them: a user's rows are taken out of a file, put into it or exchanged, and all is done anew.

Every way in is shown to change nothing of anybody else: same keys, same rows. So a fit on one way with ids stands for all
of them; every method is then replayed on a file and on a matrix without ids, with the keys that these give by default.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimators import CASES, Case, Row, as_row, base_rows
from replay import record, replay, same
from ways_in import COLUMNS, FILES, WAYS, WITH_IDS, Crowd, people, read, rows_of, table

import lowkey as lk
from lowkey.data.positions import Positions
from lowkey.data.readers import read_uncatalogued
from lowkey.methods.catalogue import PrivateCatalogue
from lowkey.privacy.noise import SeededNoise

RATINGS = CASES[0].domain
GONE = {"first": 0, "middle": 14, "last": -1}


def crowd_of(domain: lk.Domain) -> Crowd:
    """The users of the conformance table who have any rating; two of them hold the same items."""
    rows = [row for row in base_rows(domain) if len(row[0])]
    rows[7] = rows[20]
    return {f"user {u:02d}": row for u, row in enumerate(rows)}


def newcomer(domain: lk.Domain) -> Row:
    return as_row(domain, np.arange(domain.n_items) % 11 - 1)


def neighbours(crowd: Crowd, row: Row) -> dict[str, tuple[str, Crowd]]:
    """By name: the adjacency and the other data set."""
    names = list(crowd)
    found: dict[str, tuple[str, Crowd]] = {}
    for place, at in GONE.items():
        found[f"the {place} leaves"] = "add-remove", {name: crowd[name] for name in names if name != names[at]}
        exchanged = {("user xx" if name == names[at] else name): crowd[name] for name in names}
        found[f"the {place} is exchanged"] = "replace-one", {**exchanged, "user xx": row}
    found["one comes first"] = "add-remove", {"a user": row, **crowd}
    found["one comes last"] = "add-remove", {**crowd, "user xx": row}
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("feedback", ["ratings", "binary"])
def test_nobody_else_changes(way: str, feedback: str, tmp_path: Path) -> None:
    domain = next(case.domain for case in CASES if case.feedback == feedback)
    crowd = crowd_of(domain)
    before = people(read(way, domain, crowd, tmp_path))
    assert sum(before.values()) == len(crowd)
    for name, (adjacency, other) in neighbours(crowd, newcomer(domain)).items():
        after = people(read(way, domain, other, tmp_path))
        left, came = before - after, after - before
        assert sum(left.values()) <= 1, name
        assert sum(came.values()) <= 1, name
        assert sum(after.values()) == len(other), name
        assert sum(left.values()) + sum(came.values()) == (1 if adjacency == "add-remove" else 2), name


@pytest.mark.parametrize("way", WITH_IDS[1:])
def test_all_ways_with_ids_give_the_same_people(way: str, tmp_path: Path) -> None:
    crowd = crowd_of(RATINGS)
    assert people(read(way, RATINGS, crowd, tmp_path)) == people(read(WITH_IDS[0], RATINGS, crowd, tmp_path))


@pytest.mark.parametrize("way", WAYS)
def test_other_values_at_the_same_positions_change_no_key(way: str, tmp_path: Path) -> None:
    """What is public where values alone are protected: also which of a user's cells are kept."""
    crowd = crowd_of(RATINGS)
    other = {**crowd, "user 09": (crowd["user 09"][0], np.full(len(crowd["user 09"][0]), 2.5, np.float32))}
    one, two = (Positions.of(read(way, RATINGS, c, tmp_path)).capped(3) for c in (crowd, other))
    assert same(one, two)


def seen(estimator: Any, case: Case) -> dict[str, Any]:
    """What a fit shows: the names and values of its attributes, its words, and what it recommends."""
    public = {name: value for name, value in vars(estimator).items() if name not in ("model_", "ledger_")}
    items, values = newcomer(case.domain)
    ids = case.domain.ids(items).tolist()
    history = ids if case.feedback == "binary" else dict(zip(ids, values.tolist(), strict=True))
    names, scores = estimator.recommend(history, n=2)
    model = estimator.model_
    return {
        "attributes": {**public, "names": sorted(vars(estimator))},
        "words": [repr(estimator), str(estimator.guarantee_)],
        "recommended": [names.astype(str), scores],
        "model": [model.rule, dict(model.settings), dict(model.arrays), model.domain.to_json()],
    }


@pytest.mark.parametrize("way", ["matrix", "csv"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_method_on_neighbours_with_default_keys(case: Case, way: str, tmp_path: Path) -> None:
    crowd = crowd_of(case.domain)
    rows, keys = rows_of(read(way, case.domain, crowd, tmp_path))
    known: dict[str, Any] = {}
    for name, (adjacency, other) in neighbours(crowd, newcomer(case.domain)).items():
        if adjacency not in known:
            estimator = case.make(adjacency=adjacency)
            known[adjacency] = record(estimator, case.domain, rows, keys, SeededNoise(3)), seen(estimator, case)
        first, shown = known[adjacency]
        again = case.make(adjacency=adjacency)
        assert replay(first, again, case.domain, *rows_of(read(way, case.domain, other, tmp_path))) <= 1.0, name
        assert same(seen(again, case), shown), name


# --- a private catalogue -----------------------------------------------------------------------------------------

SELECTION = PrivateCatalogue(8.0, 0.01, max_items=4, max_catalogue=500)
MANY = lk.Domain(items=[f"film {i:03d}" for i in range(400)], rating_range=(0.5, 5.0))


def collectors() -> Crowd:
    """Sixty users of a dozen films; the first, the middle and the last one alone hold a hundred films each."""
    rng = np.random.default_rng(5)
    crowd: Crowd = {}
    for u in range(60):
        items = np.sort(rng.choice(12, rng.integers(2, 9), replace=False)) * 33
        if u in (0, 29, 59):
            items = np.union1d(items, np.arange(100) * 3 + 1 + u % 2)
        crowd[f"user {u:02d}"] = items.astype(np.int32), np.full(len(items), 3.0, np.float32)
    return crowd


def uncatalogued(way: str, crowd: Crowd, folder: Path) -> Any:
    write, options = FILES[way]
    return read_uncatalogued(write(table(MANY, crowd), folder), **COLUMNS, rating_range=(0.5, 5.0), **options)


class Caught(lk.Billboard):
    """The histogram of a selection, before it is posted."""

    def _release(self, unreleased: Any, line: Any) -> tuple[Any, str]:
        self.histogram = dict(zip(unreleased._keys.tolist(), np.array(unreleased._units).tolist(), strict=True))
        self.statistic = unreleased.statistic
        return super()._release(unreleased, line)


@pytest.mark.parametrize("way", FILES)
def test_a_catalogue_is_selected_from_neighbours(way: str, tmp_path: Path) -> None:
    """Counts move within their bound, and no user brings more keys than the cap that their delta is booked for."""
    crowd = collectors()
    names = list(crowd)
    billboard = Caught(noise=SeededNoise(1))
    ids = SELECTION.select(uncatalogued(way, crowd, tmp_path), billboard)
    before, statistic = billboard.histogram, billboard.statistic
    assert 3 <= len(ids) <= 12
    for gone in (names[0], names[29], names[59], names[7]):
        fewer = {name: row for name, row in crowd.items() if name != gone}
        other = Caught(noise=SeededNoise(2))
        rows = uncatalogued(way, fewer, tmp_path)
        SELECTION.select(rows, other)
        after = other.histogram
        assert len(before.keys() - after.keys()) <= SELECTION.max_items
        assert not after.keys() - before.keys()
        moved = [before[key] - after.get(key, 0) for key in before]
        assert math.sqrt(sum(m * m for m in moved)) * statistic.grid.step <= statistic.sensitivity.add_remove
        whole, rest = (people(part.with_items(ids)) for part in (uncatalogued(way, crowd, tmp_path), rows))
        assert not rest - whole
        assert sum((whole - rest).values()) == 1


@pytest.mark.parametrize("method", [lk.DPBias, lk.DPLMC, lk.DPALS])
def test_selection_and_fit_on_neighbours(method: Any, tmp_path: Path) -> None:
    """The ids that were named on D are public, so the neighbour's fit is on the same ones."""
    crowd = collectors()
    ids = SELECTION.select(uncatalogued("csv", crowd, tmp_path), lk.Billboard(noise=SeededNoise(1)))
    domain = lk.Domain(ids, (0.5, 5.0), expected_users=60)
    make = lambda: method(*SELECTION.rest(), **({} if method is lk.DPBias else {"rank": 2, "n_iter": 2}))
    read_over = lambda c: rows_of(uncatalogued("csv", c, tmp_path).with_items(ids, expected_users=60))
    known = record(make(), domain, *read_over(crowd), SeededNoise(3))
    for gone in (0, 29, 59):
        fewer = {name: row for at, (name, row) in enumerate(crowd.items()) if at != gone}
        assert replay(known, make(), domain, *read_over(fewer)) <= 1.0
