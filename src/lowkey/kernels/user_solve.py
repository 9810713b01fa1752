"""Kernel room: every user's own fit on fixed item factors, by ridge regression or by signs; for training and serving."""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

import numpy as np
from numba import njit

from lowkey.kernels.threads import over_rows

PULL = 20.0  # items that the mean of what was taken is damped by


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


@njit(cache=True, nogil=True)
def _slope(x, probit):
    """h'/h, as in linalg.links."""
    if not probit:
        return 1.0 / (1.0 + math.exp(x)) if x < 700.0 else 0.0
    if x > -25.0:
        return math.sqrt(2.0 / math.pi) * math.exp(-0.5 * x * x) / math.erfc(-x / math.sqrt(2.0))
    return -x / (1.0 - 1.0 / (x * x) * (1.0 - 3.0 / (x * x) * (1.0 - 5.0 / (x * x))))


def sign_rows(offsets, items, signs, factors, ridge, curvature, probit, steps):
    """All users' solutions, in threads where they are many."""
    return over_rows(_signs_of_each, offsets, items, signs, factors, ridge, curvature, probit, steps)


@njit(cache=True, nogil=True)
def _signs_of_each(offsets, items, signs, factors, ridge, curvature, probit, steps):
    """Row u: argmin over x of minus the log-likelihood of u's signs, plus ridge/2 |x|^2, after ``steps`` steps.

    Each step is a ridge regression that majorises the loss (the curvature of ln h is at most c), so every row descends.
    Its matrix does not change from step to step and is inverted once.

    A row depends on its own entries only, to the last bit: not on its neighbours, nor on the number of threads.
    """
    n_users, rank = len(offsets) - 1, factors.shape[1]
    solutions = np.zeros((n_users, rank))
    if rank == 0:
        return solutions
    for u in range(n_users):
        if offsets[u + 1] > offsets[u]:
            gram = np.zeros((rank, rank))
            for a in range(rank):
                gram[a, a] = ridge
            for p in range(offsets[u], offsets[u + 1]):
                for a in range(rank):
                    for b in range(rank):
                        gram[a, b] += curvature * factors[items[p], a] * factors[items[p], b]
            inverse = np.linalg.inv(gram)
            user = np.zeros(rank)
            for _ in range(steps):
                descent = -ridge * user
                for p in range(offsets[u], offsets[u + 1]):
                    score = 0.0
                    for a in range(rank):
                        score += user[a] * factors[items[p], a]
                    pull = signs[p] * _slope(signs[p] * score, probit)
                    for a in range(rank):
                        descent[a] += pull * factors[items[p], a]
                for a in range(rank):
                    for b in range(rank):
                        user[a] += inverse[a, b] * descent[b]
            solutions[u] = user
    return solutions


@njit(cache=True, error_model="numpy", nogil=True)
def taken_rows(offsets, items, takes):
    """Row u: the sum of ``takes`` over u's entries, over their number and ``PULL``. Nothing for an empty row."""
    shown = np.zeros((len(offsets) - 1, takes.shape[1]))
    for u in range(len(offsets) - 1):
        for p in range(offsets[u], offsets[u + 1]):
            row = takes[items[p]]
            for k in range(len(row)):
                shown[u, k] += row[k]
        for k in range(shown.shape[1]):
            shown[u, k] /= offsets[u + 1] - offsets[u] + PULL
    return shown
