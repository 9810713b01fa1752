"""The private selection of a catalogue: its bound, attacked with neighbours, and its threshold, attacked by lone items."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import lowkey as lk
from lowkey.data.columns import ColumnNames, to_uncatalogued
from lowkey.data.domain import Scale
from lowkey.errors import InputError
from lowkey.kernels.catalogue import Holders
from lowkey.methods.catalogue import PrivateCatalogue

CAP = 1000


def rows_of(people: dict[str, list[str]]) -> Any:
    users = [user for user, items in people.items() for _ in items]
    items = [item for held in people.values() for item in held]
    table = {"user": pa.chunked_array([users]), "item": pa.chunked_array([items])}
    return to_uncatalogued(table, ColumnNames("user", "item", None), Scale("binary"), "error")


def sums_of(people: dict[str, list[str]], max_items: int) -> dict[str, float]:
    sums, _ = lk.LocalEngine(1, block_size=7).sweep(Holders(max_items, CAP), rows_of(people))
    closed: Any = sums["catalogue"]
    step = closed.statistic.grid.step
    return dict(zip(closed._keys.tolist(), (closed._open() * step).tolist(), strict=True))


def distance(a: dict[str, float], b: dict[str, float]) -> float:
    return math.sqrt(sum((a.get(key, 0.0) - b.get(key, 0.0)) ** 2 for key in {*a, *b}))


def crowd(seed: int) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    return {
        f"u{u:02d}": [f"item {i:03d}" for i in rng.choice(60, size=rng.integers(1, 40), replace=False) + 20]
        for u in range(25)
    }


# Users whose items sort before, between and after those of the others, so that every code shifts when they leave.
ADVERSARIES = {
    "one item": ["item 050"],
    "all items": [f"item {i:03d}" for i in range(100)],
    "alone at the front": [f"item 0{i:02d}x" for i in range(19)],
    "alone everywhere": [f"item {i:03d}y" for i in range(0, 100, 3)],
    "at the cap": [f"item {i:03d}" for i in range(9)],
    "one above the cap": [f"item {i:03d}" for i in range(10)],
}


@pytest.mark.parametrize("adversary", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize("max_items", [3, 9, 100])
def test_no_user_moves_the_counts_further_than_declared(adversary: list[str], max_items: int) -> None:
    sensitivity = Holders(max_items, CAP).statistics[0].sensitivity
    for seed in range(3):
        people = crowd(seed)
        before = sums_of(people, max_items)
        with_adversary = sums_of({**people, "eve": adversary}, max_items)
        moved = distance(before, with_adversary)
        assert moved <= sensitivity.add_remove
        assert moved > 0.999  # the bound is used up: a smaller one would be wrong
        for other in ADVERSARIES.values():
            replaced = sums_of({**people, "eve": other}, max_items)
            assert distance(with_adversary, replaced) <= sensitivity.replace_one


def test_the_choice_of_items_depends_on_ids_alone() -> None:
    """Each user's own part stays to the bit when others come and go and when rows are shuffled."""
    people = crowd(7)
    alone = {user: sums_of({user: items}, 4) for user, items in people.items()}
    together = sums_of(people, 4)
    assert together == pytest.approx({k: sum(part.get(k, 0.0) for part in alone.values()) for k in together}, abs=1e-12)
    shuffled = {user: items[::-1] for user, items in reversed(people.items())}
    assert sums_of(shuffled, 4) == together


def test_different_users_choose_differently() -> None:
    items = [f"item {i:03d}" for i in range(60)]
    chosen = [frozenset(k for k, v in sums_of({user: items}, 5).items() if v > 0) for user in ("a", "b", "c", "d")]
    assert all(len(c) == 5 for c in chosen)
    assert len(set(chosen)) == 4


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 20.0])
def test_selection_and_fit_together_cost_what_was_asked(epsilon: float, adjacency: Any) -> None:
    selection = PrivateCatalogue(epsilon, 1e-6, adjacency)
    rest = lk.DPBias(*selection.rest(), adjacency).plan(lk.Domain(5000, (1.0, 5.0)))
    ledger = lk.Ledger()
    for plan in (selection.plan(), rest):
        ledger.add_plan(plan)
        for line in plan.lines:
            for _ in range(line.times):
                ledger.reserve(line, {}, noise_is_private=True)
    total = ledger.guarantee()
    assert total.delta == 1e-6
    assert 0.999 * epsilon <= total.epsilon <= epsilon


