"""Vault room: the key of a user who has no id, made from the user's own row.

What is drawn for a user must not change when somebody else comes or goes. A row number does: everybody behind a user who
leaves moves up. The items of the own row do not, in whatever order the rows stand. They are counted in catalogue order,
so a row has the same key wherever it was read. Two users with the same items share a key, and so what is drawn for them:
each still adds what follows from the own row, the own key and public values alone, which is all that a bound rests on.
Ratings have no part in the key: where positions are public and values are protected, the key is public.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lowkey.data.ids import splitmix64

SEED = np.uint64(0x10_3E7_0F_A_2085)  # of an empty row; any number would do
_scrambled: Any = njit(cache=True, nogil=True)(splitmix64)


def row_keys(offsets: npt.NDArray[np.int64], items: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
    """One 64-bit key per row: a hash of its items, which rise within the row."""
    keys: Any = _row_keys(offsets, items)
    return keys


@njit(cache=True, nogil=True)
def _row_keys(offsets, items):
    keys = np.empty(len(offsets) - 1, np.uint64)
    for u in range(len(keys)):
        key = SEED
        for at in range(offsets[u], offsets[u + 1]):
            key = _scrambled(key ^ _scrambled(np.uint64(items[at])))
        keys[u] = key
    return keys
