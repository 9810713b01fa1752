"""Vault room: the engine for one machine; streams blocks of users, with the kernels' loops spread over threads."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads

from lowkey.data.ratings import Ratings
from lowkey.data.scratch import Scratch
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.engines.base import Engine, block_users, check_kept, closed, kernel_threads, no_sums
from lowkey.errors import ClosedError, InputError
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.sums import Unreleased


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
