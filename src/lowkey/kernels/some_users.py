"""Kernel room: a sweep over a part of the users, for baselines that try on some what they learnt of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Block
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.privacy.sums import Statistic


@dataclass(frozen=True, eq=False)
class OfSome(Sweep):
    """``sweep`` over the users whose key falls into one of ``parts`` of ``of`` equal parts; the others add nothing.

    Who adds something adds what the sweep says, and its bounds hold: nothing is no further from it than it is from nothing.
    """

    sweep: Sweep
    parts: tuple[int, ...]
    of: int

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return self.sweep.statistics

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        chosen = np.isin(splitmix64(block.keys) % np.uint64(self.of), np.array(self.parts, np.uint64))
        lengths = np.diff(block.offsets)
        entries = np.repeat(chosen, lengths)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[chosen])])
        part = block._replace(
            offsets=offsets, items=block.items[entries], values=block.values[entries], keys=block.keys[chosen]
        )
        return self.sweep.run(part, local, sums)