def test_items_of_one_user_alone_are_not_named() -> None:
    """The selection's delta, at a value that can be seen: 200 lone items, each with a chance of delta/items of passing.

    300 selections at delta_share * delta = 0.025 name a lone item 7.5 times on average; 23 or more has a chance of 5e-6.
    """
    people = {f"u{u}": ["shared"] for u in range(3000)} | {"eve": [f"lone {i}" for i in range(200)]}
    rows = rows_of(people)
    selection = PrivateCatalogue(2.0, 0.05, delta_share=0.5, max_items=200, max_catalogue=1000)
    betrayed = 0
    for _ in range(300):
        named = selection.select(rows, lk.Billboard()).tolist()
        assert "shared" in named
        betrayed += any(name.startswith("lone") for name in named)
    assert betrayed < 23


class ManyRuns(lk.Billboard):
    """One real selection, whose post is drawn 10,000 times over: the noise of the runs is independent, as its keys' is."""

    runs, betrayed = 10_000, 0

    def _release(self, unreleased: Any, line: Any) -> tuple[Any, str]:
        lone = np.array([str(key).startswith("lone") for key in unreleased._keys])
        for _ in range(self.runs // 1000):
            units = np.tile(unreleased._units, (1000, 1))
            noisy = line.mechanism.apply(units, unreleased.statistic, "add-remove", self.noise)
            self.betrayed += int((~np.isnan(noisy[:, lone])).any(axis=1).sum())
        return super()._release(unreleased, line)


@pytest.mark.parametrize(("epsilon", "max_items", "tight"), [(2.0, 4, True), (16.0, 16, False)])
def test_a_hundred_times_the_cap_of_lone_items_costs_the_booked_delta(epsilon: float, max_items: int, tight: bool) -> None:
    """10,000 runs, Clopper-Pearson bounds with an error of 1e-6 each.

    At epsilon 2 the booked chance is met exactly, so the lower bound exceeds it in one of 10^6 tests. At epsilon 16 the
    booking is for a user with one item and this one costs a quarter of it (0.0063 of 0.025): there the upper bound must be
    below it, and fails to be with a chance below 1e-30.
    """
    people = {f"u{u}": ["shared"] for u in range(60)} | {"eve": [f"lone {i}" for i in range(100 * max_items)]}
    selection = PrivateCatalogue(epsilon, 0.05, delta_share=0.5, max_items=max_items, max_catalogue=5000)
    (line,) = selection.plan().lines
    booked = line.mechanism.own_delta
    assert booked == pytest.approx(0.025, rel=1e-9)
    billboard = ManyRuns()
    selection.select(rows_of(people), billboard)
    k, n = billboard.betrayed, billboard.runs
    lower = 0.0 if k == 0 else float(stats.beta.ppf(1e-6, k, n - k + 1))
    upper = 1.0 if k == n else float(stats.beta.ppf(1.0 - 1e-6, k + 1, n - k))
    print(f"{k} of {n} runs name a lone item: between {lower:.4f} and {upper:.4f}; booked {booked:.4f}")
    assert (lower if tight else upper) <= booked


def test_what_comes_out_is_sorted_and_fits() -> None:
    people = {f"u{u}": [f"film {(u + j) % 9}" for j in range(4)] for u in range(4000)}
    billboard = lk.Billboard()
    selection = PrivateCatalogue(2.0, 1e-5)
    rows = rows_of(people)
    ids = selection.select(rows, billboard)
    assert ids.tolist() == [f"film {i}" for i in range(9)]
    model = lk.DPBias(*selection.rest()).fit(rows.with_items(ids), billboard=billboard)
    assert model.guarantee_.epsilon <= 2.0
    assert [plan.method for plan in model.ledger_.plans()] == ["PrivateCatalogue", "DPBias"]


def test_nothing_to_name_is_an_error_without_values() -> None:
    with pytest.raises(InputError, match="no item that stands clear") as caught:
        PrivateCatalogue(0.5, 1e-6).select(rows_of({"zebra": ["canary"]}), lk.Billboard())
    assert "canary" not in str(caught.value)
    assert "zebra" not in str(caught.value)


def test_more_items_than_the_cap_are_refused() -> None:
    with pytest.raises(InputError, match="public cap"):
        lk.LocalEngine(1).sweep(Holders(5, 2), rows_of({"a": ["1", "2", "3"]}))
