"""Kernel room: the users' half of lists: who took what, and its second moments beyond what popularity explains.

| letter | meaning | our word |
|---|---|---|
| S, k | the user's items of the head, and how many | |
| pi | public shares of the head's items in all that is taken, summing to 1 | ``shares`` |
| z | 1_S/sqrt(k) - sqrt(k) pi, scaled to norm 1: what was taken, less what anybody would take | in ``taste_gram`` |

z has an entry for every item of the head, but it is a sparse vector less a multiple c of one public vector. c is taken
from a fixed ladder, from below, so users on the same rung share the dense part, q = c pi in whole grid units; then
z z^T = s s^T - s q^T - q s^T + q q^T sums exactly from the sparse s, one row per rung, and the rungs' head counts.
Paper: ours (docs/lists.md).
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import fits, shrink_factor, to_units
from lowkey.kernels.gram import add_row_grams
from lowkey.kernels.moments import head_rows
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.linalg.packed import pack
from lowkey.privacy.grid import HAIR, Grid
from lowkey.privacy.sums import Sensitivity, Statistic, symmetric_shape

BITS = 20  # of a coordinate; products have 40, so that float64 holds the sums of 2^13 users exactly
GRID = Grid.for_bound(1.0, BITS)
COUNT_BITS = 26
COUNT_GRID = Grid.for_bound(1.0, COUNT_BITS)
RUNGS_PER_OCTAVE = 32
LOWEST, RUNGS = 2.0**-6, 16 * RUNGS_PER_OCTAVE  # the ladder of c: up to 2^10
USERS_WEIGHT = 0.1  # of the number of users beside the counts: one number against many


@dataclass(frozen=True)
class TakenCounts(Sweep):
    """Per item how many users took it, each with weight 1/sqrt(m) on m items; and, last, the number of users.

    A non-negative vector of norm 1, and a user who took anything adds ``USERS_WEIGHT`` to one coordinate more: together
    sqrt(1 + USERS_WEIGHT^2); non-negative, so replace-one is sqrt(2) times that.
    """

    n_items: int
    liked: float | None  # the least rating that counts as taken; None: all of them

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity.of_acute_vectors(math.sqrt(1.0 + USERS_WEIGHT**2))
        return (Statistic("taken_counts", (self.n_items + 1,), COUNT_GRID, bound, 1 << COUNT_BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        offsets, items = taken_rows(block, self.liked)
        _add_taken(offsets, items, USERS_WEIGHT, COUNT_GRID.step, sums["taken_counts"])
        return None


@dataclass(frozen=True, eq=False)
class TasteMoments(Sweep):
    """The sum of z z^T over users, a packed triangle over the head; an empty row is 0.

    |z z^T|_F = |z|^2 <= 1, looked at on the whole numbers of the very z whose products are summed, and two such terms
    have a non-negative inner product: replace-one is sqrt(2). No coordinate of z exceeds 2^20 units.
    """

    slots: NDArray[np.int32]  # of every item its place in the head, or -1
    shares: NDArray[np.float64]  # pi, (n_head,)
    liked: float | None

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        shape = symmetric_shape(len(self.shares))
        bound = Sensitivity.of_acute_vectors(1.0)
        return (Statistic("taste_gram", shape, GRID.squared, bound, 1 << (2 * BITS), "symmetric"),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        n_head = len(self.shares)
        offsets, places = head_rows(*taken_rows(block, self.liked), self.slots)
        ladder = LOWEST * 2.0 ** (np.arange(RUNGS) / RUNGS_PER_OCTAVE)
        with np.errstate(over="ignore", invalid="ignore"):
            dense = np.trunc(ladder[:, None] * self.shares / GRID.step)  # q of every rung, in whole units
        # The rungs rise: those from the first on whose q has an entry beyond 1 are cut off, and c stays below them.
        dense = dense[: int(np.sum(np.abs(dense).max(axis=1) <= 2.0**BITS))]
        units, rungs = _rows(offsets, places, self.shares, ladder[: len(dense)], dense, GRID.step)
        add_row_grams(offsets, places, units, n_head, sums["taste_gram"])
        on_rung, counts = _by_rung(offsets, places, units, rungs, len(dense), n_head)
        used = counts > 0.0
        q, s, n = dense[used], on_rung[used], counts[used]
        # Whole numbers below 2^53 throughout: the products are exact in float64, in any order.
        cross = s.T @ q
        sums["taste_gram"] += pack((q * n[:, None]).T @ q - cross - cross.T).astype(np.int64)
        return None


def taken_rows(block: Block, liked: float | None) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets and items of what users took: all that they rated, or what they rated ``liked`` or better."""
    if liked is None:
        return block.offsets, block.items
    kept = block.values >= liked
    return np.concatenate([[0], np.cumsum(kept)])[block.offsets], block.items[kept]


