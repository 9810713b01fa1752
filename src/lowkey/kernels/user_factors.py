"""Kernel room: every user's factor in training: a ridge regression on the own row, clipped to norm 1, on the grid.

Fast where ``user_solve`` is general: float32, one BLAS call per user, and a user with fewer ratings than the rank is
solved in the small dual form (X D^-1 X^T + I of order count in place of X^T X + D of order rank).
Paper: DPALS (Chien et al. 2021), Algorithm 1, A_user. Deviates: ``clip`` is min, not max; truncation to the grid.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

import numpy as np
from numba import get_num_threads, njit, prange

from lowkey.kernels.bounding import drop_beyond, shrink_factor
from lowkey.linalg.blas import SGEMM, add_gram_float32, outer_gram_float32, prefetch_row, solve_factored
from lowkey.linalg.definite import factor_positive

FACTOR_BITS = 18  # products have 36, so that float64 sums over 2^17 users are exact
SLICE = 64  # users dealt to a thread at a time
AHEAD = 8  # rows that are asked for before they are needed
CHUNK = 128  # ratings gathered at a time


def user_factors(offsets, items, targets, active, design, ridge, regs):
    """(n_users, rank) float32 holding whole numbers: factors of norm at most 1 in units of 2^-FACTOR_BITS; and misfits.

    User u minimises the sum over the active items of the row of (target - design[item] . x)^2, plus
    sum_k (ridge_k + regs_u) x_k^2; the misfit is that minimum (before the clip) per active item. If x had been drawn with
    the variances that make this ridge the right one, its mean would be the variance of the targets' own noise.
    Both depend on the own row alone, to the bit, as long as BLAS runs on one thread.
    """
    factors = np.empty((len(offsets) - 1, design.shape[1]), np.float32)
    misfits = np.zeros(len(offsets) - 1)
    threads = get_num_threads()
    _solve_users(offsets, items, targets, active, design, ridge, regs, factors, misfits, threads, SGEMM)
    return factors, misfits


@njit(cache=True, error_model="numpy", parallel=True)
def _solve_users(offsets, items, targets, active, design, ridge, regs, factors, misfits, threads, sgemm):
    n_users, rank = factors.shape
    for thread in prange(threads):
        x = np.empty((max(CHUNK, rank), rank), np.float32)
        c = np.empty(rank * rank, np.float32)
        scratch = np.empty(2 * rank, np.float32)
        solution = np.empty(rank, np.float32)
        kept = np.empty(design.shape[0], np.int64)
        for part in range(thread, (n_users + SLICE - 1) // SLICE, threads):
            for u in range(part * SLICE, min(n_users, (part + 1) * SLICE)):
                n = 0
                for p in range(offsets[u], offsets[u + 1]):
                    if active[items[p]]:
                        kept[n] = p
                        n += 1
                if n >= rank:
                    rest = _primal(kept[:n], items, targets, design, ridge, regs[u], x, c, scratch, solution, sgemm)
                else:
                    rest = _dual(kept[:n], items, targets, design, ridge, regs[u], x, c, scratch, solution, sgemm)
                misfits[u] = rest / max(n, 1)
                _to_grid(solution, factors[u])


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _primal(kept, items, targets, design, ridge, reg, x, c, scratch, solution, sgemm):
    """The minimum is |e|^2 - (X^T e) . solution, e the targets."""
    rank = design.shape[1]
    solution[:] = np.float32(0.0)
    least = 0.0
    beta = np.float32(0.0)
    for start in range(0, len(kept), CHUNK):
        m = min(CHUNK, len(kept) - start)
        for q in range(m):
            p = kept[start + q]
            prefetch_row(design, items[kept[min(start + q + AHEAD, len(kept) - 1)]])
            row, target = design[items[p]], targets[p]
            least += np.float64(target) * np.float64(target)
            for k in range(rank):
                x[q, k] = row[k]
                solution[k] += row[k] * target
        add_gram_float32(x, rank, m, beta, c, sgemm)
        beta = np.float32(1.0)
    square = c.reshape(rank, rank)
    for k in range(rank):
        square[k, k] += ridge[k] + reg
    scratch[:rank] = solution
    if factor_positive(square, sgemm):
        solve_factored(square, rank, solution)
    else:  # defined, and a function of this user alone
        solution[:] = np.float32(0.0)
    for k in range(rank):
        least -= np.float64(scratch[k]) * np.float64(solution[k])
    return least


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _dual(kept, items, targets, design, ridge, reg, x, c, scratch, solution, sgemm):
    """The minimum is e . (X D^-1 X^T + I)^-1 e, e the targets."""
    rank, n = design.shape[1], len(kept)
    solution[:] = np.float32(0.0)
    least = 0.0
    if n == 0:
        return least
    root, y = scratch[:rank], scratch[rank : rank + n]  # root = D^-1/2
    for k in range(rank):
        root[k] = np.float32(1.0) / np.float32(math.sqrt(ridge[k] + reg))
    for q in range(n):
        prefetch_row(design, items[kept[min(q + AHEAD, n - 1)]])
        row = design[items[kept[q]]]
        y[q] = targets[kept[q]]
        for k in range(rank):
            x[q, k] = row[k] * root[k]
    outer_gram_float32(x, n, rank, c, sgemm)
    square = c[: n * n].reshape(n, n)
    for q in range(n):
        square[q, q] += np.float32(1.0)
    if factor_positive(square, sgemm):
        solve_factored(square, n, y)
        for q in range(n):
            least += np.float64(targets[kept[q]]) * np.float64(y[q])
            for k in range(rank):
                solution[k] += x[q, k] * y[q]
        for k in range(rank):
            solution[k] *= root[k]
    return least


@njit(cache=True, error_model="numpy")
def _to_grid(solution, factor):
    squared = 0.0
    for k in range(len(solution)):
        squared += np.float64(solution[k]) * np.float64(solution[k])
    if not squared < np.inf:  # infinite or no number: this user contributes nothing
        factor[:] = np.float32(0.0)
        return
    scale = shrink_factor(squared, 1.0) * 2.0**FACTOR_BITS
    for k in range(len(solution)):
        factor[k] = np.float32(math.trunc(np.float64(solution[k]) * scale))
    drop_beyond(factor, 1.0, 2.0**-FACTOR_BITS)
