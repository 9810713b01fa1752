"""Vault room: the engine's one verb, and what every engine does with a block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads

from lowkey.kernels.sweep import Sums, Sweep
from lowkey.privacy.sums import Statistic, Unreleased, UnreleasedHistogram
from lowkey.threads import one_blas_thread

EXACT = 2**53  # float64 holds every integer up to here


class Engine(ABC):
    """Runs sweeps over private data. What it returns is closed; nothing else leaves it."""

    @abstractmethod
    def sweep(self, sweep: Sweep, data: Any, local: Any = None) -> tuple[dict[str, Unreleased], Any]:
        """One pass over all users: the closed sums by name, and the users' new local state, closed too.

        The sums are the same to the bit for every engine and every way of cutting the data: contributions are whole
        numbers of grid units, and they are added in int64, which wraps around and so has one answer in any order.
        """


def block_users(statistics: tuple[Statistic, ...], wanted: int) -> int:
    """How many users a block may hold so that its float64 partial sums are exact. Public."""
    return max(1, min([wanted, *(EXACT // max(1, s.peak_units) for s in statistics)]))


def no_sums(statistics: tuple[Statistic, ...]) -> Sums:
    """Where a sweep starts from."""
    return {s.name: np.zeros(s.shape, np.int64) for s in statistics}


def closed(sums: Sums, statistics: tuple[Statistic, ...], data: Any) -> dict[str, Unreleased]:
    """What a sweep returns: a histogram, whose keys are private too, together with the ids that its places stand for."""
    found: dict[str, Unreleased] = {}
    for s in statistics:
        if s.max_keys is None:
            found[s.name] = Unreleased(s, sums[s.name])
        else:
            ids = data._open_ids()
            found[s.name] = UnreleasedHistogram(s, sums[s.name][: len(ids)], ids.to_numpy(zero_copy_only=False))
    return found


def check_kept(sweep: Sweep, kept: Any) -> None:
    """An engine plans for what users keep before it runs a sweep, so the sweep must have said so."""
    if (kept is not None) != sweep.keeps_state:
        raise TypeError(f"keeps_state of {type(sweep).__name__} does not say what its run does")


@contextmanager
def kernel_threads(count: int) -> Generator[None]:
    """Compiled loops on ``count`` threads. One BLAS thread each: the kernels' own loops use the cores."""
    before = get_num_threads()
    set_num_threads(count)
    try:
        with one_blas_thread():
            yield
    finally:
        set_num_threads(before)
