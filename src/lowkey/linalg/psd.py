"""Public room: many noisy normal equations at once: (positive part of the matrix + ridge)^-1 right-hand side.

A Cholesky is tried first; a matrix that is not positive definite goes through ``positive_part``, and where that does not
apply (order 1 or 2, no ridge) through its eigenvectors.
Paper: DPALS (Chien et al. 2021), Algorithm 1, A_item with the projection of section 4. Deviates: nowhere.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from lowkey.linalg.blas import DPOTRF, DSYTRD, SGEMM, cholesky, solve_factored
from lowkey.linalg.definite import factor_positive
from lowkey.linalg.positive_part import POLES, SLOPE, WEIGHTS, solve_positive_part
from lowkey.threads import one_blas_thread


def positive_part(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def solve_projected(
    packed: NDArray[np.float64],
    rhs: NDArray[np.float64],
    ridge: NDArray[np.float64],
    *,
    kept: NDArray[np.float64] | None = None,
    shared: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    noisy: bool = True,
) -> NDArray[np.float64]:
    """Row j: (A_j projected to the positive semidefinite cone + ridge_j I)^-1 rhs_j; ``ridge`` is (n,) or (n, rank).

    One ridge per coordinate is a ridge of 1 in coordinates scaled by its root, and the projection is made in these.
    A_j = kept_j packed_j + the sum over m of weights_jm shared_m, for a stack of matrices that all rows share.
    ``noisy=False`` says that A_j is positive semidefinite already, if for rounding. A row without a solution is 0.
    """
    n, rank = rhs.shape
    if shared is None or weights is None:
        shared, weights = np.zeros((0, rank, rank)), np.zeros((n, 0))
    kept = np.ones(n) if kept is None else kept
    scale = np.ones((n, rank))
    if ridge.ndim == 2:
        scale, ridge = 1.0 / np.sqrt(ridge), np.ones(n)
    solutions = np.zeros((n, rank))
    with one_blas_thread():  # the loop over items uses the cores
        rational = (SLOPE, WEIGHTS, POLES)
        matrices = (packed, rhs, ridge, scale, kept, shared, weights)
        _solve(*matrices, noisy, solutions, get_num_threads(), *rational, DPOTRF, DSYTRD, SGEMM)
    solutions *= scale
    solutions[~np.isfinite(solutions).all(axis=1)] = 0.0
    return solutions


@njit(cache=True, parallel=True)
def _solve(
    packed, rhs, ridge, scale, kept, shared, parts, noisy, solutions, threads, slope, weights, poles, dpotrf, dsytrd, sgemm
):
    n, rank = rhs.shape
    for thread in prange(threads):
        a = np.empty((rank, rank))
        factor = np.empty((rank, rank))
        small = np.empty((rank, rank), np.float32)
        scratch, work = np.empty((4, rank)), np.empty(64 * rank)
        pole_scratch = np.empty((6, rank, poles.size))
        for j in range(thread, n, threads):
            size = _assemble(packed[j], kept[j], shared, parts[j], scale[j], a)
            if not size < np.inf:
                continue
            solution = solutions[j]
            solution[:] = rhs[j] * scale[j]
            if size == 0.0 and ridge[j] > 0.0:
                solution /= ridge[j]
                continue
            if not noisy or _is_definite(a, size, ridge[j], small, factor, dpotrf, sgemm):
                _copy_triangle(a, factor)
                for i in range(rank):
                    factor[i, i] += ridge[j]
                if cholesky(factor, rank, dpotrf):
                    solve_factored(factor, rank, solution)
                    continue
            if rank > 2 and ridge[j] > 0.0:
                _copy_triangle(a, factor)
                solution[:] = rhs[j] * scale[j]
                if solve_positive_part(
                    factor, solution, ridge[j], scratch, work, pole_scratch, slope, weights, poles, dsytrd
                ):
                    continue
            solution[:] = rhs[j] * scale[j]
            _solve_by_eigenvectors(a, solution, ridge[j])


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _assemble(triangle, kept, shared, parts, scale, a):
    """The upper triangle of a: kept times ``triangle`` plus what is shared, scaled; returns the sum of all sizes."""
    rank, entry, size = len(scale), 0, 0.0
    for i in range(rank):
        row, own, columns = a[i, i:], triangle[entry : entry + rank - i], scale[i:]
        for k in range(len(row)):
            row[k] = kept * own[k]
        for m in range(len(shared)):
            other = shared[m, i, i:]
            for k in range(len(row)):
                row[k] += parts[m] * other[k]
        for k in range(len(row)):
            row[k] *= scale[i] * columns[k]
            size += abs(row[k])
        entry += rank - i
    return size


@njit(cache=True)
def _is_definite(a, size, ridge, small, factor, dpotrf, sgemm):
    """Whether a has a Cholesky factor: one in float32, where what it rounds is far below the ridge."""
    if size * 2.0**-24 < 1e-3 * ridge:
        _copy_triangle(a, small)
        return factor_positive(small, sgemm)
    _copy_triangle(a, factor)
    return cholesky(factor, len(a), dpotrf)


@njit(cache=True)
def _copy_triangle(a, to):
    for i in range(len(a)):
        row, own = to[i, i:], a[i, i:]
        for k in range(len(row)):
            row[k] = own[k]


@njit(cache=True)
def _solve_by_eigenvectors(a, solution, ridge):
    """The solution for the right-hand side that it holds; of ``a`` only the upper triangle is read."""
    rank = len(a)
    for i in range(rank):
        for k in range(i):
            a[i, k] = a[k, i]
    values, vectors = np.linalg.eigh(a)
    right = solution.copy()
    solution[:] = 0.0
    for i in range(rank):
        size = max(values[i], 0.0) + ridge
        if size > 0.0:
            dot = 0.0
            for k in range(rank):
                dot += vectors[k, i] * right[k]
            dot /= size
            for k in range(rank):
                solution[k] += dot * vectors[k, i]
