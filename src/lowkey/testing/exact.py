"""Lab room: bounds as code: the exact norm of what one user adds, in whole numbers, against what is declared.

No floating-point number takes part: the sums are int64, their squares Python integers, and the declared sensitivity is a
fraction (a float is one). A symmetric statistic is measured in the Frobenius norm of the full matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads

from lowkey.privacy.sums import Statistic

LIMB = 16  # bits: products of two limbs have 32, so int64 holds the sum of 2^30 of them


def norm_power(statistic: Statistic, units: np.ndarray) -> int:
    """The declared norm of ``units``, exactly: the sum of absolute values (L1), or of squares (L2, not its root)."""
    flat = np.atleast_1d(units)
    if statistic.sensitivity.norm == "l1":
        return sum(abs(int(unit)) for unit in flat.ravel())
    if statistic.layout != "symmetric":
        return sum_of_squares(flat)
    order = statistic.order
    diagonal = [row * order - row * (row - 1) // 2 for row in range(order)]
    return 2 * sum_of_squares(flat) - sum_of_squares(flat[..., diagonal])


def sum_of_squares(units: np.ndarray) -> int:
    """Exactly, whatever the int64 are: limb by limb, the top one signed."""
    flat = units[units != 0]
    limbs = [(flat >> (LIMB * i)) & ((1 << LIMB) - 1) for i in range(3)] + [flat >> (LIMB * 3)]
    return sum(int(a @ b) << (LIMB * (i + j)) for i, a in enumerate(limbs) for j, b in enumerate(limbs))


def allowed_power(statistic: Statistic, adjacency: Any) -> Fraction:
    """What ``norm_power`` may be at most."""
    allowed = Fraction(statistic.sensitivity.under(adjacency)) / Fraction(2) ** statistic.grid.exponent
    return allowed if statistic.sensitivity.norm == "l1" else allowed**2


def share(statistic: Statistic, units: np.ndarray, adjacency: Any) -> float:
    """The norm as a share of what is declared; above 1 exactly where it is."""
    norm, allowed = norm_power(statistic, units), allowed_power(statistic, adjacency)
    near = float(Fraction(norm) / allowed)
    near = near if statistic.sensitivity.norm == "l1" else math.sqrt(near)
    return min(near, 1.0) if norm <= allowed else max(near, 1.0 + 1e-12)


def assert_within(statistic: Statistic, parts: Sequence[np.ndarray], where: str, *, alone: bool = True) -> float:
    """No part is beyond add/remove, no two are further apart than replace-one. Returns the largest share of add/remove.

    ``alone=False`` where a neighbour has the same positions and other values: only differences mean anything.
    """
    largest = 0.0
    for i, part in enumerate(parts):
        largest = max(largest, share(statistic, part, "add-remove"))
        assert largest <= 1.0 or not alone, f"{where}: user {i} adds {largest:.6g} times what is declared"
    for i, j in furthest(parts):
        apart = share(statistic, parts[i] - parts[j], "replace-one")
        assert apart <= 1.0, f"{where}: users {i} and {j} are {apart:.6g} times what is declared apart"
    return largest


def furthest(parts: Sequence[np.ndarray], most: int = 12) -> list[tuple[int, int]]:
    """The pairs that are furthest apart, roughly: these are then measured exactly."""
    table = np.array([part.ravel() for part in parts], np.float64)
    largest = np.abs(table).max(initial=1.0)
    table = table[:, np.abs(table).max(axis=0) > 0.0] / max(largest, 1.0)
    squares = np.sum(table**2, axis=1)
    distance = np.triu(squares[:, None] + squares - 2.0 * table @ table.T, 1)
    pairs = np.argsort(distance, axis=None)[::-1][:most]
    return [(int(p // len(parts)), int(p % len(parts))) for p in pairs]


def added_by(sweep: Any, block: Any, local: Any = None, threads: int = 1) -> tuple[dict[str, np.ndarray], Any]:
    """The sums of a sweep over one block, and what is kept."""
    sums = {s.name: np.zeros(s.shape, np.int64) for s in sweep.statistics}
    before = get_num_threads()
    set_num_threads(threads)
    try:
        kept = sweep.run(block, local, sums)
    finally:
        set_num_threads(before)
    return sums, kept
