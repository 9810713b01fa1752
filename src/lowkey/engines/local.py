"""Vault room: the engine's one verb, what every engine does with a block, and the engine for one machine.

That one streams blocks of users, with the kernels' loops spread over threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, set_num_threads

from lowkey.data.ratings import Ratings
from lowkey.data.scratch import Scratch
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import ClosedError, InputError
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


class OnDisk(NamedTuple):
    """Where an array is in a scratch file."""

    at: int
    kind: Any
    shape: tuple[int, ...]


class LocalState:
    """What the users keep between passes, one entry per block: closed, and never released.

    With a ``scratch`` it is on disk, where the rows are too; it goes when the state is let go of.
    """

    __slots__ = ("_block_users", "_parts", "_scratch")

    def __init__(self, block_users: int, scratch: Scratch | None = None) -> None:
        self._block_users, self._scratch, self._parts = block_users, scratch, list[Any]()

    def keep(self, part: Any) -> None:
        if part is not None and self._scratch is not None:
            part = OnDisk(self._scratch.append([np.ascontiguousarray(part)]), part.dtype, part.shape)
        self._parts.append(part)

    def of_block(self, i: int, block_users: int) -> Any:
        if block_users != self._block_users:
            # Blocks of another size would hand users the state of others.
            raise TypeError("passes that share local state need the same block size: give their sums the same peak_units")
        part = self._parts[i]
        if not isinstance(part, OnDisk):
            return part
        assert self._scratch is not None
        return self._scratch.read(part.at, np.empty(part.shape, part.kind))

    def __repr__(self) -> str:
        return "LocalState(closed)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ClosedError(
            what="the users' local state was to be pickled", got="a copy out of the vault", needed="no copy", try_="refit"
        )


class LocalEngine(Engine):
    """Passes on this machine. Neither parameter changes any sum.

    Parameters
    ----------
    n_jobs : int, optional
        Threads; all cores by default.
    block_size : int
        Users at a time, at most.

    Examples
    --------
    >>> lk.DPBias(epsilon=1.0, delta=1e-6).fit(ratings, engine=lk.LocalEngine(n_jobs=2))  # doctest: +SKIP
    """

    def __init__(self, n_jobs: int | None = None, block_size: int = 1 << 15) -> None:
        cores = get_num_threads()
        self.n_jobs = cores if n_jobs is None else n_jobs
        if not 1 <= self.n_jobs <= cores or block_size < 1:
            raise InputError(
                what="LocalEngine",
                got=f"n_jobs={n_jobs}, block_size={block_size}",
                needed=f"1 to {cores} threads and at least one user per block",
                try_="LocalEngine()",
            )
        self.block_size = block_size

    def sweep(
        self, sweep: Sweep, data: Ratings | UncataloguedRatings, local: LocalState | None = None
    ) -> tuple[dict[str, Unreleased], LocalState]:
        statistics = sweep.statistics
        sums, users = no_sums(statistics), block_users(statistics, self.block_size)
        state = LocalState(users, data._open_rows().scratch_for_state() if sweep.keeps_state else None)
        with kernel_threads(self.n_jobs):
            blocks = [data._open_rows().whole()] if sweep.needs_everyone else data._open_blocks(users)
            for i, block in enumerate(blocks):
                kept = sweep.run(block, local.of_block(i, users) if local else None, sums)
                check_kept(sweep, kept)
                state.keep(kept)
        return closed(sums, statistics, data), state
