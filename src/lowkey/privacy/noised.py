"""Gate room: noise on a private sum and the hash of what becomes of it, part by part, so that neither waits for the other.

SHA-256 takes the bytes one after the other, and about as long as the noise does. So the caller's thread hashes the parts
that others have noised.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from lowkey.privacy.mechanisms import PART, Gaussian, Laplace, Mechanism, NoNoise, SymmetricGaussian
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.sums import Adjacency, Selection, Statistic

# What these add to one row of a sum knows nothing of the other rows.
ROW_BY_ROW = (Gaussian, SymmetricGaussian, Laplace, NoNoise)


def noised(
    mechanism: Mechanism, units: NDArray[np.int64], statistic: Statistic, adjacency: Adjacency, noise: NoiseSource
) -> tuple[NDArray[np.float64], str]:
    """What ``mechanism`` makes of the sum, in its memory where there is noise to add; and the SHA-256 of that.

    Parts are rows along the first axis. Only the secret source keeps nothing between draws: any other is asked in order,
    and so is whatever mechanism we do not know.
    """
    known = type(mechanism) in ROW_BY_ROW and type(noise) is NoiseSource
    has_rows = statistic.layout != "symmetric" or units.ndim > 1
    if not (known and has_rows and units.size > PART and units.flags.c_contiguous):
        noisy = mechanism.apply(units, statistic, adjacency, noise)
        return noisy, sha256_of(noisy)
    rows, hashed = max(1, PART // max(1, math.prod(statistic.shape[1:]))), hashlib.sha256()

    def of_part(low: int) -> NDArray[np.float64]:
        part = units[low : low + rows]
        return mechanism.apply(part, replace(statistic, shape=part.shape), adjacency, noise)

    with _mapped(get_num_threads() - 1) as mapped:
        for part in mapped(of_part, range(0, len(units), rows)):
            hashed.update(part.data)
    return units.view(np.float64), hashed.hexdigest()


@contextmanager
def _mapped(threads: int) -> Generator[Any]:
    """``map`` on so many threads beside the caller's own; without any, the plain one."""
    if threads < 1:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def sha256_of(posted: NDArray[np.float64] | Selection) -> str:
    if isinstance(posted, Selection):
        text = "\n".join(f"{key} {total!r}" for key, total in zip(posted.keys, posted.sums.tolist(), strict=True))
        return hashlib.sha256(text.encode()).hexdigest()
    return hashlib.sha256(np.ascontiguousarray(posted).data).hexdigest()
