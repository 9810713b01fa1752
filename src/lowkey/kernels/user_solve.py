"""Kernel room: every user's own ridge regression on fixed item factors; shared by training and by serving."""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit

from lowkey.kernels.threads import over_rows


def ridge_rows(offsets, items, targets, design, penalty):
    """All users' solutions, in threads where they are many."""
    return over_rows(ridge_of_each, offsets, items, targets, design, penalty)


@njit(cache=True, error_model="numpy", nogil=True)
def ridge_of_each(offsets, items, targets, design, penalty):
    """Row u: argmin over x of the sum over u's entries of (target - design[item] . x)^2, plus x^T penalty x.

    A row depends on its own entries only, to the last bit: not on its neighbours, nor on the number of threads.
    """
    n_users, rank = len(offsets) - 1, design.shape[1]
    solutions = np.zeros((n_users, rank))
    if rank == 0:
        return solutions
    for u in range(n_users):
        if offsets[u + 1] > offsets[u]:
            gram = penalty.copy()
            for p in range(offsets[u], offsets[u + 1]):
                row, target = design[items[p]], targets[p]
                for a in range(rank):
                    solutions[u, a] += target * row[a]
                    for b in range(a + 1):  # the lower triangle is all that is read
                        gram[a, b] += row[a] * row[b]
            _solve(gram, solutions[u])
    return solutions


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
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
