"""The engine: the same sums to the bit for any block size and any number of threads, for every method of the table."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from estimators import CASES, Case, base_keys, base_rows, ratings_of
from kept import KeepingBillboard
from numba import get_num_threads

import lowkey as lk
from lowkey.engines.local import EXACT, LocalState, block_users
from lowkey.errors import ClosedError, InputError
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

N_USERS = 61
THREADS = [1, 2]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_are_identical_for_any_blocks_and_threads(case: Case) -> None:
    if get_num_threads() < max(THREADS):
        pytest.skip("numba was given one thread only (NUMBA_NUM_THREADS)")
    data = ratings_of(case.domain, base_rows(case.domain, N_USERS), base_keys(N_USERS))
    seen = {}
    sizes = [N_USERS, 100_000] if case.one_block else [1, 7, 1000, N_USERS]
    for block_size in sizes:
        for threads in THREADS:
            billboard = KeepingBillboard()
            engine = lk.LocalEngine(n_jobs=threads, block_size=block_size)
            model = case.make().fit(data, engine=engine, billboard=billboard).model_
            arrays = {name: array.tobytes() for name, array in model.arrays.items()}
            seen[block_size, threads] = (billboard.opened, arrays)
    first = seen[sizes[0], 1]
    assert first[0]
    for where, found in seen.items():
        assert found == first, where


@pytest.mark.parametrize("case", [case for case in CASES if case.protects == "users"], ids=str)
def test_the_order_of_the_users_does_not_matter(case: Case) -> None:
    """Rows shuffled together with their keys: the same bits."""
    rows, keys = base_rows(case.domain, N_USERS), base_keys(N_USERS)
    order = np.random.default_rng(1).permutation(N_USERS)
    kept = []
    for some_rows, some_keys in ((rows, keys), ([rows[u] for u in order], keys[order])):
        billboard = KeepingBillboard()
        case.make().fit(ratings_of(case.domain, some_rows, some_keys), engine=lk.LocalEngine(1, 50), billboard=billboard)
        kept.append(billboard.opened)
    assert kept[0] == kept[1]


class Remembering(Sweep):
    """A pass whose users keep their own key, with a peak that forces small blocks if asked."""

    keeps_state = True

    def __init__(self, peak_units: int) -> None:
        self.peak_units = peak_units

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return (Statistic("x", (1,), Grid(0), Sensitivity.of_vectors(1.0), self.peak_units),)

    def run(self, block: Any, local: Any, sums: Any) -> Any:
        if local is not None:
            assert np.array_equal(local, block.keys)
        return block.keys.copy()


def test_local_state_stays_with_its_users() -> None:
    case = CASES[0]
    data = ratings_of(case.domain, base_rows(case.domain, 50), base_keys(50))
    engine = lk.LocalEngine(n_jobs=1, block_size=16)
    _, local = engine.sweep(Remembering(1), data)
    engine.sweep(Remembering(1), data, local)
    # A peak that leaves room for four users in a block: another cut, and somebody else's state.
    with pytest.raises(TypeError, match="same block size"):
        engine.sweep(Remembering(EXACT // 4), data, local)


class Forgetful(Remembering):
    keeps_state = False


def test_a_sweep_must_say_that_users_keep_something() -> None:
    """Engines that hold it on disk or on a cluster make room for it before the pass."""
    case = CASES[0]
    data = ratings_of(case.domain, base_rows(case.domain, 5), base_keys(5))
    with pytest.raises(TypeError, match="keeps_state of Forgetful"):
        lk.LocalEngine(1).sweep(Forgetful(1), data)


def test_local_state_is_closed() -> None:
    state = LocalState(3)
    state.keep(np.arange(3))
    assert repr(state) == "LocalState(closed)"
    with pytest.raises(ClosedError):
        pickle.dumps(state)


def test_blocks_are_small_enough_for_exact_floats() -> None:
    def statistic(peak: int) -> Statistic:
        return Statistic("x", (1,), Grid(0), Sensitivity.of_vectors(1.0), peak)

    assert block_users((statistic(1),), 1000) == 1000
    assert block_users((statistic(2**50), statistic(3)), 1000) == 8
    assert block_users((statistic(2**60),), 1000) == 1


@pytest.mark.parametrize("settings", [{"n_jobs": 0}, {"n_jobs": 10_000}, {"block_size": 0}])
def test_senseless_engines_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InputError, match="LocalEngine"):
        lk.LocalEngine(**settings)
