"""Kernel room: the records' half of trace regression: the clipped spectral statistic and the clipped tangent gradient.

Letters: X measurement, y response, U V point's singular vectors, r rank, R residual bound, b measurement bound.
Paper: Zha 2024, Algorithm 1 line 1 (the statistic L) and Algorithm 2 (the projected gradient).
Deviates: every record's contribution is clipped, so the sensitivity holds for every data set and not only, with high
probability, for Gaussian ones. The gradient is summed in orthonormal coordinates of the tangent space.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from lowkey.data.trace import DenseMeasurements, LowRankMeasurements, Measurements, RecordBlock, SparseMeasurements, frozen
from lowkey.kernels.bounding import fits, shrink_factor, to_units
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.linalg.lowrank import FixedRank
from lowkey.privacy.grid import HAIR, Grid
from lowkey.privacy.sums import Sensitivity, Statistic

BITS = 36  # of a contribution; 2^27 records fit an int64 total
DENSE_NUMBERS = 1 << 20  # of measurements made dense at a time
BATCH = 64  # records projected in a row: memory is read in long runs
NO_NORMS = np.zeros(0)
SUMS_IN_ANY_ORDER = {"reassoc", "contract"}  # lets dot products use vector units; NaN and infinity keep their meaning


@dataclass(frozen=True, eq=False)
class SpectralStart(Sweep):
    """Sum over records of y times the whitened measurement W = mat(Lambda^-1 vec X).

    |y| is clipped to R and |W|_F to b, so a contribution has norm at most R b; replacing a record moves the sum by at
    most 2 R b. Replacing only its response moves it by (y - y') W: at most 2 R b too, and then b may be max |W_i|,
    since X is public. A record so large that its norm overflows contributes nothing.
    """

    shape: tuple[int, int]  # of a measurement
    whitener: Any  # Lambda^-1, public
    response_bound: float
    measurement_bound: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = self.response_bound * self.measurement_bound
        grid = Grid.for_bound(bound, BITS)
        return (Statistic("spectral_start", self.shape, grid, Sensitivity.of_vectors(bound), 1 << BITS),)

    def run(self, block: RecordBlock, local: Local, sums: Sums) -> Local:  # pyright: ignore[reportIncompatibleMethodOverride]
        step = self.statistics[0].grid.step
        bounds = (self.response_bound, self.measurement_bound, 1.0 / step)
        total = sums["spectral_start"].reshape(-1)
        x = block.measurements
        if isinstance(x, SparseMeasurements) and self.whitener.scalar is not None:
            flat = x.rows.astype(np.int64) * x.shape[1] + x.columns
            whitened = x.values * self.whitener.scalar
            _add_sparse_start(x.offsets, flat, whitened, frozen(block.responses), *bounds, total)
            return None
        records = max(1, DENSE_NUMBERS // total.size)
        for low in range(0, len(x), records):
            part = slice(low, low + records)
            whitened = self.whitener.whiten(x[part].dense().reshape(-1, total.size), block.first + low)
            scale = self.whitener.scalar or 1.0
            partial = np.zeros((get_num_threads(), total.size))  # whole numbers below 2^53: exact
            _add_dense_start(frozen(whitened), scale, frozen(block.responses[part]), *bounds, partial)
            total += partial.sum(axis=0).astype(np.int64)
        return None


@dataclass(frozen=True, eq=False)
class TangentGradient(Sweep):
    """Sum over records of the residual y - <X, M> times the tangent projection of X at the posted point M.

    In orthonormal coordinates the projection has norm |P X|_F, clipped to b; the residual is clipped to R. A
    contribution has norm at most R b, replacing a record moves the sum by at most 2 R b, and so does replacing a
    response (then b may be max |P X_i|, X being public). The clip looks at the very numbers that are summed, so it
    holds whatever the point is. A record so large that its norm or residual overflows contributes nothing.
    """

    name: str
    point: FixedRank  # M
    residual_bound: float
    measurement_bound: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        bound = self.residual_bound * self.measurement_bound
        grid = Grid.for_bound(bound, BITS)
        shape = (self.point.tangent_size,)
        return (Statistic(self.name, shape, grid, Sensitivity.of_vectors(bound), 1 << BITS),)

    def run(self, block: RecordBlock, local: Local, sums: Sums) -> Local:  # pyright: ignore[reportIncompatibleMethodOverride]
        step = self.statistics[0].grid.step
        bounds = np.array([self.residual_bound, self.measurement_bound, 1.0 / step])
        sums[self.name] += _tangent_pass(block.measurements, block.responses, self.point, bounds, NO_NORMS)
        return None


def largest_projection(measurements: Measurements, point: FixedRank) -> float:
    """max |P X_i|_F at ``point``. For public measurements only."""
    squared = np.zeros(len(measurements))
    _tangent_pass(measurements, np.zeros(len(measurements)), point, np.ones(3), squared)
    return math.sqrt(float(squared.max()))


def largest_whitened(measurements: Measurements, whitener: Any) -> float:
    """max |Lambda_i^-1 X_i|_F. For public measurements only."""
    size = measurements.shape[0] * measurements.shape[1]
    records, largest = max(1, DENSE_NUMBERS // size), 0.0
    for low in range(0, len(measurements), records):
        part = whitener.whiten(measurements[low : low + records].dense().reshape(-1, size), low)
        largest = max(largest, float(np.linalg.norm(part, axis=1).max()))
    return largest * (whitener.scalar or 1.0)


def _tangent_pass(
    x: Measurements, y: NDArray[np.float64], point: FixedRank, bounds: NDArray[np.float64], norms: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The sum in grid units; or, where room for the squared norms |P X_i|^2 is given, these and zeros."""
    reflector, dual, y = *point.complement, frozen(y)
    # Transposed, so that the inner loops run along memory.
    arrays = [np.ascontiguousarray(a.T) for a in (point.left, point.right, reflector, dual)]
    partial = np.zeros((get_num_threads(), point.tangent_size))  # whole numbers below 2^53: exact
    out: Any = (point.values, *arrays, bounds, partial, norms)
    if isinstance(x, DenseMeasurements):
        _dense_gradient(x.values, y, *out)
    elif isinstance(x, SparseMeasurements):
        _sparse_gradient(x.offsets, x.rows, x.columns, x.values, y, *out)
    else:
        assert isinstance(x, LowRankMeasurements)
        _low_rank_gradient(x.left, x.right, y, *out)
    return partial.sum(axis=0).astype(np.int64)


@njit(cache=True, nogil=True)
def _clipped(value, bound):
    inside = bound * (1.0 - HAIR)
    return min(max(value, -inside), inside)


@njit(cache=True, nogil=True, parallel=True, fastmath=SUMS_IN_ANY_ORDER)
def _add_dense_start(measurements, scale, y, response_bound, measurement_bound, per_unit, partial):
    n, size, chunks = measurements.shape[0], measurements.shape[1], partial.shape[0]
    most = response_bound * measurement_bound * per_unit
    for chunk in prange(chunks):
        units = np.empty(size)
        for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
            x = measurements[i]
            squared = 0.0
            for j in range(size):
                squared += (scale * x[j]) * (scale * x[j])
            coefficient = _clipped(y[i], response_bound) * shrink_factor(squared, measurement_bound) * scale * per_unit
            if math.isfinite(squared) and math.isfinite(coefficient):
                units[:] = x
                if fits(_truncate(units, coefficient), most, 1.0):
                    for j in range(size):
                        partial[chunk, j] += units[j]


@njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _truncate(x, coefficient):
    """x becomes coefficient * x, towards zero; returns the sum of squares."""
    squared = 0.0
    for j in range(len(x)):
        x[j] = np.trunc(coefficient * x[j])
        squared += x[j] * x[j]
    return squared


@njit(cache=True, nogil=True)
def _add_sparse_start(offsets, flat, whitened, y, response_bound, measurement_bound, per_unit, total):
    scratch, most = np.zeros(len(total)), response_bound * measurement_bound * per_unit
    for i in range(len(offsets) - 1):
        for p in range(offsets[i], offsets[i + 1]):
            scratch[flat[p]] += whitened[p]
        squared = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            squared += scratch[flat[p]] ** 2  # a cell that occurs twice counts twice: the norm is never too small
        coefficient = _clipped(y[i], response_bound) * shrink_factor(squared, measurement_bound) * per_unit
        usable = math.isfinite(squared) and math.isfinite(coefficient)
        squared = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            squared += float(to_units(coefficient * scratch[flat[p]], 1.0)) ** 2
        usable = usable and fits(squared, most, 1.0)
        for p in range(offsets[i], offsets[i + 1]):
            if usable:
                total[flat[p]] += to_units(coefficient * scratch[flat[p]], 1.0)
            scratch[flat[p]] = 0.0


@njit(cache=True, nogil=True, parallel=True)
def _dense_gradient(measurements, y, values, left, right, reflector, dual, bounds, partial, norms):
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
def _sparse_gradient(offsets, rows, columns, entries, y, values, left, right, reflector, dual, bounds, partial, norms):
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
def _low_rank_gradient(a, b, y, values, left, right, reflector, dual, bounds, partial, norms):
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
    coefficient = _clipped(y[i] - predicted, bounds[0]) * shrink_factor(squared, bounds[1])
    if not (math.isfinite(squared) and math.isfinite(predicted) and math.isfinite(coefficient)):
        return
    coefficient *= bounds[2]  # grid units: a power of two, so exact
    squared = 0.0
    for k in range(rank):
        squared += _truncate(along[k], coefficient) + _truncate(across[k, rank:], coefficient)
    if not fits(squared, bounds[0] * bounds[1] * bounds[2], 1.0):
        return
    for k in range(rank):
        part = total[k * d1 : (k + 1) * d1]
        for j in range(d1):
            part[j] += along[k, j]
        part = total[rank * d1 + k * (d2 - rank) : rank * d1 + (k + 1) * (d2 - rank)]
        for j in range(d2 - rank):
            part[j] += across[k, rank + j]
