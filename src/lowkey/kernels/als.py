"""Kernel room: the users' half of DPALS: each solves for the own factor and adds to the items' normal equations.

| letter | meaning | our word |
|---|---|---|
| u | a user's factor, clipped to norm 1 | the scale is the items' |
| e_j | the user's residual at item j: rating - center - item bias - the user's own offset | target |
| w_j | weight of the user's rating of j: the sum of w_j^2 over the user's items is at most 1 | item_weights, max_ratings |
| G_j, g_j | sums over users of w_j u u^T and of w_j e_j u | item_gram, item_rhs |
| K | the sum of min(1, c s) u u^T over all users, s what turns the user's item weights into w | user_gram |

Paper: DPALS (Chien et al. 2021), Algorithm 1 and, for the choice of ratings, Algorithm 3; the weights are those of
Krichene et al. 2023 (Multi-Task Differential Privacy Under Distribution Skew). Deviates: ``docs/dpals.md``, (a) to (h).
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Block
from lowkey.kernels.bounding import fits, shrink_factor, to_units
from lowkey.kernels.item_equations import SINGLE_RANK, add_equations, owners, taken
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.kernels.user_factors import FACTOR_BITS, user_factors
from lowkey.linalg.packed import pack
from lowkey.privacy.sums import HAIR, Grid, Sensitivity, Statistic, symmetric_shape

FACTOR_GRID = Grid(-FACTOR_BITS)
PEAK = 1 << (2 * FACTOR_BITS)
FINE_BITS = 9  # of a usual coordinate, where the grid is a coarser one


@dataclass(frozen=True, eq=False)
class ItemEquations(Sweep):
    """Round ``round``: every item's Gram matrix G_j and right-hand side g_j, and K if ``unobserved_weight`` is above 0.

    x_j = sqrt(w_j) u and t_j = sqrt(w_j) e_j are truncated towards zero; products x_j x_j^T and t_j x_j are exact.
    Stack of G_j: its squared norm is the sum of |x_j|^4 <= sum of w_j^2 |u|^4 <= 1, and it is positive semidefinite,
    so replace-one is sqrt(2). Stack of g_j: the sum of t_j^2 |x_j|^2 <= sum of w_j^2 e_j^2 |u|^2 <= row_bound^2, as the
    row (w_j e_j) is clipped to norm row_bound; replace-one is twice that. K: |u u^T|_F <= 1, again acute, also after the
    factor min(1, c s), c = ``user_gram_scale``, with which a user weighs in the implicit term as in the ratings.
    What these bounds rest on is looked at as it is added: |u| by ``user_factors``, w_j and t_j by ``_row_sides``.
    With ``misfit_bound`` > 0 also the pair (q/misfit_bound clipped to 1, 1) of every user with ratings, q >= 0 the misfit
    of the own ridge regression: two pairs from [0, 1]^2 are at most sqrt(2) apart, and so is one from nothing.
    No coordinate of one user exceeds 2^36 units: |x_j|^2 <= 1 and |t_j x_j| <= row_bound.
    """

    round: int
    prior: NDArray[np.float64]  # what is expected of each item
    item_weights: NDArray[np.float64]  # 0: the item takes no part
    rarity: NDArray[np.int64] | None  # a public order of the items for ``max_ratings``; None: each user draws
    item_factors: NDArray[np.float64]  # columns orthogonal where ``unobserved_weight`` is above 0
    row_bound: float
    offset_reg: float | None  # None: no offset of the user's own
    user_reg: float
    unobserved_weight: float = 0.0
    max_ratings: int | None = None  # rarest items first, or a draw; None: all of them, by item weight
    user_gram_scale: float = 1.0
    misfit_bound: float = 0.0  # 0: no misfits are summed

    @property
    def names(self) -> tuple[str, str, str, str]:
        return f"item_gram_{self.round}", f"item_rhs_{self.round}", f"user_gram_{self.round}", f"misfit_{self.round}"

    @property
    def factor_grid(self) -> Grid:
        """Of x_j: FACTOR_GRID, or from SINGLE_RANK on a coarser one, so that products of many users are exact in float32.

        A coordinate of x_j is of the order of |u| sqrt(w/rank), w the largest weight that there can be: sqrt(w/rank) gets
        FINE_BITS bits, and in round 0, where everybody's |u| is 1, one less. Then the sums of squares of a hundred users
        stay below 2^24.
        """
        rank = self.item_factors.shape[1]
        if rank < SINGLE_RANK:
            return FACTOR_GRID
        largest = 1.0  # somebody with one rating
        if self.max_ratings is not None:
            largest = min(1.0, float(np.max(self.item_weights)) / math.sqrt(self.max_ratings))
        bits = FINE_BITS - (self.round == 0) + 0.5 * math.log2(rank / largest) if largest > 0.0 else FACTOR_BITS
        return Grid(-min(FACTOR_BITS, round(bits)))

    @property
    def row_grid(self) -> Grid:
        return Grid.for_bound(self.row_bound, FACTOR_BITS)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        n_items, rank = self.item_factors.shape
        gram, rhs, users, misfit = self.names
        acute = Sensitivity.of_acute_vectors(1.0)
        row = Sensitivity.of_vectors(self.row_bound)
        products = Grid(self.factor_grid.exponent + self.row_grid.exponent)
        found = (
            Statistic(gram, symmetric_shape(rank, n_items), self.factor_grid.squared, acute, PEAK, "symmetric"),
            Statistic(rhs, (n_items, rank), products, row, PEAK),
        )
        if self.unobserved_weight > 0.0:
            found += (Statistic(users, symmetric_shape(rank), FACTOR_GRID.squared, acute, PEAK, "symmetric"),)
        if self.misfit_bound > 0.0:
            apart = math.sqrt(2.0)
            found += (Statistic(misfit, (2,), FACTOR_GRID.squared, Sensitivity(apart, apart), PEAK),)
        return found

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        weights = np.ascontiguousarray(self.item_weights, np.float64)
        places = self._places(block)
        roots = np.sqrt(weights)
        targets, root_scale, row_scale, cutoff = self._row_sides(block, weights, roots, places)
        factors, misfits = self._factors(block, targets, weights)
        gram, rhs, users, misfit = self.names
        rows, shares = (block.offsets, block.items, targets), (roots, root_scale, row_scale, places, cutoff)
        units = (FACTOR_GRID.step / self.factor_grid.step, 1.0 / self.row_grid.step)
        add_equations(rows, factors, shares, units, sums[gram], sums[rhs])
        if self.unobserved_weight > 0.0:
            with np.errstate(invalid="ignore"):
                shares = np.sqrt(np.minimum(1.0, self.user_gram_scale * root_scale**2))
            shares[~(shares <= 1.0)] = 0.0  # no number: no contribution
            whole = np.trunc(shares[:, None] * factors)  # whole numbers, so that the product is exact
            sums[users] += pack(whole.T @ whole).astype(np.int64)
        if self.misfit_bound > 0.0:
            _add_misfits(block.offsets, misfits, self.misfit_bound, FACTOR_GRID.squared.step, sums[misfit])
        return None

    def _places(self, block: Block) -> NDArray[np.uint64]:
        """Per rating where it stands in its user's order: by rarity, else by a hash of user and item. Empty: all count."""
        if self.max_ratings is None or self.max_ratings >= len(self.item_weights):
            return np.zeros(0, np.uint64)
        if self.rarity is not None:
            return np.ascontiguousarray(self.rarity, np.uint64)[block.items]
        return splitmix64(block.keys[owners(block.offsets)] ^ splitmix64(block.items.astype(np.uint64)))

    def _row_sides(self, block: Block, weights: Any, roots: Any, places: Any) -> Any:
        has_offset, offset_reg = self.offset_reg is not None, self.offset_reg or 0.0
        cap = 0 if self.max_ratings is None else self.max_ratings
        bounds = (has_offset, offset_reg, self.row_bound, 1.0 / self.row_grid.step, cap)
        targets = np.empty(len(block.items), np.float32)
        public = (self.prior, weights, roots)
        return targets, *_row_sides(block.offsets, block.items, block.values, *public, places, *bounds, targets)

    def _factors(self, block: Block, targets: Any, weights: NDArray[np.float64]) -> Any:
        design = np.asarray(self.item_factors, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # a factor that is no number makes no contribution
            ridge = (self.unobserved_weight * (design * design).sum(axis=0)).astype(np.float32)
            regs = np.full(len(block.offsets) - 1, self.user_reg, np.float32)
            design = np.ascontiguousarray(design, np.float32)
        return user_factors(block.offsets, block.items, targets, weights > 0.0, design, ridge, regs)


@njit(cache=True, error_model="numpy")
def _add_misfits(offsets, misfits, bound, step, total):
    for u in range(len(misfits)):
        if offsets[u + 1] > offsets[u]:
            share = misfits[u] / bound
            share = min(max(share, 0.0), 1.0 - HAIR) if share == share else 0.0  # no number: an overflow
            total[0] += to_units(share, step)
            total[1] += to_units(1.0 - HAIR, step)


@njit(cache=True, error_model="numpy", parallel=True)
def _row_sides(
    offsets, items, values, prior, weights, roots, places, has_offset, offset_reg, row_bound, per_unit, cap, targets
):  # fmt: skip
    """``targets`` per entry; per user sqrt of what turns item weights into w, what shrinks e, and the last item taken.

    With a cap the user takes the first ``cap`` items of the own order and the scale is 1/sqrt(cap) at most, so equal
    weights of 1 are not favoured for a short row; without, the scale brings the weights to norm 1. Both bounded sums
    are taken again, of the very numbers that ``add_equations`` multiplies: who is beyond a bound gets the scale 0.
    """
    n_users = len(offsets) - 1
    root_scale, row_scale = np.zeros(n_users), np.zeros(n_users)
    cutoff = np.full(n_users, np.iinfo(np.uint64).max)
    for u in prange(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        offset = 0.0
        if has_offset and hi > lo:
            for p in range(lo, hi):
                offset += values[p] - prior[items[p]]
            offset /= hi - lo + offset_reg
        for p in range(lo, hi):
            targets[p] = np.float32(values[p] - prior[items[p]] - offset)
        if 0 < cap < hi - lo and len(places):
            cutoff[u] = np.sort(places[lo:hi])[cap - 1]
        total = 0.0
        for p in range(lo, hi):
            if taken(places, p, cutoff[u]):
                total += weights[items[p]] ** 2
        total = max(total, float(cap))
        scale = (1.0 - HAIR) / math.sqrt(total) if 0.0 < total < np.inf else 0.0
        squared = 0.0
        for p in range(lo, hi):
            if taken(places, p, cutoff[u]):
                squared += (scale * weights[items[p]] * np.float64(targets[p])) ** 2
        root_scale[u] = math.sqrt(scale)
        row_scale[u] = shrink_factor(squared, row_bound)
        fourth, squared = 0.0, 0.0
        for p in range(lo, hi):
            if taken(places, p, cutoff[u]):
                root = roots[items[p]] * root_scale[u]
                t = root * (row_scale[u] * np.float64(targets[p])) * per_unit  # in units; truncated, it is no larger
                fourth += (root * root) * (root * root)
                squared += (root * t) * (root * t)
        if not (fits(fourth, 1.0, 1.0) and fits(squared, row_bound * per_unit, 1.0)):
            root_scale[u] = 0.0
    return root_scale, row_scale, cutoff
