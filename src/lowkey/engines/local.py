"""Vault room: the engine for one machine; streams blocks of users, with the kernels' loops spread over threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads
from threadpoolctl import threadpool_limits

from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine, block_users
from lowkey.errors import ClosedError, InputError
from lowkey.kernels.sweep import Public, Sweep
from lowkey.privacy.sums import Unreleased


class LocalState:
    """What the users keep between passes, one entry per block: closed, and never released."""

    __slots__ = ("_block_users", "_parts")

    def __init__(self, parts: list[Any], block_users: int) -> None:
        self._parts, self._block_users = parts, block_users

    def of_block(self, i: int, block_users: int) -> Any:
        if block_users != self._block_users:
            # Blocks of another size would hand users the state of others.
            raise TypeError("passes that share local state need the same block size: give their sums the same peak_units")
        return self._parts[i]

    def __repr__(self) -> str:
        return "LocalState(closed)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ClosedError(
            what="the users' local state was to be pickled", got="a copy out of the vault", needed="no copy", try_="refit"
        )


class LocalEngine(Engine):
    """``n_jobs`` threads (default: all cores) and blocks of at most ``block_size`` users. Neither changes any sum."""

    def __init__(
        self, n_jobs: int | None = None, block_size: int = 1 << 15, progress: Callable[[str], Any] | None = None
    ) -> None:
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
        self.progress = progress

    def sweep(
        self, sweep: Sweep, data: Ratings, local: LocalState | None = None, public: Public | None = None
    ) -> tuple[dict[str, Unreleased], LocalState]:
        public = {} if public is None else public
        statistics = sweep.statistics(public)
        sums = {s.name: np.zeros(s.shape, np.int64) for s in statistics}
        parts: list[Any] = []
        users = block_users(statistics, self.block_size)
        before = get_num_threads()
        set_num_threads(self.n_jobs)
        try:
            # One BLAS thread each: the kernels' own loops use the cores.
            with threadpool_limits(limits=1, user_api="blas"):
                for i, block in enumerate(data.blocks(users)):
                    parts.append(sweep.run(block, local.of_block(i, users) if local else None, public, sums))
        finally:
            set_num_threads(before)
        return {s.name: Unreleased(s, sums[s.name]) for s in statistics}, LocalState(parts, users)
