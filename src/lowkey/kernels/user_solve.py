"""Kernel room: every user's own ridge regression on fixed item factors; shared by training and by serving."""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import njit, prange


@njit(cache=True, parallel=True)
def ridge_rows(offsets, items, targets, design, penalty):
    """Row u: argmin over x of the sum over u's entries of (target - design[item] . x)^2, plus x^T penalty x.

    A row depends on its own entries only, to the last bit: not on its neighbours, nor on the number of threads.
    """
    n_users, rank = len(offsets) - 1, design.shape[1]
    solutions = np.zeros((n_users, rank))
    if rank == 0:
        return solutions
    for u in prange(n_users):
        gram = penalty.copy()
        rhs = np.zeros(rank)
        for p in range(offsets[u], offsets[u + 1]):
            row = design[items[p]]
            for a in range(rank):
                rhs[a] += targets[p] * row[a]
                for b in range(rank):
                    gram[a, b] += row[a] * row[b]
        if offsets[u + 1] > offsets[u]:
            solutions[u] = np.linalg.solve(gram, rhs)
    return solutions
