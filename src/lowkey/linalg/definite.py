"""Public room: the inverse of a small positive definite matrix, and its Cholesky factor, in place, in float32 or float64.

The sweep operator takes one pivot at a time, or a block of them, and the factor a panel of rows, with BLAS for all that is
left over: at orders from 17 to 130 this takes a third of the time of LAPACK's potrf and potri, which spend more of it on
calling small kernels than in them; see docs/decisions.
Paper: Goodnight 1979 (the sweep operator). Deviates: blocks of pivots.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

from numba import njit

from lowkey.linalg.blas import PLAIN, TRANSPOSED, gemm

PIVOTS = 8  # in a block
SPARE = 2 * PIVOTS  # rows of scratch space that an inverse needs, and one block


@njit(cache=True)
def spare_size(order):
    """How many numbers of scratch space the inverse of a matrix of this order, or of a smaller one, takes."""
    return SPARE * order + PIVOTS * (PIVOTS + 1)


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def invert_positive(a, spare, routine):
    """a (n, n), of which the upper triangle is read, becomes its inverse, all of it; ``spare`` holds ``spare_size(n)``.

    False, and a is spoilt, where a block of pivots is not positive definite: then a is not. Needs no pivoting otherwise.
    Block K: A_KK -> -A_KK^-1, A_K: -> A_KK^-1 A_K:, and the rest A -> A - A_:K A_KK^-1 A_K:. All blocks: -A^-1.
    """
    n, size = a.shape[0], a.itemsize
    if n <= PIVOTS:
        return _invert_block(a, spare)
    for i in range(n):
        for b in range(i):
            a[i, b] = a[b, i]
    rows, solved = spare[: PIVOTS * n], spare[PIVOTS * n : SPARE * n]
    block, column = spare[SPARE * n : SPARE * n + PIVOTS * PIVOTS], spare[SPARE * n + PIVOTS * PIVOTS :]
    at, rows_at, solved_at, block_at = a.ctypes.data, rows.ctypes.data, solved.ctypes.data, block.ctypes.data
    first, width = 0, n % PIVOTS or PIVOTS  # the odd block first: the others are then whole
    while first < n:
        pivots = block[: width * width].reshape(width, width)
        for i in range(width):
            row, to, of_block, copy = a[first + i], rows[i * n : (i + 1) * n], pivots[i], a[first + i, first:]
            for b in range(n):
                to[b] = row[b]
            for b in range(width):
                of_block[b] = copy[b]
        if not _invert_block(pivots, column):
            return False
        gemm(size, PLAIN, PLAIN, n, width, width, 1.0, rows_at, n, block_at, width, 0.0, solved_at, n, routine)
        gemm(size, PLAIN, TRANSPOSED, n, n, width, -1.0, solved_at, n, rows_at, n, 1.0, at, n, routine)
        table = solved[: width * n].reshape(width, n)
        for j in range(n):
            to = a[j, first:]
            for i in range(width):
                to[i] = table[i, j]
        for i in range(width):
            row, to, of_block, own = table[i], a[first + i], pivots[i], a[first + i, first:]
            for b in range(n):
                to[b] = row[b]
            for b in range(width):
                own[b] = -of_block[b]
        first, width = first + width, PIVOTS
    for i in range(n):
        for b in range(n):
            a[i, b] = -a[i, b]
    return True


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _invert_block(a, spare):
    """One pivot at a time, on the upper triangle alone, so that the inner loop is contiguous; ``spare`` has n places."""
    n = a.shape[0]
    for k in range(n):
        pivot = a[k, k]
        if not pivot > 0.0:
            return False
        for i in range(k):
            spare[i] = a[i, k]
        for i in range(k, n):
            spare[i] = a[k, i]
        for i in range(n):
            part = spare[i] / pivot
            row, column = a[i, i:], spare[i:n]
            for b in range(len(row)):
                row[b] -= part * column[b]
        for i in range(k):
            a[i, k] = spare[i] / pivot
        for i in range(k + 1, n):
            a[k, i] = spare[i] / pivot
        a[k, k] = -1.0 / pivot
    for i in range(n):
        for b in range(i, n):
            a[i, b] = -a[i, b]
            a[b, i] = a[i, b]
    return True


PANEL = 16  # rows


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def factor_positive(a, sgemm):
    """The upper triangle of a (n, n) becomes R, a = R^T R; False, and a is spoilt, where it is not positive definite."""
    n = len(a)
    first, width = 0, n % PANEL or PANEL  # the odd panel first: the others are then whole
    while first < n:
        above, corner = a.ctypes.data + 4 * first, a.ctypes.data + 4 * (first * n + first)
        gemm(4, PLAIN, TRANSPOSED, n - first, width, first, -1.0, above, n, above, n, 1.0, corner, n, sgemm)
        for i in range(width):
            row = a[first + i, first:]  # what is left of the diagonal is spoilt: whole panels are faster
            if not row[i] > 0.0:
                return False
            scale = row.dtype.type(1.0 / math.sqrt(row[i]))
            for b in range(len(row)):
                row[b] *= scale
            for k in range(i + 1, width):
                part, to = row[k], a[first + k, first:]
                for b in range(len(to)):
                    to[b] -= part * row[b]
        first, width = first + width, PANEL
    return True
