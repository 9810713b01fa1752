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

from lowkey.linalg.blas import DPOTRF, DSYTRD, cholesky, solve_factored
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
        _solve(*matrices, noisy, solutions, get_num_threads(), *rational, DPOTRF, DSYTRD)
    solutions *= scale
    solutions[~np.isfinite(solutions).all(axis=1)] = 0.0
    return solutions


@njit(cache=True, parallel=True)
def _solve(
    packed, rhs, ridge, scale, kept, shared, parts, noisy, solutions, threads, slope, weights, poles, dpotrf, dsytrd
):
    n, rank = rhs.shape
    for thread in prange(threads):
        a = np.empty((rank, rank))
        factor = np.empty((rank, rank))
        scratch, work = np.empty((4, rank)), np.empty(64 * rank)
        pole_scratch = np.empty((6, rank, poles.size))
        for j in range(thread, n, threads):
            entry = 0
            finite = True
            for i in range(rank):
                for k in range(i, rank):
                    a[i, k] = kept[j] * packed[j, entry]
                    for m in range(len(shared)):
                        a[i, k] += parts[j, m] * shared[m, i, k]
                    a[i, k] *= scale[j, i] * scale[j, k]
                    finite = finite and np.isfinite(a[i, k])
                    a[k, i] = a[i, k]
                    entry += 1
            if not finite:
                continue
            solution = solutions[j]
            solution[:] = rhs[j] * scale[j]
            factor[:] = a
            definite = (not noisy) or cholesky(factor, rank, dpotrf)
            if definite:
                factor[:] = a
                for i in range(rank):
                    factor[i, i] += ridge[j]
                if cholesky(factor, rank, dpotrf):
                    solve_factored(factor, rank, solution)
                    continue
            if rank > 2 and ridge[j] > 0.0:
                factor[:] = a
                solution[:] = rhs[j] * scale[j]
                if solve_positive_part(
                    factor, solution, ridge[j], scratch, work, pole_scratch, slope, weights, poles, dsytrd
                ):
                    continue
            values, vectors = np.linalg.eigh(a)
            solution[:] = 0.0
            for i in range(rank):
                size = max(values[i], 0.0) + ridge[j]
                if size > 0.0:
                    dot = 0.0
                    for k in range(rank):
                        dot += vectors[k, i] * rhs[j, k] * scale[j, k]
                    dot /= size
                    for k in range(rank):
                        solution[k] += dot * vectors[k, i]
