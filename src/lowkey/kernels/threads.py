"""Kernel room: rows dealt to threads that end with the call, for what training and serving share.

The threads are Python's, around compiled loops that let go of the interpreter. numba's own threads stay for the life of a
process: a fork after their first use waits for them for ever, two callers at once abort on its simplest layer, and slim
images lack the library of the others. So nothing that serving calls is compiled with ``parallel=True``. One history, or a
few, take no thread at all.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

FEW = 256  # rows that are done before a thread would have started


def over_rows(kernel: Callable[..., Any], offsets: NDArray[np.int64], items: Any, values: Any, *public: Any) -> Any:
    """``kernel(offsets, items, values, *public)``, in pieces of whole rows: each row depends on its own entries alone.

    Returns what the kernel returns, an array or several, whose first axis is that of the rows or of their entries.
    """
    n_rows, threads = len(offsets) - 1, get_num_threads()
    if n_rows <= FEW or threads == 1:
        return kernel(offsets, items, values, *public)
    # Cut where the entries are halved and halved again, so that no thread gets all the long rows.
    wanted = int(offsets[0]) + (int(offsets[-1]) - int(offsets[0])) * np.arange(1, 4 * threads) // (4 * threads)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, wanted), [n_rows]]))

    def piece(low: int, high: int) -> Any:
        part = slice(offsets[low], offsets[high])
        return kernel(offsets[low : high + 1] - offsets[low], items[part], values[part], *public)

    with ThreadPoolExecutor(threads) as pool:
        done = list(pool.map(piece, cuts[:-1], cuts[1:]))
    if isinstance(done[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*done, strict=True))
    return np.concatenate(done)
