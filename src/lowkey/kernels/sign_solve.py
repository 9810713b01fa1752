"""Kernel room: every user's own maximum likelihood of their signs on fixed item factors, with a ridge.

Each step is a ridge regression that majorises the loss (the curvature of ln h is at most c), so every row descends. Its
matrix does not change from step to step and is inverted once.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from lowkey.kernels.user_solve import FEW_ROWS


@njit(cache=True, nogil=True)
def _slope(x, probit):
    """h'/h, as in linalg.links."""
    if not probit:
        return 1.0 / (1.0 + math.exp(x)) if x < 700.0 else 0.0
    if x > -25.0:
        return math.sqrt(2.0 / math.pi) * math.exp(-0.5 * x * x) / math.erfc(-x / math.sqrt(2.0))
    return -x / (1.0 - 1.0 / (x * x) * (1.0 - 3.0 / (x * x) * (1.0 - 5.0 / (x * x))))


def sign_rows(offsets, items, signs, factors, ridge, curvature, probit, steps):
    """Row u: argmin over x of minus the log-likelihood of u's signs, plus ridge/2 |x|^2, after ``steps`` steps.

    A row depends on its own entries only, to the last bit: not on its neighbours, nor on the number of threads.
    """
    solutions = np.zeros((len(offsets) - 1, factors.shape[1]))
    if solutions.size:
        run = _few_sign_rows if len(solutions) <= FEW_ROWS else _many_sign_rows
        run(offsets, items, signs, factors, (ridge, curvature, probit, steps), solutions)
    return solutions


@njit(cache=True, parallel=True)
def _many_sign_rows(offsets, items, signs, factors, settings, solutions):
    for u in prange(len(solutions)):
        _sign_row(offsets[u], offsets[u + 1], items, signs, factors, settings, solutions[u])


@njit(cache=True, nogil=True)
def _few_sign_rows(offsets, items, signs, factors, settings, solutions):
    for u in range(len(solutions)):
        _sign_row(offsets[u], offsets[u + 1], items, signs, factors, settings, solutions[u])


@njit(cache=True, nogil=True)
def _sign_row(lo, hi, items, signs, factors, settings, user):
    if hi == lo:
        return
    ridge, curvature, probit, steps = settings
    rank = len(user)
    gram = np.zeros((rank, rank))
    for a in range(rank):
        gram[a, a] = ridge
    for p in range(lo, hi):
        for a in range(rank):
            for b in range(rank):
                gram[a, b] += curvature * factors[items[p], a] * factors[items[p], b]
    inverse = np.linalg.inv(gram)
    for _ in range(steps):
        descent = -ridge * user
        for p in range(lo, hi):
            score = 0.0
            for a in range(rank):
                score += user[a] * factors[items[p], a]
            pull = signs[p] * _slope(signs[p] * score, probit)
            for a in range(rank):
                descent[a] += pull * factors[items[p], a]
        for a in range(rank):
            for b in range(rank):
                user[a] += inverse[a, b] * descent[b]
