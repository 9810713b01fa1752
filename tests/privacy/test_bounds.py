"""Every statistic of every sweep, on the whole numbers that one user adds: within what is declared, exactly.

The sweeps are those that fits of the tables really run, with the public values that they were given; then the same with
fields that no fit would have (weights of 1e-162, bounds of 1e200, no numbers at all).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from adversaries import gallery, generated_crowds
from bounds import added_by, allowed_power, assert_within, norm_power, share, sum_of_squares
from estimators import CASES, DOMAINS, Case, Row, as_row, base_keys, base_rows, ratings_of
from hypothesis import given, settings
from hypothesis import strategies as st
from replay import Call, RecordingBillboard, WatchingEngine
from sized import BLOCK, N_ITEMS, SIZED_CASES, THREADS, long_rows, sized_keys, sized_rows, some_user
from test_replay_values import with_other_values

import lowkey as lk
import lowkey.kernels
from lowkey.data.positions import Positions
from lowkey.data.ratings import Block
from lowkey.data.trace import RecordBlock
from lowkey.kernels.als import ItemEquations
from lowkey.kernels.catalogue import Holders
from lowkey.kernels.left_out import LeftOutRows, OfSome
from lowkey.kernels.one_bit import ClampedGradient, Minimiser
from lowkey.kernels.sweep import Sweep
from lowkey.linalg.links import link_of
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

NEWCOMER = 0x5EED_0F_A_57A6E12
STARTS = [  # ways to begin a fit that the table does not take
    Case(lk.DPALS, "binary", {"rank": 3, "n_iter": 1, "start": "spectral"}, note="spectral"),
    Case(lk.DPLMC, "ratings", {"rank": 3, "n_iter": 2, "start": "random"}, note="random"),
]
BASELINE = Case(lk.Bias, "ratings", {"n_iter": 1}, note="baseline")  # its sweeps have bounds as all others
SMALL = [*CASES, *STARTS, BASELINE]
OF_A_USER = {"unit": "user", "max_ratings": 5}
ONE_BIT: dict[str, dict[str, Any]] = {
    "input": {"perturbation": "input"},
    "input, user": {"perturbation": "input", **OF_A_USER},
    "objective": {"perturbation": "objective"},
    "objective, gaussian, user": {"perturbation": "objective", "delta": 1e-6, **OF_A_USER},
    "gradient": {"perturbation": "gradient", "n_iter": 3},
    "gradient, probit, gaussian": {"perturbation": "gradient", "n_iter": 3, "link": "probit", "delta": 1e-6},
    "gradient, user": {"perturbation": "gradient", "n_iter": 2, **OF_A_USER},
}


def calls_of(estimator: Any, data: Any, engine: WatchingEngine) -> list[Call]:
    estimator.fit(data, engine=engine, billboard=RecordingBillboard(SeededNoise(11), engine))
    return engine.calls


@cache
def small_calls(case: Case) -> list[Call]:
    return calls_of(case.make(), ratings_of(case.domain, base_rows(case.domain), base_keys()), WatchingEngine())


@cache
def sized_calls(case: Case) -> list[Call]:
    data = ratings_of(case.domain, sized_rows(case.feedback), sized_keys())
    return calls_of(case.make(), data, WatchingEngine(BLOCK, threads=THREADS))


@cache
def one_bit_calls(name: str) -> list[Call]:
    domain = DOMAINS["ratings"]
    data = ratings_of(domain, base_rows(domain), base_keys())
    return calls_of(lk.DPOneBit(1.0, **ONE_BIT[name]), data, WatchingEngine(1000))


@cache
def trace_calls(kind: str) -> list[Call]:
    from test_trace_replay import as_kind, crowd, estimator, recorded

    X, y = crowd()
    return recorded(estimator(), as_kind(X, kind), y).calls


def block_of(rows: list[Row], keys: Any) -> Block:
    offsets = np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])]).astype(np.int64)
    items, values = (np.concatenate([row[side] for row in rows]) for side in (0, 1))
    return Block(offsets, items.astype(np.int32), values.astype(np.float32), np.asarray(keys, np.uint64))


def attack(calls: list[Call], rows: list[Row], threads: int = 1) -> dict[str, list[float]]:
    """What each user adds to each statistic of each call, measured; and, by name, every user's largest share."""
    shares: dict[str, list[float]] = {}
    blocks = [block_of([row], [NEWCOMER + i]) for i, row in enumerate(rows)]
    kept: list[list[Any]] = []
    for at, call in enumerate(calls):
        local = [None] * len(rows) if call.local_from is None else kept[call.local_from]
        found = [added_by(call.sweep, b, own, threads) for b, own in zip(blocks, local, strict=True)]
        kept.append([own for _, own in found])
        for statistic in call.statistics:
            parts = [sums[statistic.name] for sums, _ in found]
            assert_within(statistic, parts, f"sweep {at} ({statistic.name})")
            alone = [share(statistic, part, "add-remove") for part in parts]
            shares[statistic.name] = np.maximum(alone, shares.get(statistic.name, 0.0)).tolist()
    return shares


