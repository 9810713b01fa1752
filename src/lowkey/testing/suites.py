"""Lab room: the two suites: does an estimator keep the contract, and does it keep its privacy promise?"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from lowkey.privacy.noise import SeededNoise
from lowkey.testing import contract_answers, contract_budget, contract_fit
from lowkey.testing.attackers import BLOCK, THREADS, SizedCase, aligned, gallery, long_rows, sized_keys, sized_rows
from lowkey.testing.cases import N_USERS, Case, Row, base_keys, base_rows
from lowkey.testing.checks import Check
from lowkey.testing.replaying import record, replay
from lowkey.testing.watching import Record, Violation, WatchingEngine

CONTRACT = tuple(
    check
    for module in (contract_fit, contract_answers, contract_budget)
    for check in vars(module).values()
    if isinstance(check, Check)
)
NEWCOMER = 0x5EED_0F_A_57A6E12  # the key of the user who is added
ADJACENCIES = ("add-remove", "replace-one")
# Somebody must come this near to a declared bound, or the attack is none and the bound far too wide.
NEAR_ENOUGH = 0.5


def check_estimator(case: Case) -> list[str]:
    """Every check of the contract that is for such a case. Returns their names; raises at the first that fails.

    Examples
    --------
    >>> import lowkey as lk
    >>> from lowkey.testing import Case, check_estimator
    >>> len(check_estimator(Case(lk.DPBias, "binary", personal=False))) > 20  # doctest: +SKIP
    True
    """
    done = []
    for check in CONTRACT:
        if check.applies(case):
            try:
                check(case)
            except Exception as error:
                error.add_note(f"in the check {check} of {case}")
                raise
            done.append(str(check))
    return done


def check_privacy(case: Case, *, sized: bool = True) -> dict[str, float]:
    """Whole fits, replayed on neighbours with the posts of the first forced upon them, under both adjacencies.

    The neighbours are a gallery of extreme users and users built from the posts themselves, on 16 items; then, if
    ``sized``, users with long rows on a catalogue of 1,030 items, in several blocks and threads. Every record also checks
    the books, and the width of the noise of every post. Returns, by adjacency and size, the largest move of a sum as a
    share of what is declared; raises a ``Violation`` above 1, and where anything public depends on the data.
    """
    largest: dict[str, float] = {}
    for adjacency in ADJACENCIES:
        largest[adjacency] = _small(case, adjacency)
        if largest[adjacency] < NEAR_ENOUGH:
            raise Violation(
                f"{case}, {adjacency}: nobody moves a sum by more than {largest[adjacency]:.3g} of what is declared: "
                "the bound is far too wide, or a small configuration does not reach it"
            )
        if sized:
            largest[f"{adjacency}, sized"] = _sized(case, adjacency)
    return largest


def neighbour(
    rows: list[Row], keys: np.ndarray, row: Row, adjacency: str, place: int, key: int = NEWCOMER
) -> tuple[list[Row], np.ndarray]:
    """D with ``row`` put in at ``place``; under replace-one it takes the place of the user there."""
    if adjacency == "add-remove":
        return [*rows[:place], row, *rows[place:]], np.insert(keys, place, np.uint64(key))
    changed = keys.copy()
    changed[place] = key
    return [*rows[:place], row, *rows[place + 1 :]], changed


def _small(case: Case, adjacency: str) -> float:
    rows, keys = base_rows(case.domain), base_keys()
    known = record(case.make(adjacency=adjacency), case.domain, rows, keys, SeededNoise(11))
    users = [*gallery(case.domain, rows).values(), *(row for _, row in aligned(case.domain, known))]
    places = itertools.cycle([0, N_USERS // 2, N_USERS - 1])
    return max(_replayed(case, known, neighbour(rows, keys, row, adjacency, next(places))) for row in users)


def _sized(case: Case, adjacency: str) -> float:
    large = SizedCase(case.estimator, case.feedback, case.settings)
    rows, keys = sized_rows(case.feedback), sized_keys()
    engine = WatchingEngine(BLOCK, threads=THREADS)
    known = record(large.make(adjacency=adjacency), large.domain, rows, keys, SeededNoise(11), engine)
    places = itertools.cycle([0, len(rows) // 2, len(rows) - 1])
    return max(
        _replayed(large, known, neighbour(rows, keys, row, adjacency, next(places)), THREADS)
        for row in long_rows(case.feedback).values()
    )


def _replayed(case: Case, known: Record, data: tuple[list[Row], np.ndarray], threads: int = 1) -> float:
    estimator: Any = case.make(adjacency=known.adjacency)
    return replay(known, estimator, case.domain, *data, threads)
