"""Kernel room: the users' half of ``DPFactors``: one round's residuals against everybody's own factors.

| letter | meaning | our word |
|---|---|---|
| y | rating less center and item bias | |
| s | own ridge solution on the rows (1, v_j) of the rated items: an offset, then the user's factor u | |
| e | what u, solved without item j, leaves of y_j | leave-one-out residual |
| b | how much of a row an item's bias takes: public | ``bias_scales`` |
| p | (b_j, u without item j): what item j's bias, in units of b_j, and factor are regressed on | |
| w | public item weights on the rated items, scaled to norm 1 | ``item_weights`` |

Leaving item j out of the user's own side keeps the noise of y_j from standing on both sides of the regression. It takes
no second solve: with A the user's ridge matrix and h = a . A^-1 a for a = (1, v_j), e = (y_j - a . s)/(1 - h) and the
solution without j is s - e A^-1 a (Sherman and Morrison). Paper: ours (docs/factors.md).
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import get_num_threads, njit
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import drop_beyond, fits, shrink_factor, to_units
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.linalg.blas import DGEMM, SGEMM, add_gram, outer_gram, product
from lowkey.linalg.definite import invert_positive, spare_size
from lowkey.linalg.packed import pack
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape

UPDATE_BITS, MOMENT_BITS = 30, 20  # of a coordinate; products have twice as many, and int64 holds the sum over 2^23 users
EXACT_USERS = 1 << 13  # of whom float64 holds the sum of products of 2 * MOMENT_BITS bits exactly
SLICE = 64  # users dealt to a thread at a time
EXTRA = 4  # coordinates of the second moments beside the factor: 1, the residual, the activity and the offset's excess
ACTIVITY, EXCESS = 2.0, 0.5  # scales of the third and the last, so that they are of order one for most users
LARGEST_EXCESS = 8.0  # beyond which it is cut
TAME = 300.0  # |a|^2/ridge up to which a user's solve is well posed in float32


@dataclass(frozen=True, eq=False)
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
    prior: NDArray[np.float64]  # what is expected of each item
    item_factors: NDArray[np.float64]
    item_weights: NDArray[np.float64]
    bias_scales: NDArray[np.float64]
    update_bound: float
    moment_bound: float
    reg: float
    offset_reg: float

    @property
    def update(self) -> str:
        return f"item_update_{self.number}"

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        n_items, rank = self.item_factors.shape
        update_grid, moment_grid = self._grids()
        moments = Sensitivity.of_acute_vectors(self.moment_bound**2)
        return (
            Statistic(self.update, (n_items, rank + 1), update_grid, Sensitivity.of_vectors(self.update_bound), 1),
            Statistic("user_moments", symmetric_shape(rank + EXTRA), moment_grid.squared, moments, 1, "symmetric"),
        )

    def _grids(self) -> tuple[Grid, Grid]:
        return Grid.for_bound(self.update_bound, UPDATE_BITS), Grid.for_bound(self.moment_bound, MOMENT_BITS)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        n_items, rank = self.item_factors.shape
        n_users, threads = len(block.offsets) - 1, get_num_threads()
        ridge = np.append(self.offset_reg, np.full(rank, self.reg))
        design, routine = self._design(ridge)
        bounds = np.array([self.update_bound, self.moment_bound, *(grid.step for grid in self._grids())])
        updates = np.zeros((threads, n_items, rank + 1), np.int64)
        moments = np.zeros((n_users, rank + EXTRA))
        rows = (block.offsets, block.items, block.values)
        facts = (self.prior, design, self.item_weights, self.bias_scales, ridge, bounds, moments, routine)

        def part(thread: int) -> None:
            _contribute(thread, threads, *rows, *facts, updates[thread])

        if threads == 1:
            part(0)
        else:  # a prange over a loop this long takes twice as long to compile
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, range(threads)))
        sums[self.update] += updates.sum(axis=0)
        for first in range(0, n_users, EXACT_USERS):
            some = moments[first : first + EXACT_USERS]
            sums["user_moments"] += pack(some.T @ some).astype(np.int64)
        return None

    def _design(self, ridge: NDArray[np.float64]) -> tuple[NDArray[Any], int]:
        """Rows (1, v_j) and the gemm for them: in float32, twice as fast, where public facts say that it will do.

        An item left out divides by 1 - h >= 1/(1 + a . ridge^-1 a): this must not be near the rounding error.
        """
        design = np.column_stack([np.ones(len(self.item_factors)), self.item_factors])
        with np.errstate(over="ignore", invalid="ignore"):
            tame = bool((design**2 @ (1.0 / ridge)).max() < TAME)
        return (design.astype(np.float32), SGEMM) if tame else (design, DGEMM)


# A division by zero is no number here, and such a user adds nothing: an exception would tell that there is one.
@njit(cache=True, nogil=True, error_model="numpy")
def _contribute(
    thread, threads, offsets, items, values, prior, design, weights, bias_scales, ridge, bounds, moments, routine, update,
):  # fmt: skip
    """A thread adds its users' matrices to its own totals, and writes their vectors x, all in grid units."""
    n_users, size = len(offsets) - 1, design.shape[1]
    update_bound, moment_bound, update_step, moment_step = bounds
    longest = 0
    for u in range(n_users):
        longest = max(longest, offsets[u + 1] - offsets[u])
    a = np.empty((longest, size), design.dtype)  # (1, v_j)
    rows = np.empty((longest, size), design.dtype)  # A^-1 (1, v_j), then p
    y, w, b = np.empty(longest), np.empty(longest), np.empty(longest)  # y is then w e
    solution, root, squares = np.empty(size), np.empty(size, design.dtype), np.empty(size)
    inverse, spare = np.empty(size * size, design.dtype), np.empty(spare_size(size), design.dtype)
    for part in range(thread, (n_users + SLICE - 1) // SLICE, threads):
        for u in range(part * SLICE, min(n_users, (part + 1) * SLICE)):
            lo, m = offsets[u], offsets[u + 1] - offsets[u]
            if m == 0:
                continue
            own = items[lo : lo + m]
            _gather(own, values[lo : lo + m], prior, design, weights, bias_scales, a, y, w, b)
            if m >= size:
                solved = _primal(a, y, m, ridge, inverse, spare, solution, rows, routine)
            else:
                solved = _dual(a, y, m, ridge, inverse, spare, root, solution, rows, routine)
            if not solved:  # defined, and a function of this user alone
                continue
            total_weight, variance, seen, bias_square = _leave_one_out(a, y, w, b, m, solution, rows)
            mean_square, squared_norm = _squared_norms(rows, y, w, m)
            mean_square /= total_weight
            scale = 1.0 / math.sqrt(mean_square)
            squared_norm *= scale * scale
            clip = shrink_factor(squared_norm, update_bound)
            if not squared_norm * clip < np.inf:  # this user contributes nothing
                continue
            _add_rows(own, rows, y, clip * scale / update_step, update_bound, update_step, squares, update)
            x = moments[u]
            x[0], x[size], x[size + 1] = 1.0, math.sqrt(variance) / update_bound, ACTIVITY * float(m) ** -0.25
            x[size + 2] = EXCESS * min(solution[0] ** 2 * ridge[0] / ridge[size - 1] - seen, LARGEST_EXCESS)
            square = 1e-300
            for k in range(1, size):
                square += solution[k] ** 2
            # As long as the factors that leave an item out:
            shorter = math.sqrt(max(mean_square - bias_square, 0.0) / square)
            for k in range(1, size):
                x[k] = solution[k] * shorter
            length = math.sqrt(clip * total_weight * scale)
            square = 0.0
            for k in range(len(x)):
                x[k] *= length
                square += x[k] ** 2
            clip = shrink_factor(square, moment_bound)
            for k in range(len(x)):
                x[k] = float(to_units(clip * x[k], moment_step))
            drop_beyond(x, moment_bound, moment_step)


@njit(cache=True, error_model="numpy")
def _gather(own, values, prior, design, weights, bias_scales, a, y, w, b):
    squared = 0.0
    for p in range(len(own)):
        j = own[p]
        y[p] = values[p] - prior[j]
        w[p], b[p] = weights[j], bias_scales[j]
        squared += w[p] * w[p]
        row, to = design[j], a[p]
        for k in range(len(row)):
            to[k] = row[k]
    for p in range(len(own)):
        w[p] /= math.sqrt(squared)


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _primal(a, y, m, ridge, inverse, spare, solution, rows, routine):
    """``rows`` = a A^-1 and the solution A^-1 a^T y, A = a^T a + ridge. False where there is none."""
    size = len(solution)
    square = inverse.reshape(size, size)
    add_gram(a, size, m, 0.0, square, routine)
    for k in range(size):
        square[k, k] += ridge[k]
    if not invert_positive(square, spare, routine):
        return False
    product(a, square, m, size, size, rows, routine)
    solution[:] = 0.0
    for p in range(m):
        gain, target = rows[p], y[p]
        for k in range(size):
            solution[k] += gain[k] * target
    return True


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _dual(a, y, m, ridge, inverse, spare, root, solution, rows, routine):
    """The same for a user with fewer ratings than coefficients: a A^-1 = (b b^T + 1)^-1 b ridge^-1/2, b = a ridge^-1/2."""
    size = len(solution)
    square = inverse[: m * m].reshape(m, m)
    for k in range(size):
        root[k] = 1.0 / math.sqrt(ridge[k])
    for p in range(m):
        row = a[p]
        for k in range(size):
            row[k] *= root[k]
    outer_gram(a, m, size, square, routine)
    for p in range(m):
        square[p, p] += 1.0
    if not invert_positive(square, spare, routine):
        return False
    product(square, a, m, m, size, rows, routine)
    solution[:] = 0.0
    for p in range(m):
        gain, row, target = rows[p], a[p], y[p]
        for k in range(size):
            gain[k] *= root[k]
            solution[k] += gain[k] * target
            row[k] /= root[k]
    return True


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _leave_one_out(a, y, w, b, m, solution, rows):
    """``rows``, given as A^-1 a, become p, and y becomes w e.

    Sum of w, mean of e_loo e_in, the share of an offset that is seen, and the w-weighted mean of b^2.
    """
    size = len(solution)
    total_weight, variance, seen, bias_square = 0.0, 0.0, 0.0, 0.0
    for p in range(m):
        row, gain = a[p], rows[p]
        leverage, fitted = 0.0, 0.0
        for k in range(size):
            leverage += row[k] * gain[k]
            fitted += row[k] * solution[k]
        seen += gain[0]
        residual = (y[p] - fitted) / (1.0 - leverage)
        for k in range(1, size):
            gain[k] = solution[k] - gain[k] * residual
        gain[0] = b[p]
        bias_square += w[p] * b[p] * b[p]
        y[p] = w[p] * residual
        total_weight += w[p]
        variance += y[p] * y[p] * (1.0 - leverage)
    return total_weight, variance, seen, bias_square / total_weight


@njit(cache=True, fastmath={"reassoc", "nsz"})
def _squared_norms(rows, y, w, m):
    """Sums of w |p|^2 and (w e)^2 |p|^2, of the rows as they are stored: what is clipped is what is added."""
    mean_square, squared_norm = 0.0, 0.0
    for p in range(m):
        row, square = rows[p], 0.0
        for k in range(len(row)):
            entry = np.float64(row[k])
            square += entry * entry
        mean_square += w[p] * square
        squared_norm += y[p] * y[p] * square
    return mean_square, squared_norm


@njit(cache=True)
def _add_rows(own, rows, y, factor, bound, step, squares, total):
    """In units towards zero, if their norm fits: at most 2^UPDATE_BITS units, so that int32 holds each of them."""
    squares[:] = 0.0
    for p in range(len(own)):
        row, weighted = rows[p], y[p] * factor
        for k in range(len(row)):  # a sum per column: the loop runs on vector units without reordering any sum
            units = np.float64(row[k]) * weighted
            squares[k] += units * units
    if not fits(squares.sum(), bound, step):
        return
    for p in range(len(own)):
        row, to, weighted = rows[p], total[own[p]], y[p] * factor
        for k in range(len(to)):
            to[k] += np.int32(row[k] * weighted)
