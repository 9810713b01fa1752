"""Kernel room: the users' half of lists: who took what, and its second moments beyond what popularity explains.

| letter | meaning | our word |
|---|---|---|
| S, k | the user's items of the head, and how many | |
| w | public: how eagerly the head's items are taken, one beside the other, summing to 1 | ``shares`` |
| e_k | 1 - exp(-c w), summing to k: what anybody takes who takes k items, and nothing twice | ``expected_takes`` |
| z | a 1_S - q of norm 1, q = b e_k: what was taken, less what anybody would take | in ``taste_moments`` |

z has an entry for every item of the head, but it is a sparse vector less one of a few public vectors: k is taken from a
fixed ladder, from below, b is what makes 1_S - e_k as long as expected, and a, near b, what makes z as long as it may be.
So users on the same rung share the dense part q, in whole grid units; then
z z^T = s s^T - s q^T - q s^T + q q^T sums exactly from the sparse s, one row per rung, and the rungs' head counts.
Paper: ours (docs/lists.md).
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bias import add_counts
from lowkey.kernels.bounding import fits, to_units
from lowkey.kernels.gram import add_row_grams
from lowkey.kernels.moments import head_rows
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.linalg.packed import pack, unpack
from lowkey.privacy.sums import HAIR, Grid, Sensitivity, Statistic

BITS = 20  # of a coordinate; products have 40, so that float64 holds the sums of 2^11 users exactly, with two to spare
GRID = Grid.for_bound(1.0, BITS)
COUNT_BITS = 26
COUNT_GRID = Grid.for_bound(1.0, COUNT_BITS)
RUNGS_PER_OCTAVE = 8  # of the ladder of k, from 1 on
MOST_EXPECTED = 0.95  # of the head: c is infinite for all of it
NEWTON_STEPS = 30
MOST_FIT = 0.3  # of |z|^2 = 1: what a user can say of how well the weights foretell
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
        add_counts(offsets, items, 1.0, COUNT_GRID.step, sums["taken_counts"][:-1])
        sums["taken_counts"][-1] += _users(offsets) * int(USERS_WEIGHT * (1.0 - HAIR) / COUNT_GRID.step)
        return None


@dataclass(frozen=True, eq=False)
class HeadCounts(Sweep):
    """How many users took each item of the head, each with weight 1/sqrt(k) on k items of it.

    A non-negative vector of norm 1 again: who took much else says more of the head than in ``TakenCounts``.
    """

    slots: NDArray[np.int32]  # of every item its place in the head, or -1
    n_head: int
    liked: float | None

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity.of_acute_vectors(1.0)
        return (Statistic("head_counts", (self.n_head,), COUNT_GRID, bound, 1 << COUNT_BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        add_counts(*head_rows(*taken_rows(block, self.liked), self.slots), 1.0, COUNT_GRID.step, sums["head_counts"])
        return None


@dataclass(frozen=True, eq=False)
class TasteMoments(Sweep):
    """One vector: gram_weight times the sum of z z^T over the head, row by row, and count_weight times all counts again.

    |z z^T|_F = |z|^2 <= 1, looked at on the whole numbers of the very z whose products are summed; counts have norm 1. So
    the vector of one user has norm at most sqrt(gram_weight^2 + count_weight^2) = 1, and all of it has non-negative inner
    products: replace-one is sqrt(2). Both weights may follow the billboard: the norm of the whole does not change. The
    matrix stands there in full, so that its noise, the two triangles averaged, is symmetric noise.
    """

    slots: NDArray[np.int32]  # of every item its place in the head, or -1
    shares: NDArray[np.float64]  # w, (n_head,)
    gram_weight: float  # in 0..1
    liked: float | None

    @property
    def count_weight(self) -> float:
        return math.sqrt(max(1.0 - self._length**4, 0.0))

    @property
    def _length(self) -> float:
        """Of z: its square is the weight of z z^T, 1 at most whatever was given."""
        return math.sqrt(min(max(self.gram_weight, 0.0), 1.0))

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        size = len(self.shares) ** 2 + len(self.slots)
        bound = Sensitivity.of_acute_vectors(1.0)
        # On the way to z z^T stand s q^T and q q^T, whose entries are up to four times as large: s = z + q.
        return (Statistic("taste_moments", (size,), GRID.squared, bound, 4 << (2 * BITS)),)

    def rows(self, block: Block) -> tuple[Any, Any, Any, Any, Any]:
        """Offsets and places in the head; the sparse part of z per entry; the rung per user, or -1; q of every rung."""
        offsets, places = head_rows(*taken_rows(block, self.liked), self.slots)
        ladder = 2.0 ** (np.arange(math.log2(len(self.shares)) * RUNGS_PER_OCTAVE + 1) / RUNGS_PER_OCTAVE)
        with np.errstate(all="ignore"):
            takes = expected_takes(self.shares, ladder)
            lengths = np.sqrt(ladder - np.einsum("rj,rj->r", takes, takes))[:, None]
            dense = np.trunc(takes / lengths * self._length / GRID.step)  # in whole units
        dense[~(np.abs(dense).max(axis=1) <= 2.0**BITS)] = np.inf  # no z has an entry beyond 1: nobody is on such a rung
        units, rungs = _rows(offsets, places, dense, self._length, GRID.step)
        return offsets, places, units, rungs, dense

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        n_head, total = len(self.shares), sums["taste_moments"]
        held, inner = self._held()
        matrix = total[: n_head**2].reshape(n_head, n_head)
        matrix[np.ix_(held, held)] += unpack(inner._triangle(block), np.int64)
        weight = self.count_weight * (1.0 - HAIR)
        add_counts(*taken_rows(block, self.liked), weight, GRID.squared.step, total[n_head**2 :])
        return None

    def _held(self) -> tuple[NDArray[np.int64], TasteMoments]:
        """The places at which z can be other than 0, and the sweep of these alone: of a stream's catalogue, the head."""
        used = self.shares != 0.0
        used[self.slots[self.slots >= 0]] = True
        held = np.flatnonzero(used)
        slots = np.where(self.slots >= 0, np.cumsum(used, dtype=np.int32)[self.slots] - 1, -1).astype(np.int32)
        return held, replace(self, slots=slots, shares=self.shares[held])

    def _triangle(self, block: Block) -> NDArray[np.int64]:
        """The upper triangle of the sum of z z^T, in whole units."""
        n_head = len(self.shares)
        offsets, places, units, rungs, dense = self.rows(block)
        triangle = np.zeros(n_head * (n_head + 1) // 2, np.int64)
        add_row_grams(offsets, places, units, n_head, triangle)
        on_rung, counts = _by_rung(offsets, places, units, rungs, len(dense), n_head)
        used = counts > 0.0
        q, s, n = dense[used], on_rung[used], counts[used]
        # Whole numbers below 2^53 throughout: the products are exact in float64, in any order.
        cross = s.T @ q
        triangle += pack((q * n[:, None]).T @ q - cross - cross.T).astype(np.int64)
        return triangle


@dataclass(frozen=True, eq=False)
class TasteFit(Sweep):
    """How well the others' weights foretell a user: sums of z . p and of p . p, p the prediction of z without the user.

    EASE predicts every item of z from the other items: p = z - P z / diag P, P the inverse of the ridged Gram matrix. In
    that matrix is w z z^T of the user's own, w what cleaning lets through; taken out again by Sherman and Morrison, with
    h = w z . P z, P z becomes P z/(1 - h) and diag P becomes diag P + w (P z)^2/(1 - h). Both numbers are clipped to
    ``MOST_FIT``, the second at 0 from below, whatever w is: add/remove moves them by at most sqrt(2) ``MOST_FIT``;
    replace-one moves the first by 2 and the second by 1 of it.
    """

    moments: TasteMoments
    inverse: NDArray[np.float64]  # P, (n_head, n_head)
    passed: float  # w

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = Sensitivity(math.sqrt(2.0) * MOST_FIT, math.sqrt(5.0) * MOST_FIT)
        return (Statistic("taste_fit", (2,), COUNT_GRID, bound, 1 << COUNT_BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        offsets, places, units, rungs, dense = replace(self.moments, gram_weight=1.0).rows(block)
        inverse = np.ascontiguousarray(self.inverse, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            through = dense @ inverse.T  # P q of every rung
        steps = GRID.step, COUNT_GRID.step
        sums["taste_fit"] += _fits(offsets, places, units, rungs, dense, inverse, through, self.passed, steps)
        return None


def taken_rows(block: Block, liked: float | None) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets and items of what users took: all that they rated, or what they rated ``liked`` or better."""
    if liked is None:
        return block.offsets, block.items
    kept = block.values >= liked
    return np.concatenate([[0], np.cumsum(kept)])[block.offsets], block.items[kept]


def expected_takes(shares: NDArray[np.float64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_lengths, n_head): 1 - exp(-c shares), c so that it sums to the length, or to ``MOST_EXPECTED`` of the head.

    Nobody takes a thing twice, so a long list has relatively less of what is popular. The sum is concave in c, and
    Newton's method from the left of its root stays there.
    """
    wanted = np.minimum(lengths, MOST_EXPECTED * np.count_nonzero(shares))[:, None]
    c = wanted / shares.sum()
    for _ in range(NEWTON_STEPS):
        takes = -np.expm1(-c * shares)
        c = c + (wanted - takes.sum(axis=1, keepdims=True)) / ((1.0 - takes) * shares).sum(axis=1, keepdims=True)
    return -np.expm1(-c * shares)


@njit(cache=True, nogil=True)
def _users(offsets):
    return np.sum(offsets[1:] > offsets[:-1])


@njit(cache=True, nogil=True, error_model="numpy")
def _rows(offsets, places, dense, bound, step):
    """Per entry the sparse part s of z in grid units, and per user the rung of k, or -1: who does not fit adds nothing."""
    n_users = len(offsets) - 1
    units, rungs = np.zeros(len(places), np.int64), np.full(n_users, -1)
    squares = np.zeros(len(dense))
    for r in range(len(dense)):
        for j in range(dense.shape[1]):
            squares[r] += dense[r, j] * dense[r, j]
    for u in range(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        k = hi - lo
        if k == 0:
            continue
        rung = min(math.floor(math.log2(k) * RUNGS_PER_OCTAVE), len(dense) - 1)
        taken = 0.0
        for p in range(lo, hi):
            taken += dense[rung, places[p]] * step
        # a, so that a 1_S - q is as long as may be, less what truncation can add: at most a step to each of k entries.
        length = bound * (1.0 - 4.0 * HAIR) - 2.0 * math.sqrt(k) * step
        root = taken * taken - k * (squares[rung] * step * step - length * length)
        a = to_units((taken + math.sqrt(root)) / k, step) if root >= 0.0 else 0
        total = squares[rung]
        for p in range(lo, hi):
            q = dense[rung, places[p]]
            total += (a - q) * (a - q) - q * q
        if a > 0 and fits(total, bound, step):
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


@njit(cache=True, parallel=True, error_model="numpy")
def _fits(offsets, places, units, rungs, dense, inverse, through, passed, steps):
    (step, fit_step), n_users, n = steps, len(offsets) - 1, inverse.shape[0]
    found = np.zeros((n_users, 2), np.int64)
    for u in prange(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        if rungs[u] < 0 or hi - lo < 2:  # one item alone has nothing to be foretold from
            continue
        z, seen = -dense[rungs[u]], -through[rungs[u]]
        for p in range(lo, hi):
            z[places[p]] += units[p]
            seen += units[p] * inverse[places[p]]  # symmetric: a row is a column
        own = 0.0
        for j in range(n):
            z[j] *= step
            seen[j] *= step
            own += z[j] * seen[j]
        left = 1.0 - min(passed * own, 0.95)  # of whom the matrix is hardly anything else, little is left
        agree, square = 0.0, 0.0
        for j in range(n):
            told = z[j] - (seen[j] / left) / (inverse[j, j] + passed * seen[j] * seen[j] / left)
            agree += z[j] * told
            square += told * told
        inside = MOST_FIT * (1.0 - HAIR)
        if agree * agree < np.inf and square < np.inf:  # else this user contributes nothing
            found[u, 0] = to_units(min(max(agree, -inside), inside), fit_step)
            found[u, 1] = to_units(min(square, inside), fit_step)
    return found.sum(axis=0)
