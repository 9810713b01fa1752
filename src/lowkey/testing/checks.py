"""Lab room: what a check of the contract is, and what several of them need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from lowkey.engines.local import LocalEngine
from lowkey.testing.cases import N_ITEMS, Case, base_ratings


@dataclass(frozen=True)
class Check:
    """A function of a case that raises where the contract is broken, and the cases that it is for."""

    run: Callable[[Case], None]
    applies: Callable[[Case], bool]

    def __call__(self, case: Case) -> None:
        self.run(case)

    def __str__(self) -> str:
        return self.run.__name__


def every(run: Callable[[Case], None]) -> Check:
    return Check(run, lambda case: True)


def private(run: Callable[[Case], None]) -> Check:
    return Check(run, lambda case: case.private)


def baselines(run: Callable[[Case], None]) -> Check:
    return Check(run, lambda case: not case.private)


def twins(run: Callable[[Case], None]) -> Check:
    """For private methods that have a non-private baseline."""
    return Check(run, lambda case: case.private and case.baseline is not None)


@cache
def fitted(case: Case) -> Any:
    return case.make().fit(base_ratings(case.domain), engine=LocalEngine(n_jobs=1))


def csr_of(rows: list[Any]) -> Any:
    indptr = np.concatenate([[0], np.cumsum([len(items) for items, _ in rows])])
    items = np.concatenate([np.zeros(0, np.int32), *(items for items, _ in rows)])
    values = np.concatenate([np.zeros(0), *(values for _, values in rows)])
    return scipy.sparse.csr_array((values, items, indptr), shape=(len(rows), N_ITEMS))


def history_of(case: Case, row: Any) -> dict[Any, float]:
    items, values = row
    return dict(zip(case.domain.ids(items).tolist(), values.tolist(), strict=True))


@contextmanager
def refuses(kind: type[Exception], says: str) -> Iterator[None]:
    """The block raises ``kind`` with a message in which the pattern ``says`` is found."""
    try:
        yield
    except kind as error:
        said = str(error)
    else:
        raise AssertionError(f"nothing was refused, needed {kind.__name__} with {says!r}")
    assert re.search(says, said), f"{kind.__name__} says {said!r}, needed {says!r}"
