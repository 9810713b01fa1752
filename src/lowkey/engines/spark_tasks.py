"""Vault room: what runs on the executors of a Spark cluster: a sweep over a partition's blocks, and adding up chunks.

The sums of a task leave it as chunks: a number, which says what coordinates they are, and int64 grid units.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowkey.data.spark_blocks import BLOCK_COLUMNS, BLOCK_SCHEMA, BLOCK_USERS, held_rows, one_row
from lowkey.engines.local import block_users, check_kept, kernel_threads, no_sums
from lowkey.kernels.sweep import Sums, Sweep
from lowkey.privacy.sums import Statistic

CHUNK_COLUMNS = "chunk int, units binary"
CHUNK_SCHEMA = pa.schema([("chunk", pa.int32()), ("units", pa.binary())])
CARRIED_COLUMNS = f"{CHUNK_COLUMNS}, {BLOCK_COLUMNS}"  # a row is a chunk, or a block with its users' new state
CARRIED_SCHEMA = pa.schema([*CHUNK_SCHEMA, *BLOCK_SCHEMA])


def pieces_of(statistics: tuple[Statistic, ...], chunk: int) -> list[tuple[str, slice]]:
    """The coordinates of all sums in one numbering: which sum, and which part of it, each chunk is."""
    return [(s.name, slice(at, min(at + chunk, s.size))) for s in statistics for at in range(0, s.size, chunk)]


@dataclass(frozen=True)
class SweepTask:
    """The sums of a partition's users; and, of a sweep whose users keep something, their blocks with it."""

    shared: Any  # a broadcast of the sweep, and of the keys of a private catalogue's items
    chunk: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        sweep, item_keys = self.shared.value
        statistics, any_block = sweep.statistics, False
        sums, users = no_sums(statistics), block_users(statistics, BLOCK_USERS)
        schema = CARRIED_SCHEMA if sweep.keeps_state else CHUNK_SCHEMA
        for batch in batches:
            for at in range(batch.num_rows):
                any_block = True
                with kernel_threads(1):  # Spark gives a task one core
                    state = run_block(sweep, batch, at, item_keys, users, sums)
                if state is not None:
                    yield one_row(schema, batch.slice(at, 1), state=state)
        if any_block:
            yield from (one_row(schema, chunk=n, units=part) for n, part in cut(sums, statistics, self.chunk))


def run_block(sweep: Sweep, batch: Any, at: int, item_keys: Any, users: int, sums: Sums) -> bytes | None:
    """Add a stored block's contributions, in pieces of at most ``users``; returns what its users keep."""
    before = batch.column("state")[at]
    state = np.load(io.BytesIO(before.as_buffer())) if before.is_valid else None
    kept: list[Any] = []
    first = 0
    for block in held_rows(batch, at).blocks(users):
        last = first + len(block.keys)
        kept.append(sweep.run(block._replace(item_keys=item_keys), None if state is None else state[first:last], sums))
        check_kept(sweep, kept[-1])
        first = last
    if not sweep.keeps_state:
        return None
    written = io.BytesIO()
    np.save(written, np.concatenate(kept), allow_pickle=False)
    return written.getvalue()


def cut(sums: Sums, statistics: tuple[Statistic, ...], chunk: int) -> Iterator[tuple[int, bytes]]:
    """The chunks that are not all zero."""
    flat = {name: array.reshape(-1) for name, array in sums.items()}
    for number, (name, part) in enumerate(pieces_of(statistics, chunk)):
        if flat[name][part].any():
            yield number, flat[name][part].tobytes()


def add_chunks(batches: Iterator[Any]) -> Iterator[Any]:
    """Chunks of the same number, added. int64 wraps around, so the order does not matter."""
    totals: dict[int, Any] = {}
    for number, units in chunks_in(batches):
        if number in totals:
            totals[number] += units
        else:
            totals[number] = units.copy()
    for number, units in totals.items():
        yield one_row(CHUNK_SCHEMA, chunk=number, units=units.tobytes())


def chunks_in(batches: Iterable[Any]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """What `cut` has cut, as views of the batches."""
    for batch in batches:
        for number, units in zip(batch.column("chunk").to_pylist(), batch.column("units"), strict=True):
            yield number, np.frombuffer(units.as_buffer(), np.int64)