@njit(cache=True, nogil=True)
def _add_taken(offsets, items, users_weight, step, counts):
    for u in range(len(offsets) - 1):
        m = offsets[u + 1] - offsets[u]
        if m > 0:
            units = to_units(shrink_factor(float(m), 1.0), step)  # 1/sqrt(m), a hair inside
            if fits(m * float(units) ** 2, 1.0, step):
                for p in range(offsets[u], offsets[u + 1]):
                    counts[items[p]] += units
            counts[len(counts) - 1] += to_units(users_weight * (1.0 - HAIR), step)


@njit(cache=True, nogil=True, error_model="numpy")
def _rows(offsets, places, shares, ladder, dense, step):
    """Per entry the sparse part s of z in grid units, and per user the rung of c, or -1: who does not fit adds nothing."""
    n_users = len(offsets) - 1
    units, rungs = np.zeros(len(places), np.int64), np.full(n_users, -1)
    squares = np.zeros(len(ladder))
    for r in range(len(ladder)):
        for j in range(dense.shape[1]):
            squares[r] += dense[r, j] * dense[r, j]
    square = 0.0
    for j in range(len(shares)):
        square += shares[j] * shares[j]
    for u in range(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        k = hi - lo
        if k == 0:
            continue
        taken = 0.0
        for p in range(lo, hi):
            taken += shares[places[p]]
        norm = math.sqrt(1.0 - 2.0 * taken + k * square)  # of 1_S/sqrt(k) - sqrt(k) pi
        c = math.sqrt(k) / norm
        rung = min(math.floor(math.log2(c / LOWEST) * RUNGS_PER_OCTAVE), len(ladder) - 1)
        if not rung >= 0:
            continue
        c = ladder[rung]
        # a, so that a 1_S - c pi has norm 1 less what truncation can add: at most a step to each of the k entries.
        length = 1.0 - 4.0 * HAIR - 2.0 * math.sqrt(k) * step
        root = (c * taken) ** 2 - k * (c * c * square - length * length)
        a = to_units((c * taken + math.sqrt(root)) / k, step) if root >= 0.0 else 0
        total = squares[rung]
        for p in range(lo, hi):
            q = dense[rung, places[p]]
            total += (a - q) * (a - q) - q * q
        if a > 0 and fits(total, 1.0, step):
            rungs[u] = rung
            for p in range(lo, hi):
                units[p] = a
    return units, rungs


@njit(cache=True, nogil=True)
def _by_rung(offsets, places, units, rungs, n_rungs, n_head):
    """Over the users of each rung: the sum of s, and how many there are."""
    sums, counts = np.zeros((n_rungs, n_head)), np.zeros(n_rungs)
    for u in range(len(offsets) - 1):
        if rungs[u] >= 0:
            counts[rungs[u]] += 1.0
            for p in range(offsets[u], offsets[u + 1]):
                sums[rungs[u], places[p]] += units[p]
    return sums, counts
