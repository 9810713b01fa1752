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
from threadpoolctl import threadpool_limits

from lowkey.linalg.blas import DPOTRF, DSYTRD, cholesky, solve_factored
from lowkey.linalg.positive_part import POLES, SLOPE, WEIGHTS, solve_positive_part


def solve_projected(
    packed: NDArray[np.float64],
    rhs: NDArray[np.float64],
    ridge: NDArray[np.float64],
    *,
    shared: NDArray[np.float64] | None = None,
    shared_weights: NDArray[np.float64] | None = None,
    noisy: bool = True,
) -> NDArray[np.float64]:
    """Row j: (A_j projected to the positive semidefinite cone + ridge_j I)^-1 rhs_j, A_j = packed_j + weight_j shared.

    ``noisy=False`` says that A_j is positive semidefinite already, if for rounding. A row without a solution is 0.
    """
    n, rank = rhs.shape
    if shared is None or shared_weights is None:
        shared, shared_weights = np.zeros((rank, rank)), np.zeros(n)
    solutions = np.zeros((n, rank))
    with threadpool_limits(limits=1, user_api="blas"):  # the loop over items uses the cores
        rational = (SLOPE, WEIGHTS, POLES)
        _solve(packed, rhs, ridge, shared, shared_weights, noisy, solutions, get_num_threads(), *rational, DPOTRF, DSYTRD)
    solutions[~np.isfinite(solutions).all(axis=1)] = 0.0
    return solutions


@njit(cache=True, parallel=True)
def _solve(packed, rhs, ridge, shared, shared_weights, noisy, solutions, threads, slope, weights, poles, dpotrf, dsytrd):
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
                    a[i, k] = packed[j, entry] + shared_weights[j] * shared[i, k]
                    finite = finite and np.isfinite(a[i, k])
                    a[k, i] = a[i, k]
                    entry += 1
            if not finite:
                continue
            solution = solutions[j]
            solution[:] = rhs[j]
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
                solution[:] = rhs[j]
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
                        dot += vectors[k, i] * rhs[j, k]
                    dot /= size
                    for k in range(rank):
                        solution[k] += dot * vectors[k, i]
