"""Kernel room: the users' half of ``DPFactors``: one round's residuals against everybody's own factors.

| letter | meaning | our word |
|---|---|---|
| y | rating less center and item bias | |
| s | own ridge solution on the rows (1, v_j) of the rated items: an offset, then the user's factor u | |
| e | what u, solved without item j, leaves of y_j | leave-one-out residual |
| p | (1, u without item j): what item j's bias and factor are regressed on | |
| w | public item weights on the rated items, scaled to norm 1 | ``public["item_weights"]`` |

Leaving item j out of the user's own side keeps the noise of y_j from standing on both sides of the regression. It takes
no second solve: with A the user's ridge matrix and h = a . A^-1 a for a = (1, v_j), e = (y_j - a . s)/(1 - h) and the
solution without j is s - e A^-1 a (Sherman and Morrison). Paper: ours (docs/factors.md).
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.kernels.sweep import Local, Public, Sums, Sweep
from lowkey.privacy.grid import Grid
from lowkey.privacy.sums import Sensitivity, Statistic, symmetric_shape

UPDATE_BITS = 30
MOMENT_BITS = 20  # of a coordinate; a product has twice as many, and int64 holds the sum over 2^23 users
PIECE_ENTRIES = 1 << 15  # ratings whose contributions are held at a time
EXTRA = 3  # coordinates of the second moments beside the factor: 1, the residual and the activity
ACTIVITY = 2.0  # scale of the last one, so that it is of order one for most users


@dataclass(frozen=True)
class FactorRound(Sweep):
    """Per item the sum of w e p (``item_update_t``), and over users the second moments of what it was made of.

    Update: a user's whole matrix (w_j e_j p_j / N)_j, N^2 the w-weighted mean of |p_j|^2, is clipped to Frobenius norm
    ``update_bound`` by one factor c, then truncated entry by entry. Arbitrary vectors: replace-one doubles.
    Moments: x = sqrt(c W/N) (1, u, e/update_bound, ACTIVITY m^(-1/4)), W the sum of w, e the root mean square residual,
    clipped to norm ``moment_bound``, truncated, then multiplied exactly: x x^T is positive semidefinite of Frobenius
    norm |x|^2 <= moment_bound^2, so replace-one is sqrt(2) times add/remove.
    """

    number: int
    update_bound: float
    moment_bound: float
    reg: float
    offset_reg: float

    @property
    def update(self) -> str:
        return f"item_update_{self.number}"

    def statistics(self, public: Public) -> tuple[Statistic, ...]:
        n_items, rank = public["item_factors"].shape
        update_grid, moment_grid = self._grids()
        moments = Sensitivity.of_acute_vectors(self.moment_bound**2)
        return (
            Statistic(self.update, (n_items, rank + 1), update_grid, Sensitivity.of_vectors(self.update_bound), 1),
            Statistic("user_moments", symmetric_shape(rank + EXTRA), moment_grid.squared, moments, 1, "symmetric"),
        )

    def _grids(self) -> tuple[Grid, Grid]:
        return Grid.for_bound(self.update_bound, UPDATE_BITS), Grid.for_bound(self.moment_bound, MOMENT_BITS)

    def run(self, block: Block, local: Local, public: Public, sums: Sums) -> Local:
        prior = public["center"] + public["item_bias"]
        update_grid, moment_grid = self._grids()
        bounds = (self.reg, self.offset_reg, self.update_bound, self.moment_bound, update_grid.step, moment_grid.step)
        first, n_users = 0, len(block.offsets) - 1
        while first < n_users:
            last = max(first + 1, int(np.searchsorted(block.offsets, block.offsets[first] + PIECE_ENTRIES)) - 1)
            lo, hi = block.offsets[first], block.offsets[last]
            piece = (block.offsets[first : last + 1] - lo, block.items[lo:hi], block.values[lo:hi])
            updates, moments = _contributions(*piece, prior, public["item_factors"], public["item_weights"], *bounds)
            _add_rows(piece[1], updates, sums[self.update])
            _add_squares(moments, sums["user_moments"])
            first = last
        return None


@njit(cache=True, parallel=True)
def _contributions(
    offsets, items, values, prior, factors, weights, reg, offset_reg, update_bound, moment_bound, update_step, moment_step
):
    """Per rating its row of the update, and per user the vector x, both in grid units; each from the own row alone."""
    n_users, size = len(offsets) - 1, factors.shape[1] + 1
    updates = np.zeros((len(items), size), np.int64)
    moments = np.zeros((n_users, size + EXTRA - 1), np.int64)
    for u in prange(n_users):
        lo, hi = offsets[u], offsets[u + 1]
        if hi == lo:
            continue
        inverse = np.zeros((size, size))
        solution = np.zeros(size)
        _own_ridge(items[lo:hi], values[lo:hi], prior, factors, reg, offset_reg, inverse, solution)
        squared_weight = 0.0
        for p in range(lo, hi):
            squared_weight += weights[items[p]] ** 2
        total_weight, mean_square, squared_norm, variance = 0.0, 0.0, 0.0, 0.0
        rows = np.empty((hi - lo, size))  # w e p
        gain = np.empty(size)
        for p in range(lo, hi):
            j = items[p]
            residual = values[p] - prior[j] - solution[0]
            gain[:] = inverse[0]
            for b in range(1, size):  # column by column (the inverse is symmetric): the inner loop has no running sum
                part, column = factors[j, b - 1], inverse[b]
                for a in range(size):
                    gain[a] += column[a] * part
            leverage = gain[0]
            for a in range(1, size):
                leverage += gain[a] * factors[j, a - 1]
                residual -= solution[a] * factors[j, a - 1]
            residual /= 1.0 - leverage
            weight = weights[j] / math.sqrt(squared_weight)
            rows[p - lo, 0] = weight * residual
            square = 1.0
            for a in range(1, size):
                own = solution[a] - gain[a] * residual
                rows[p - lo, a] = weight * residual * own
                square += own * own
            total_weight += weight
            mean_square += weight * square
            squared_norm += (weight * residual) ** 2 * square
            variance += (weight * residual) ** 2 * (1.0 - leverage)
        mean_square /= total_weight
        scale = 1.0 / math.sqrt(mean_square)
        clip = shrink_factor(squared_norm * scale * scale, update_bound)
        for p in range(hi - lo):
            for a in range(size):
                updates[lo + p, a] = to_units(clip * scale * rows[p, a], update_step)
        x = np.empty(size + EXTRA - 1)
        x[0], x[size], x[size + 1] = 1.0, math.sqrt(variance) / update_bound, ACTIVITY * float(hi - lo) ** -0.25
        square = 1e-300
        for a in range(1, size):
            square += solution[a] ** 2
        shorter = math.sqrt(max(mean_square - 1.0, 0.0) / square)  # as long as the factors that leave an item out
        for a in range(1, size):
            x[a] = solution[a] * shorter
        root = math.sqrt(clip * total_weight * scale)
        square = 0.0
        for a in range(len(x)):
            x[a] *= root
            square += x[a] ** 2
        clip = shrink_factor(square, moment_bound)
        for a in range(len(x)):
            moments[u, a] = to_units(clip * x[a], moment_step)
    return updates, moments


@njit(cache=True, nogil=True)
def _own_ridge(items, values, prior, factors, reg, offset_reg, inverse, solution):
    """The inverse of the ridge matrix of the rows (1, v_j), and the solution, in place: an offset, then the factor."""
    size = len(solution)
    gram = np.zeros((size, size))
    rhs = np.zeros(size)
    for p in range(len(items)):
        row = factors[items[p]]
        y = values[p] - prior[items[p]]
        gram[0, 0] += 1.0
        rhs[0] += y
        for a in range(1, size):
            gram[a, 0] += row[a - 1]
            rhs[a] += y * row[a - 1]
            part, line, others = row[a - 1], gram[a, 1 : a + 1], row[:a]
            for b in range(a):
                line[b] += part * others[b]
    gram[0, 0] += offset_reg
    for a in range(1, size):
        gram[a, a] += reg
    # Cholesky in place, then the inverse of the triangle, then its square.
    for a in range(size):
        for b in range(a + 1):
            total = gram[a, b]
            for k in range(b):
                total -= gram[a, k] * gram[b, k]
            gram[a, b] = math.sqrt(max(total, 1e-300)) if a == b else total / gram[b, b]
    lower = np.zeros((size, size))
    for b in range(size):
        for a in range(b, size):
            total = 1.0 if a == b else 0.0
            for k in range(b, a):
                total -= gram[a, k] * lower[k, b]
            lower[a, b] = total / gram[a, a]
    for a in range(size):
        for b in range(size):
            for k in range(max(a, b), size):
                inverse[a, b] += lower[k, a] * lower[k, b]
    for a in range(size):
        for b in range(size):
            solution[a] += inverse[a, b] * rhs[b]


@njit(cache=True, nogil=True)
def _add_rows(items, updates, total):
    for p in range(len(items)):
        for a in range(updates.shape[1]):
            total[items[p], a] += updates[p, a]


@njit(cache=True, nogil=True)
def _add_squares(moments, triangle):
    """triangle += sum of x x^T, packed row by row; whole numbers, so exact."""
    for u in range(len(moments)):
        at = 0
        for a in range(moments.shape[1]):
            for b in range(a, moments.shape[1]):
                triangle[at] += moments[u, a] * moments[u, b]
                at += 1
