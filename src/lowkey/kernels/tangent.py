"""Kernel room: one record's part in the tangent gradient of trace regression, for dense, sparse and low-rank measurements.

Letters: X measurement, U V point's singular vectors. The bounds are those of ``TangentGradient`` (trace_regression.py).
Paper: Zha 2024, Algorithm 2. Deviates: every record's contribution is clipped.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from lowkey.kernels.bounding import fits, shrink_factor
from lowkey.privacy.sums import HAIR

BATCH = 64  # records projected in a row: memory is read in long runs
SUMS_IN_ANY_ORDER = {"reassoc", "contract"}  # lets dot products use vector units; NaN and infinity keep their meaning


@njit(cache=True, nogil=True)
def clipped(value, bound):
    inside = bound * (1.0 - HAIR)
    return min(max(value, -inside), inside)


@njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def truncate(x, coefficient):
    """x becomes coefficient * x, towards zero; returns the sum of squares."""
    squared = 0.0
    for j in range(len(x)):
        x[j] = np.trunc(coefficient * x[j])
        squared += x[j] * x[j]
    return squared


@njit(cache=True, nogil=True, parallel=True)
def dense_gradient(measurements, y, values, left, right, reflector, dual, bounds, partial, norms):
    n, rank, chunks = len(measurements), len(values), partial.shape[0]
    for chunk in prange(chunks):
        along, across = np.empty((BATCH, rank, left.shape[1])), np.empty((BATCH, rank, right.shape[1]))
        products, last = np.empty(rank), (chunk + 1) * n // chunks
        for first in range(chunk * n // chunks, last, BATCH):
            batch = min(BATCH, last - first)
            for i in range(batch):
                _project_dense(measurements[first + i], left, right, along[i], across[i])
            for i in range(batch):
                out = (bounds, partial[chunk], norms, products)
                _add_record(first + i, y, along[i], across[i], values, left, reflector, dual, *out)


@njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _project_dense(x, left, right, along, across):
    """(X V)^T and U^T X in one reading of X, four rows at a time."""
    d1, d2 = x.shape
    across[:] = 0.0
    fours = d1 - d1 % 4
    for row in range(0, fours, 4):
        x0, x1, x2, x3 = x[row], x[row + 1], x[row + 2], x[row + 3]
        for k in range(len(left)):
            v, sums = right[k], across[k]
            u0, u1, u2, u3 = left[k, row], left[k, row + 1], left[k, row + 2], left[k, row + 3]
            dot0, dot1, dot2, dot3 = 0.0, 0.0, 0.0, 0.0
            for j in range(d2):
                dot0 += x0[j] * v[j]
                dot1 += x1[j] * v[j]
                dot2 += x2[j] * v[j]
                dot3 += x3[j] * v[j]
                sums[j] += u0 * x0[j] + u1 * x1[j] + u2 * x2[j] + u3 * x3[j]
            along[k, row], along[k, row + 1], along[k, row + 2], along[k, row + 3] = dot0, dot1, dot2, dot3
    for row in range(fours, d1):
        for k in range(len(left)):
            weight, dot = left[k, row], 0.0
            for j in range(d2):
                dot += x[row, j] * right[k, j]
                across[k, j] += weight * x[row, j]
            along[k, row] = dot


@njit(cache=True, nogil=True, parallel=True)
def sparse_gradient(offsets, rows, columns, entries, y, values, left, right, reflector, dual, bounds, partial, norms):
    n, rank, chunks = len(offsets) - 1, len(values), partial.shape[0]
    for chunk in prange(chunks):
        along, across, products = np.empty((rank, left.shape[1])), np.empty((rank, right.shape[1])), np.empty(rank)
        for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
            along[:] = 0.0
            across[:] = 0.0
            for p in range(offsets[i], offsets[i + 1]):
                for k in range(rank):
                    along[k, rows[p]] += entries[p] * right[k, columns[p]]
                    across[k, columns[p]] += entries[p] * left[k, rows[p]]
            _add_record(i, y, along, across, values, left, reflector, dual, bounds, partial[chunk], norms, products)


@njit(cache=True, nogil=True, parallel=True)
def low_rank_gradient(a, b, y, values, left, right, reflector, dual, bounds, partial, norms):
    n, inner, rank, chunks = a.shape[0], a.shape[2], len(values), partial.shape[0]
    for chunk in prange(chunks):
        along, across, products = np.empty((rank, left.shape[1])), np.empty((rank, right.shape[1])), np.empty(rank)
        for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
            along[:] = 0.0
            across[:] = 0.0
            for q in range(inner):
                for k in range(rank):
                    on_left, on_right = 0.0, 0.0
                    for j in range(left.shape[1]):
                        on_left += a[i, j, q] * left[k, j]
                    for j in range(right.shape[1]):
                        on_right += b[i, j, q] * right[k, j]
                    for j in range(left.shape[1]):
                        along[k, j] += a[i, j, q] * on_right
                    for j in range(right.shape[1]):
                        across[k, j] += b[i, j, q] * on_left
            _add_record(i, y, along, across, values, left, reflector, dual, bounds, partial[chunk], norms, products)


@njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _add_record(i, y, along, across, values, left, reflector, dual, bounds, total, norms, products):
    """Clip one record's contribution and add it; ``across`` becomes U^T X V_c, by the block reflector."""
    (rank, d1), d2 = along.shape, across.shape[1]
    predicted, squared = 0.0, 0.0
    for k in range(rank):
        on_point = 0.0
        for j in range(d1):
            on_point += left[k, j] * along[k, j]
            squared += along[k, j] * along[k, j]
        predicted += values[k] * on_point
    for k in range(rank):
        for m in range(rank):
            dot = 0.0
            for j in range(d2):
                dot += across[k, j] * reflector[m, j]
            products[m] = dot
        for m in range(rank):
            weight = products[m]
            for j in range(rank, d2):
                across[k, j] -= weight * dual[m, j]
        for j in range(rank, d2):
            squared += across[k, j] * across[k, j]
    if len(norms):
        norms[i] = squared
        return
    coefficient = clipped(y[i] - predicted, bounds[0]) * shrink_factor(squared, bounds[1])
    if not (math.isfinite(squared) and math.isfinite(predicted) and math.isfinite(coefficient)):
        return
    coefficient *= bounds[2]  # grid units: a power of two, so exact
    squared = 0.0
    for k in range(rank):
        squared += truncate(along[k], coefficient) + truncate(across[k, rank:], coefficient)
    if not fits(squared, bounds[0] * bounds[1] * bounds[2], 1.0):
        return
    for k in range(rank):
        part = total[k * d1 : (k + 1) * d1]
        for j in range(d1):
            part[j] += along[k, j]
        part = total[rank * d1 + k * (d2 - rank) : rank * d1 + (k + 1) * (d2 - rank)]
        for j in range(d2 - rank):
            part[j] += across[k, rank + j]
