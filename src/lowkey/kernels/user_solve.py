"""Kernel room: every user's own ridge regression on fixed item factors; shared by training and by serving."""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, prange

FEW_ROWS = 64  # up to here the rows are one thread's: safe among threads and after a fork, and threads would start too late


def ridge_rows(offsets, items, targets, design, penalty):
    """Row u: argmin over x of the sum over u's entries of (target - design[item] . x)^2, plus x^T penalty x.

    A row depends on its own entries only, to the last bit: not on its neighbours, nor on the number of threads.
    """
    solutions = np.zeros((len(offsets) - 1, design.shape[1]))
    if solutions.size:
        run = _few_ridge_rows if len(solutions) <= FEW_ROWS else _many_ridge_rows
        run(offsets, items, targets, design, penalty, solutions)
    return solutions


@njit(cache=True, error_model="numpy", parallel=True)
def _many_ridge_rows(offsets, items, targets, design, penalty, solutions):
    for u in prange(len(solutions)):
        _ridge_row(offsets[u], offsets[u + 1], items, targets, design, penalty, solutions[u])


@njit(cache=True, error_model="numpy", nogil=True)
def _few_ridge_rows(offsets, items, targets, design, penalty, solutions):
    for u in range(len(solutions)):
        _ridge_row(offsets[u], offsets[u + 1], items, targets, design, penalty, solutions[u])


@njit(cache=True, error_model="numpy", nogil=True)
def _ridge_row(lo, hi, items, targets, design, penalty, solution):
    if hi == lo:
        return
    rank, gram = len(solution), penalty.copy()
    for p in range(lo, hi):
        row, target = design[items[p]], targets[p]
        for a in range(rank):
            solution[a] += target * row[a]
            for b in range(a + 1):  # the lower triangle is all that is read
                gram[a, b] += row[a] * row[b]
    _solve(gram, solution)


@njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})
def _solve(gram, rhs):
    """Cholesky in place, then both triangles. LAPACK's own solve would be slower on systems this small, and threaded."""
    rank = len(rhs)
    for a in range(rank):
        for b in range(a + 1):
            rest = gram[a, b]
            for c in range(b):
                rest -= gram[a, c] * gram[b, c]
            if b < a:
                gram[a, b] = rest / gram[b, b]
            elif rest > 0.0:
                gram[a, a] = np.sqrt(rest)
            else:  # singular, which a positive penalty rules out: defined, and a function of this row alone
                rhs[:] = 0.0
                return
    for a in range(rank):
        for b in range(a):
            rhs[a] -= gram[a, b] * rhs[b]
        rhs[a] /= gram[a, a]
    for a in range(rank - 1, -1, -1):
        rhs[a] /= gram[a, a]
        for b in range(a):
            rhs[b] -= gram[a, b] * rhs[a]
