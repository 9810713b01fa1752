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
from lowkey.kernels.tangent import SUMS_IN_ANY_ORDER, clipped, dense_gradient, low_rank_gradient, sparse_gradient, truncate
from lowkey.linalg.lowrank import FixedRank
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

BITS = 36  # of a contribution; 2^27 records fit an int64 total
DENSE_NUMBERS = 1 << 20  # of measurements made dense at a time
NO_NORMS = np.zeros(0)


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
        dense_gradient(x.values, y, *out)
    elif isinstance(x, SparseMeasurements):
        sparse_gradient(x.offsets, x.rows, x.columns, x.values, y, *out)
    else:
        assert isinstance(x, LowRankMeasurements)
        low_rank_gradient(x.left, x.right, y, *out)
    return partial.sum(axis=0).astype(np.int64)


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
            coefficient = clipped(y[i], response_bound) * shrink_factor(squared, measurement_bound) * scale * per_unit
            if math.isfinite(squared) and math.isfinite(coefficient):
                units[:] = x
                if fits(truncate(units, coefficient), most, 1.0):
                    for j in range(size):
                        partial[chunk, j] += units[j]


@njit(cache=True, nogil=True)
def _add_sparse_start(offsets, flat, whitened, y, response_bound, measurement_bound, per_unit, total):
    scratch, most = np.zeros(len(total)), response_bound * measurement_bound * per_unit
    for i in range(len(offsets) - 1):
        for p in range(offsets[i], offsets[i + 1]):
            scratch[flat[p]] += whitened[p]
        squared = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            squared += scratch[flat[p]] ** 2  # a cell that occurs twice counts twice: the norm is never too small
        coefficient = clipped(y[i], response_bound) * shrink_factor(squared, measurement_bound) * per_unit
        usable = math.isfinite(squared) and math.isfinite(coefficient)
        squared = 0.0
        for p in range(offsets[i], offsets[i + 1]):
            squared += float(to_units(coefficient * scratch[flat[p]], 1.0)) ** 2
        usable = usable and fits(squared, most, 1.0)
        for p in range(offsets[i], offsets[i + 1]):
            if usable:
                total[flat[p]] += to_units(coefficient * scratch[flat[p]], 1.0)
            scratch[flat[p]] = 0.0
