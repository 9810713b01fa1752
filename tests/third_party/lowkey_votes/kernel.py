"""Kernel room: one vote per rating, up or down: the users' half of ``DPVotes``."""

from __future__ import annotations

from dataclasses import dataclass

from numba import njit

from lowkey.kernels.bounding import fits, shrink_factor, to_units
from lowkey.kernels.sweep import Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

BITS = 26
GRID = Grid.for_bound(1.0, BITS)


@dataclass(frozen=True)
class Votes(Sweep):
    """Per item, the sum of +1 (rated above ``center``) and -1 votes, each with weight 1/sqrt(m) for a user of m ratings.

    m votes of size 1/sqrt(m) have norm 1, and two users may vote against each other: replace-one is 2.
    """

    n_items: int
    center: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return (Statistic("votes", (self.n_items,), GRID, Sensitivity.of_vectors(1.0), 1 << BITS),)

    def run(self, block, local, sums):
        _add_votes(block.offsets, block.items, block.values, self.center, GRID.step, sums["votes"])


@njit(cache=False, nogil=True)
def _add_votes(offsets, items, values, center, step, votes):
    for u in range(len(offsets) - 1):
        m = offsets[u + 1] - offsets[u]
        units = to_units(shrink_factor(float(m), 1.0), step)  # 1/sqrt(m), a hair inside
        if fits(m * float(units) ** 2, 1.0, step):
            for p in range(offsets[u], offsets[u + 1]):
                votes[items[p]] += units if values[p] > center else -units
