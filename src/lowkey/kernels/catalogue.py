"""Kernel room: the users' half of selecting a catalogue that is not public: how many users hold each item, weighted.

Paper: Gopi et al. 2020 (arXiv:2002.09745), the weighted Gaussian. Deviates: a user with more than ``max_items`` items
counts with a keyed choice of them, not with the first ones.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.data.ids import splitmix64, user_keys
from lowkey.data.uncatalogued import UncataloguedRatings
from lowkey.errors import refuse
from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.privacy.grid import Grid
from lowkey.privacy.sums import Sensitivity, Statistic, UnreleasedHistogram

BITS = 26
BLOCK_USERS = 1 << 15
_scrambled = njit(cache=True, nogil=True)(splitmix64)


def holders_statistic(max_items: int, max_catalogue: int) -> Statistic:
    """What is summed, without its private number of keys.

    A user with m items adds w = 1/sqrt(min(m, max_items)) to at most max_items of them: a non-negative vector of norm
    at most 1. An item that nobody adds to is no key of the histogram, so a user brings at most max_items keys. Which ones
    depends on the user's key and on the items' ids alone. An item's *code* would not do as the key of an item: it is a
    rank among all items that occur, so one user who leaves would shift it for all others.
    """
    return Statistic(
        "catalogue",
        (max_catalogue,),
        Grid.for_bound(1.0, BITS),
        Sensitivity.of_acute_vectors(1.0),
        1 << BITS,
        max_keys=max_items,
    )


def count_holders(rows: UncataloguedRatings, statistic: Statistic) -> UnreleasedHistogram:
    """The weighted number of users who hold each item, closed together with the ids of the items that were counted.

    Both caps, on a user's items and on the catalogue, are those of the statistic.
    """
    max_items, max_catalogue = statistic.max_keys, statistic.size
    ids = rows._open_ids()  # pyright: ignore[reportPrivateUsage]  # closed again below, together with the sums
    if len(ids) > max_catalogue:
        refuse(
            "a private catalogue",
            got="more different items than its public cap",
            needed=f"at most {max_catalogue}",
            try_="a larger max_catalogue",
        )
    item_keys = user_keys(ids)
    units = np.zeros(len(ids), np.int64)
    for block in rows._open_blocks(BLOCK_USERS):  # pyright: ignore[reportPrivateUsage]
        _add_holders(block.offsets, block.items, block.keys, item_keys, max_items, statistic.grid.step, units)
    counted = np.flatnonzero(units)
    keys: NDArray[Any] = np.asarray(ids.take(counted).to_numpy(zero_copy_only=False))
    return UnreleasedHistogram(statistic, units[counted], keys)


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
