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
from numba import get_num_threads, njit, prange

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.kernels.sweep import Local, Public, Sums, Sweep
from lowkey.linalg.blas import DGEMM, add_gram_float64, outer_gram_float64, product_float64
from lowkey.linalg.inverse import invert_positive
from lowkey.linalg.packed import pack
from lowkey.privacy.grid import Grid
from lowkey.privacy.sums import Sensitivity, Statistic, symmetric_shape

UPDATE_BITS = 30
MOMENT_BITS = 20  # of a coordinate; a product has twice as many, and int64 holds the sum over 2^23 users
EXACT_USERS = 1 << 13  # of whom float64 holds the sum of products of 2 * MOMENT_BITS bits exactly
SLICE = 64  # users dealt to a thread at a time
EXTRA = 4  # coordinates of the second moments beside the factor: 1, the residual, the activity and the offset's excess
ACTIVITY = 2.0  # scale of the third, so that it is of order one for most users
EXCESS = 0.5  # scale of the last
LARGEST_EXCESS = 8.0  # beyond which it is cut


@dataclass(frozen=True)
class FactorRound(Sweep):
    """Per item the sum of w e p (``item_update_t``), and over users the second moments of what it was made of.

    Update: a user's whole matrix (w_j e_j p_j / N)_j, N^2 the w-weighted mean of |p_j|^2, is clipped to Frobenius norm
    ``update_bound`` by one factor c, then truncated entry by entry. Arbitrary vectors: replace-one doubles.
    Moments: x = sqrt(c W/N) (1, u, e/update_bound, ACTIVITY m^(-1/4), EXCESS d), W the sum of w, e the root mean square
    residual, clipped to norm ``moment_bound``, truncated, then multiplied exactly: x x^T is positive semidefinite of
    Frobenius norm |x|^2 <= moment_bound^2, so replace-one is sqrt(2) times add/remove. d compares the user's offset s with
    its prior variance t^2 = reg/offset_reg: with b the share of an offset that the ridge lets through, E[s^2] = t^2 b if t
    is right, so d = s^2/t^2 - b has mean 0 then.
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
        n_items, rank = public["item_factors"].shape
        n_users, threads = len(block.offsets) - 1, get_num_threads()
        design = np.column_stack([np.ones(n_items), public["item_factors"]])
        ridge = np.append(self.offset_reg, np.full(rank, self.reg))
        update_grid, moment_grid = self._grids()
        bounds = (self.update_bound, self.moment_bound, 1.0 / update_grid.step, moment_grid.step)
        updates = np.zeros((threads, n_items, rank + 1), np.int64)
        moments = np.zeros((n_users, rank + EXTRA))
        rows = (block.offsets, block.items, block.values)
        _contribute(*rows, prior, design, public["item_weights"], ridge, *bounds, updates, moments, DGEMM)
        sums[self.update] += updates.sum(axis=0)
        for first in range(0, n_users, EXACT_USERS):
            some = moments[first : first + EXACT_USERS]
            sums["user_moments"] += pack(some.T @ some).astype(np.int64)
        return None


@njit(cache=True, parallel=True)
def _contribute(
    offsets,
    items,
    values,
    prior,
    design,
    weights,
    ridge,
    update_bound,
    moment_bound,
    per_update_unit,
    moment_step,
    updates,
    moments,
    dgemm,
):
    """Every thread adds its users' update matrices to its own total, and writes their vectors x, all in grid units."""
    n_users, size = len(offsets) - 1, design.shape[1]
    longest = 0
    for u in range(n_users):
        longest = max(longest, offsets[u + 1] - offsets[u])
    for thread in prange(len(updates)):
        a, rows = np.empty((longest, size)), np.empty((longest, size))  # (1, v_j); then A^-1 (1, v_j); then w e p
        y, w = np.empty(longest), np.empty(longest)
        inverse, solution, spare = np.empty(size * size), np.empty(size), np.empty((3, size))
        for part in range(thread, (n_users + SLICE - 1) // SLICE, len(updates)):
            for u in range(part * SLICE, min(n_users, (part + 1) * SLICE)):
                lo, m = offsets[u], offsets[u + 1] - offsets[u]
                if m == 0:
                    continue
                own = items[lo : lo + m]
                _gather(own, values[lo : lo + m], prior, design, weights, a, y, w)
                if m >= size:
                    solved = _primal(a, y, m, ridge, inverse, spare, solution, rows, dgemm)
                else:
                    solved = _dual(a, y, m, ridge, inverse, spare, solution, rows, dgemm)
                if not solved:  # defined, and a function of this user alone
                    continue
                total_weight, mean_square, squared_norm, variance, seen = _leave_one_out(a, y, w, m, solution, rows)
                scale = 1.0 / math.sqrt(mean_square)
                clip = shrink_factor(squared_norm * scale * scale, update_bound)
                if not squared_norm * clip * scale < np.inf:  # infinite or no number: this user contributes nothing
                    continue
                _add_rows(own, rows, clip * scale * per_update_unit, updates[thread])
                x = moments[u]
                x[0], x[size], x[size + 1] = 1.0, math.sqrt(variance) / update_bound, ACTIVITY * float(m) ** -0.25
                x[size + 2] = EXCESS * min(solution[0] ** 2 * ridge[0] / ridge[size - 1] - seen, LARGEST_EXCESS)
                square = 1e-300
                for k in range(1, size):
                    square += solution[k] ** 2
                shorter = math.sqrt(max(mean_square - 1.0, 0.0) / square)  # as long as the factors that leave an item out
                for k in range(1, size):
                    x[k] = solution[k] * shorter
                root = math.sqrt(clip * total_weight * scale)
                square = 0.0
                for k in range(len(x)):
                    x[k] *= root
                    square += x[k] ** 2
                clip = shrink_factor(square, moment_bound)
                for k in range(len(x)):
                    x[k] = float(to_units(clip * x[k], moment_step))


@njit(cache=True)
def _gather(own, values, prior, design, weights, a, y, w):
    squared = 0.0
    for p in range(len(own)):
        j = own[p]
        y[p] = values[p] - prior[j]
        w[p] = weights[j]
        squared += w[p] * w[p]
        row, to = design[j], a[p]
        for k in range(len(row)):
            to[k] = row[k]
    for p in range(len(own)):
        w[p] /= math.sqrt(squared)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _primal(a, y, m, ridge, inverse, spare, solution, rows, dgemm):
    """``rows`` = a A^-1 and the solution A^-1 a^T y, A = a^T a + ridge. False where there is none."""
    size = len(solution)
    square = inverse.reshape(size, size)
    add_gram_float64(a, size, m, 0.0, square, dgemm)
    for k in range(size):
        square[k, k] += ridge[k]
    if not invert_positive(square, spare[0]):
        return False
    product_float64(a, square, m, size, size, rows, dgemm)
    rhs = spare[0]
    rhs[:] = 0.0
    for p in range(m):
        row, target = a[p], y[p]
        for k in range(size):
            rhs[k] += row[k] * target
    for k in range(size):
        row, total = square[k], 0.0
        for b in range(size):
            total += row[b] * rhs[b]
        solution[k] = total
    return True


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _dual(a, y, m, ridge, inverse, spare, solution, rows, dgemm):
    """The same for a user with fewer ratings than coefficients: a A^-1 = (b b^T + 1)^-1 b ridge^-1/2, b = a ridge^-1/2."""
    size = len(solution)
    square = inverse[: m * m].reshape(m, m)
    root = spare[1]
    for k in range(size):
        root[k] = 1.0 / math.sqrt(ridge[k])
    for p in range(m):
        row = a[p]
        for k in range(size):
            row[k] *= root[k]
    outer_gram_float64(a, m, size, square, dgemm)
    for p in range(m):
        square[p, p] += 1.0
    if not invert_positive(square, spare[0]):
        return False
    product_float64(square, a, m, m, size, rows, dgemm)
    solution[:] = 0.0
    for p in range(m):
        gain, row, target = rows[p], a[p], y[p]
        for k in range(size):
            gain[k] *= root[k]
            solution[k] += gain[k] * target
            row[k] /= root[k]
    return True


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _leave_one_out(a, y, w, m, solution, rows):
    """``rows``, given as A^-1 a, become w e p.

    Sum of w, w-mean of |p|^2, squared norm of the rows, mean of e_loo e_in, and the share of an offset that is seen.
    """
    size = len(solution)
    total_weight, mean_square, squared_norm, variance, seen = 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(m):
        row, gain = a[p], rows[p]
        leverage, fitted = 0.0, 0.0
        for k in range(size):
            leverage += row[k] * gain[k]
            fitted += row[k] * solution[k]
        seen += gain[0]
        residual = (y[p] - fitted) / (1.0 - leverage)
        weighted = w[p] * residual
        square, norm = 1.0, weighted * weighted
        for k in range(1, size):
            own = solution[k] - gain[k] * residual
            square += own * own
            gain[k] = weighted * own
            norm += gain[k] * gain[k]
        gain[0] = weighted
        total_weight += w[p]
        mean_square += w[p] * square
        squared_norm += norm
        variance += weighted * weighted * (1.0 - leverage)
    return total_weight, mean_square / total_weight, squared_norm, variance, seen


@njit(cache=True)
def _add_rows(own, rows, factor, total):
    """In units towards zero; after the clip no number exceeds 2^UPDATE_BITS units, which int32 holds."""
    for p in range(len(own)):
        row, to = rows[p], total[own[p]]
        for k in range(len(to)):
            to[k] += np.int32(row[k] * factor)
