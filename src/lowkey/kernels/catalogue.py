"""Kernel room: the users' half of selecting a catalogue that is not public: how many users hold each item, weighted.

Paper: Gopi et al. 2020 (arXiv:2002.09745), the weighted Gaussian. Deviates: a user with more than ``max_items`` items
counts with a keyed choice of them, not with the first ones.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Block
from lowkey.errors import refuse
from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.kernels.sweep import Sums, Sweep
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

BITS = 26
_scrambled = njit(cache=True, nogil=True)(splitmix64)


@dataclass(frozen=True, eq=False)
class Holders(Sweep):
    """The weighted number of users who hold each item, over codes whose ids are private, and so is how many there are.

    A user with m items adds w = 1/sqrt(min(m, max_items)) to at most max_items of them: a non-negative vector of norm
    at most 1. An item that nobody adds to is no key of the histogram, so a user brings at most max_items keys. Which ones
    depends on the user's key and on the items' ids alone. An item's *code* would not do as the key of an item: it is a
    rank among all items that occur, so one user who leaves would shift it for all others.
    """

    max_items: int
    max_catalogue: int

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        grid, sensitivity = Grid.for_bound(1.0, BITS), Sensitivity.of_acute_vectors(1.0)
        return (Statistic("catalogue", (self.max_catalogue,), grid, sensitivity, 1 << BITS, max_keys=self.max_items),)

    def run(self, block: Block, local: Any, sums: Sums) -> None:
        (statistic,) = self.statistics
        if len(block.item_keys) > statistic.size:
            refuse(
                "a private catalogue",
                got="more different items than its public cap",
                needed=f"at most {statistic.size}",
                try_="a larger max_catalogue",
            )
        caps = statistic.max_keys, statistic.grid.step
        _add_holders(block.offsets, block.items, block.keys, block.item_keys, *caps, sums[statistic.name])


@njit(cache=True, nogil=True)
def _add_holders(offsets, items, user_keys, item_keys, max_items, step, units):
    for u in range(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        if hi == lo:
            continue
        taken = items[lo:hi]
        if hi - lo > max_items:
            draws = np.empty(hi - lo, np.uint64)
            for p in range(lo, hi):
                draws[p - lo] = _scrambled(user_keys[u] + _scrambled(item_keys[items[p]]))
            taken = taken[np.argsort(draws)[:max_items]]
        weight = to_units(shrink_factor(float(len(taken)), 1.0), step)  # 1/sqrt(m), a hair inside
        for item in taken:
            units[item] += weight