# Every sweep has a case ------------------------------------------------------------------------------------------------
def sweeps() -> set[type[Sweep]]:
    """All that the package has, once its kernels are loaded."""
    for module in pkgutil.iter_modules(lowkey.kernels.__path__):
        importlib.import_module(f"lowkey.kernels.{module.name}")

    def below(kind: type[Sweep]) -> Iterator[type[Sweep]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    return {kind for kind in below(Sweep) if kind.__module__.startswith("lowkey.") and not inspect.isabstract(kind)}


def minimiser() -> Minimiser:
    """No sum over users, so that what one of them adds is not to be had: whole crowds are compared."""
    domain = DOMAINS["ratings"]
    positions = Positions.of(ratings_of(domain, base_rows(domain), base_keys()))
    bounds: Any = {"entry_bound": 1.0, "radius": 8.0, "ridge": 0.3, "norm": "l2"}
    return Minimiser(positions=positions, threshold=2.75, link=link_of("logistic"), **bounds)


def test_every_sweep_has_a_case() -> None:
    """A new sweep without a row in a table is not measured by anything: this fails until it has one."""
    attacked = [call for case in SMALL for call in small_calls(case)]
    attacked += [call for name in ONE_BIT for call in one_bit_calls(name)] + trace_calls("dense")
    # test_catalogue.py attacks Holders: its sums are by id, and codes shift with whoever leaves; and test_level_bounds.py
    # what the non-private ALS chooses its ridges by, one of them within the other
    elsewhere = {type(minimiser()), Holders, OfSome, LeftOutRows}
    assert sweeps() == {type(call.sweep) for call in attacked} | elsewhere


# Users -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_no_user_is_beyond_a_bound(case: Case) -> None:
    calls = small_calls(case)
    attack(calls, list(gallery(case.domain, base_rows(case.domain)).values()))

    @settings(max_examples=15)
    @given(generated_crowds(case.domain, 6))
    def generated(crowd: np.ndarray) -> None:
        attack(calls, [as_row(case.domain, user) for user in crowd])

    generated()


# Rows of these are scaled to norm 1, whoever the user is; the rest is truncation.
NORMALISED = ("rated_gram", "row_gram", "co_ratings", "item_counts")


@pytest.mark.parametrize("case", SIZED_CASES, ids=str)
def test_no_long_row_is_beyond_a_bound(case: Case) -> None:
    """And none is dropped: the clip alone brings every user of a sane fit inside, so that the second look never bites."""
    users = long_rows(case.feedback)
    calls = sized_calls(case)
    shares = attack(calls, list(users.values()), THREADS)
    for name, of_users in shares.items():
        found = dict(zip(users, of_users, strict=True))
        assert found["everything, alternating"] > 0.0, name
        assert found["calm, then loud beyond 256"] > 0.0, name
        if name in NORMALISED:
            assert all(part > 0.99 for user, part in found.items() if len(users[user][0]) > 1), (name, found)
    rng = np.random.default_rng(3)

    @settings(max_examples=3)
    @given(st.lists(st.tuples(st.integers(0, N_ITEMS), st.integers(0, 1)), min_size=3, max_size=3))
    def generated(kinds: list[tuple[int, int]]) -> None:
        attack(calls, [some_user(case.domain, count, taste, rng) for count, taste in kinds], THREADS)

    generated()


def test_who_has_more_than_the_cap_counts_with_the_rarest() -> None:
    case = next(case for case in SIZED_CASES if case.note == "sampled")
    cap, everything = case.settings["max_ratings"], long_rows("ratings")["everything, alternating"]
    rounds = [call.sweep for call in sized_calls(case) if isinstance(call.sweep, ItemEquations)]
    assert rounds
    for sweep in rounds:
        sums, _ = added_by(sweep, block_of([everything], [1]))
        for name in sweep.names[:2]:
            touched = np.flatnonzero(sums[name].any(axis=1))
            assert len(touched) > 0.9 * cap  # of some of the items the truncated share is 0
            assert set(touched) <= set(np.argsort(sweep.rarity)[:cap]), name


def test_weights_have_norm_one_along_the_whole_row() -> None:
    """With a factor of norm 1 the stack of a user's matrices has norm 1, however long the row."""
    case = next(case for case in SIZED_CASES if case.note == "weights")
    sweep = next(call.sweep for call in sized_calls(case) if isinstance(call.sweep, ItemEquations))
    sweep = replace(sweep, item_factors=sweep.item_factors * 1e-3, user_reg=1e-9)  # so that the users' are huge
    weights, gram = sweep.item_weights, sweep.statistics[0]
    for name, row in long_rows("ratings").items():
        if len(row[0]) > 128 and np.ptp(row[1]) > 0.0:
            sums, _ = added_by(sweep, block_of([row], [1]), threads=THREADS)
            assert share(gram, sums[gram.name], "add-remove") > 0.99, name
            traces = _traces(sums[gram.name], gram.order)[row[0]]
            expected = weights[row[0]] / np.linalg.norm(weights[row[0]])
            assert np.allclose(traces * gram.grid.step, expected, rtol=0.02, atol=1e-4), name


@pytest.mark.parametrize("factor", [1.7e-162, 5e-162, 1e-161])
def test_weights_whose_squares_underflow(factor: float) -> None:
    """Again with a factor of norm 1, so that nothing but the weights keeps the stack inside."""
    case = next(case for case in CASES if str(case) == "DPALS-ratings-weights")
    sweep = next(call.sweep for call in small_calls(case) if isinstance(call.sweep, ItemEquations))
    tiny, small = sweep.item_weights * factor, sweep.item_factors * 1e-3
    sweep = replace(sweep, item_weights=tiny, item_factors=small, user_reg=1e-9)
    rows = gallery(case.domain, base_rows(case.domain)).values()
    for statistic in sweep.statistics:
        parts = [added_by(sweep, block_of([row], [1]))[0][statistic.name] for row in rows]
        assert_within(statistic, parts, statistic.name)


def _traces(packed: np.ndarray, order: int) -> np.ndarray:
    return packed[:, [a * order - a * (a - 1) // 2 for a in range(order)]].sum(axis=1).astype(np.float64)


# Values, and records ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ONE_BIT)
def test_no_values_are_further_apart_than_declared(name: str) -> None:
    """Who rated what is public; the values of the unit (one rating, or one user) differ."""
    rows, rng = base_rows(DOMAINS["ratings"]), np.random.default_rng(8)
    unit = ONE_BIT[name].get("unit", "rating")
    crowds = [rows, *(with_other_values(rows, unit, rng) for _ in range(60))]
    for call in one_bit_calls(name):
        for statistic in call.statistics:
            parts = [added_by(call.sweep, block_of(c, base_keys()))[0][statistic.name] for c in crowds]
            for part in parts[1:]:
                assert share(statistic, part - parts[0], "replace-one") <= 1.0, statistic.name
            assert max(share(statistic, part - parts[0], "replace-one") for part in parts) > 0.5


@pytest.mark.parametrize("gradient_bound", [0.5, 50.0])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_scores_break_the_bound_on_a_gradient(gradient_bound: float) -> None:
    """Scores that no posted gradient would lead to: large, uneven, no numbers."""
    rows, rng = base_rows(DOMAINS["ratings"]), np.random.default_rng(10)
    crowds = [rows, *(with_other_values(rows, "rating", rng) for _ in range(20))]
    sweep = one_bit_calls("gradient, probit, gaussian")[-1].sweep
    assert isinstance(sweep, ClampedGradient)
    sweep = replace(sweep, gradient_bound=gradient_bound, scores=np.linspace(-1.0, 1.0, len(sweep.scores)))
    for factor in (1.0, 3.0, *EXTREMES):
        wild = replace(sweep, scores=sweep.scores * factor)
        (statistic,) = wild.statistics
        parts = [added_by(wild, block_of(crowd, base_keys()))[0][statistic.name] for crowd in crowds]
        for part in parts[1:]:
            assert share(statistic, part - parts[0], "replace-one") <= 1.0, factor


def test_no_minimisers_are_further_apart_than_declared() -> None:
    sweep = minimiser()
    rows, rng, (statistic,) = base_rows(DOMAINS["ratings"]), np.random.default_rng(9), sweep.statistics
    crowds = [rows, *(with_other_values(rows, "rating", rng) for _ in range(12))]
    parts = [added_by(sweep, block_of(crowd, base_keys()))[0][statistic.name] for crowd in crowds]
    moved = [share(statistic, part - parts[0], "replace-one") for part in parts]
    assert 0.0 < max(moved) <= 1.0


@pytest.mark.parametrize("kind", ["dense", "sparse", "low-rank"])
def test_no_record_is_beyond_a_bound(kind: str) -> None:
    from test_trace_replay import SHAPE, as_kind, crowd, estimator
    from test_trace_replay import gallery as records_of

    model = estimator()
    model.fit(*crowd())
    records = [*records_of(model.path_)[::3], (np.full(SHAPE, 1e-162), 1e155), (np.full(SHAPE, 1e160), 1e-160)]
    for call in trace_calls(kind):
        for statistic in call.statistics:
            blocks = [RecordBlock(as_kind(x[None], kind), np.array([y]), 0) for x, y in records]
            parts = [added_by(call.sweep, block)[0][statistic.name] for block in blocks]
            assert assert_within(statistic, parts, statistic.name) > 0.9


# Settings that no fit would have ---------------------------------------------------------------------------------------
EXTREMES = (0.0, 1e-320, 1e-200, 1.7e-162, 1e-161, 1e-155, 1e-20, 1e20, 1e154, 1e160, 1e200, 1e300, np.inf, np.nan, -1.0)


def absurd(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The sweep with one number or array among its fields, however deep, times something extreme, whole or in half."""
    if isinstance(value, float):
        for factor in EXTREMES:
            yield f"{name} * {factor}", value * factor
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
        for factor in EXTREMES:
            yield f"{name} * {factor}", value * factor
            half = value.copy()
            half.reshape(-1)[::2] *= factor
            yield f"half of {name} * {factor}", half
    elif isinstance(value, Sweep):
        for field in fields(value):  # type: ignore[arg-type]
            for change, part in absurd(getattr(value, field.name), f"{name}.{field.name}"):
                yield change, replace(value, **{field.name: part})  # type: ignore[type-var]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            for change, part in absurd(getattr(value, field), f"{name}.{field}"):
                yield change, value._replace(**{field: part})


def measured(sweep: Any, local: Any) -> tuple[Statistic, ...]:
    """The statistics that a mechanism could noise; none where a bound is no positive number or its grid does not exist."""
    nobody = block_of([(np.zeros(0, np.int32), np.zeros(0, np.float32))], [1])
    try:
        found = sweep.statistics
        added_by(sweep, nobody, local)
    except (ValueError, OverflowError, ZeroDivisionError):
        return ()  # the setting is refused whatever the data are
    return tuple(s for s in found if s.sensitivity.add_remove > 0.0 and s.sensitivity.replace_one < np.inf and s.grid.step)


def kept_before(calls: list[Call], call: Call, block: Block) -> Any:
    """What a user brings to a sweep: kept from the sweeps before, in turn."""
    if call.local_from is None:
        return None
    before = calls[call.local_from]
    return added_by(before.sweep, block, kept_before(calls, before, block))[1]


def first_and_last(calls: list[Call]) -> list[Call]:
    """Of every kind of sweep: what is posted may leave a later one with nothing, as where tastes are not heard."""
    found = [{(type(c.sweep), c.local_from is None): c for c in way}.values() for way in (calls[::-1], calls)]
    return list({id(call): call for calls in found for call in calls}.values())


COUNTING = ("DPBias-binary", "DPLists-binary-too few for tastes")  # from the size of the catalogue and places alone
WITH_NUMBERS = [case for case in SMALL if str(case) not in COUNTING]


@pytest.mark.parametrize("case", WITH_NUMBERS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_setting_breaks_a_bound(case: Case) -> None:
    users = gallery(case.domain, base_rows(case.domain))
    rows = [users[name] for name in ("everything, alternating", "one rating, high", "a few, alternating", "a ladder")]
    blocks = [block_of([row], [NEWCOMER + i]) for i, row in enumerate(rows)]
    calls, tried = small_calls(case), 0
    for call in first_and_last(calls):
        local = [kept_before(calls, call, block) for block in blocks]
        for change, sweep in absurd(call.sweep):
            statistics = measured(sweep, local[0])
            found = [added_by(sweep, b, own)[0] for b, own in zip(blocks, local, strict=True)] if statistics else []
            for statistic in statistics:  # and no user has raised anything
                assert_within(statistic, [sums[statistic.name] for sums in found], f"{statistic.name}, {change}")
                tried += 1
    assert tried > 20


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_are_found_however_deep() -> None:
    """In what users are told to do next, in what was posted before, in a sweep within a sweep."""
    wanted = {".move.pull", ".move.size", ".move.user_map", ".walk.directions", ".walk.ridge", ".moments.prior", ".prior"}
    calls = [call for case in SMALL for call in small_calls(case)]
    assert wanted <= {change.partition(" * ")[0] for call in calls for change, _ in absurd(call.sweep)}


# The checker itself ----------------------------------------------------------------------------------------------------
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_sums_of_squares_are_exact(units: list[int]) -> None:
    assert sum_of_squares(np.array(units, np.int64)) == sum(unit * unit for unit in units)


def test_one_unit_too_many_is_seen() -> None:
    """At 2^61 units, where a float64 would not see it."""
    statistic = Statistic("x", (2,), Grid(0), Sensitivity.of_vectors(5.0 * 2.0**59), 1)
    full = np.array([3 << 59, 4 << 59])
    assert norm_power(statistic, full) == allowed_power(statistic, "add-remove")
    assert share(statistic, full, "add-remove") == 1.0
    assert share(statistic, full + np.array([1, 0]), "add-remove") > 1.0
    with pytest.raises(AssertionError, match="user 1 adds"):
        assert_within(statistic, [full, full + np.array([0, 1])], "x")
    with pytest.raises(AssertionError, match="users 0 and 1 are"):
        assert_within(statistic, [full, -full - np.array([0, 1])], "x", alone=False)


def test_a_symmetric_matrix_is_measured_as_a_whole() -> None:
    statistic = Statistic("x", (3,), Grid(0), Sensitivity.of_acute_vectors(5.0), 1, "symmetric")
    assert norm_power(statistic, np.array([3, 2, 2])) == 3**2 + 2 * 2**2 + 2**2
