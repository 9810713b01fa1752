"""Public room: BLAS and LAPACK from inside numba loops, for many small matrices, each of one thread.

numba reaches ``np.dot`` and ``np.linalg`` only with an allocation per call, and never a Cholesky that reports failure
instead of raising. Here the addresses that SciPy exports are called directly. They are passed in as run-time arguments,
so compiled code can be cached. Gram matrices are formed in strips of columns by gemm, whose small-matrix kernels are
nearly twice as fast as syrk at these sizes. Results depend on the operands and their shapes alone.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false
# An intrinsic's first parameter is numba's own:
# pyright: reportMissingTypeStubs=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

SGEMM, DGEMM = (get_cython_function_address("scipy.linalg.cython_blas", name) for name in ("sgemm", "dgemm"))
DPOTRF, DSYTRD = (get_cython_function_address("scipy.linalg.cython_lapack", name) for name in ("dpotrf", "dsytrd"))
LOWER, PLAIN, TRANSPOSED = ord("L"), ord("N"), ord("T")

KINDS: dict[str, Any] = {
    "c": types.int64,  # a character
    "i": types.int64,
    "f": types.float32,
    "d": types.float64,
    "p": types.intp,  # the address of an array
    "o": types.int64,  # where the routine writes its return code
}


def _call(letters: str) -> tuple[Any, Any]:
    """The signature and code of a Fortran call whose arguments are all by reference, after the routine's own address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        values, code = [], None
        for letter, value in zip(letters, arguments[1:], strict=True):
            if letter == "p":
                values.append(builder.inttoptr(value, byte_pointer))
                continue
            if letter in "cio":
                value = builder.trunc(value, ir.IntType(8 if letter == "c" else 32))
            slot = cgutils.alloca_once(builder, value.type)
            builder.store(value, slot)
            code = slot if letter == "o" else code
            values.append(builder.bitcast(slot, byte_pointer))
        function = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), values)
        return builder.sext(builder.load(code), ir.IntType(64)) if code is not None else context.get_dummy_value()

    returned = types.int64 if "o" in letters else types.void
    return returned(types.intp, *[KINDS[letter] for letter in letters]), generate


_SGEMM, _DGEMM, _POTRF, _SYTRD = map(_call, ("cciiifpipifpi", "cciiidpipidpi", "cipio", "cipippppio"))


@intrinsic
def _sgemm(context, address, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    return _SGEMM


@intrinsic
def _dgemm(context, address, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    return _DGEMM


@intrinsic
def _potrf(context, address, uplo, n, a, lda, info):
    return _POTRF


@intrinsic
def _sytrd(context, address, uplo, n, a, lda, d, e, tau, work, lwork, info):
    return _SYTRD


@intrinsic
def prefetch(context, address):
    """Ask for the cache line at ``address``, which is needed soon; any address will do."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        routine = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
        builder.call(routine, [builder.inttoptr(arguments[0], pointer), word(0), word(3), word(1)])  # to read, data
        return context.get_dummy_value()

    return types.void(types.intp), generate


@njit(cache=True)
def prefetch_row(array, row):
    """Ask for the cache lines of a row, which are needed soon: rows far apart in memory come one by one otherwise."""
    size = array.shape[1] * array.itemsize
    for at in range(0, size, 64):
        prefetch(array.ctypes.data + row * size + at)


@njit(cache=True)
def add_gram_float64(x, n, k, beta, c, dgemm):
    """Upper triangle of c (n, n) = beta c + x^T x, for the first k rows of x (., n)."""
    at, a, width = x.ctypes.data, 0, n % 16 or 16  # the odd strip first: the others are then whole
    while a < n:
        _dgemm(dgemm, PLAIN, TRANSPOSED, n - a, width, k, 1.0, at + 8 * a, n, at + 8 * a, n, beta, _at64(c, a * n + a), n)
        a, width = a + width, 16


@njit(cache=True)
def add_gram_float32(x, n, k, beta, c, sgemm):
    """The same in float32."""
    at, one, a, width = x.ctypes.data, np.float32(1.0), 0, n % 16 or 16
    while a < n:
        _sgemm(sgemm, PLAIN, TRANSPOSED, n - a, width, k, one, at + 4 * a, n, at + 4 * a, n, beta, _at32(c, a * n + a), n)
        a, width = a + width, 16


@njit(cache=True)
def outer_gram_float32(x, n, k, c, sgemm):
    """Upper triangle of c (n, n) = x x^T, for the first n rows of x (., k)."""
    one, zero, a, width = np.float32(1.0), np.float32(0.0), 0, n % 16 or 16
    while a < n:
        row = x.ctypes.data + 4 * a * k
        _sgemm(sgemm, TRANSPOSED, PLAIN, n - a, width, k, one, row, k, row, k, zero, _at32(c, a * n + a), n)
        a, width = a + width, 16


@njit(cache=True)
def outer_gram_float64(x, n, k, c, dgemm):
    """The same in float64."""
    at = x.ctypes.data
    for a in range(0, n, 16):
        width, row = min(16, n - a), at + 8 * a * k
        _dgemm(dgemm, TRANSPOSED, PLAIN, n - a, width, k, 1.0, row, k, row, k, 0.0, _at64(c, a * n + a), n)


@njit(cache=True)
def product(x, y, m, k, n, out, routine):
    """The first m rows of out (., n) = those of x (., k) times y (k, n), all of one type."""
    gemm(x.itemsize, PLAIN, PLAIN, n, m, k, 1.0, y.ctypes.data, n, x.ctypes.data, k, 0.0, out.ctypes.data, n, routine)


@njit(cache=True)
def gemm(itemsize, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, routine):
    """BLAS gemm on addresses, column by column as there; ``itemsize`` 4 for sgemm, 8 for dgemm."""
    if itemsize == 4:
        _sgemm(routine, ta, tb, m, n, k, np.float32(alpha), a, lda, b, ldb, np.float32(beta), c, ldc)
    else:
        _dgemm(routine, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@njit(cache=True)
def add_gram(x, n, k, beta, c, routine):
    """The ``add_gram`` of the type of x."""
    if x.itemsize == 4:
        add_gram_float32(x, n, k, np.float32(beta), c, routine)
    else:
        add_gram_float64(x, n, k, beta, c, routine)


@njit(cache=True)
def outer_gram(x, n, k, c, routine):
    """The ``outer_gram`` of the type of x."""
    if x.itemsize == 4:
        outer_gram_float32(x, n, k, c, routine)
    else:
        outer_gram_float64(x, n, k, c, routine)


@njit(cache=True, inline="always")
def _at64(array, index):
    return array.ctypes.data + 8 * index


@njit(cache=True, inline="always")
def _at32(array, index):
    return array.ctypes.data + 4 * index


@njit(cache=True)
def cholesky(c, n, potrf):
    """The upper triangle of c, row by row, becomes its Cholesky factor; False where it is not positive definite."""
    return _potrf(potrf, LOWER, n, c.ctypes.data, n, 0) == 0


@njit(cache=True)
def tridiagonalise(a, diagonal, off_diagonal, tau, work, sytrd):
    """A symmetric a becomes tridiagonal; its reflectors stay in the rows of the upper triangle."""
    n = a.shape[0]
    return (
        _sytrd(
            sytrd,
            LOWER,
            n,
            a.ctypes.data,
            n,
            diagonal.ctypes.data,
            off_diagonal.ctypes.data,
            tau.ctypes.data,
            work.ctypes.data,
            work.size,
            0,
        )
        == 0
    )


@njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def solve_factored(c, n, y):
    """y becomes (R^T R)^-1 y for the factor R = c[:n, :n] of ``cholesky``.

    Inner loops run over slices from 0: the test for negative indices would keep them from being vectorised otherwise.
    """
    for a in range(n):
        row, rest = c[a, a + 1 : n], y[a + 1 : n]
        t = y[a] / c[a, a]
        y[a] = t
        for b in range(row.size):
            rest[b] -= row[b] * t
    for a in range(n - 1, -1, -1):
        row, rest = c[a, a + 1 : n], y[a + 1 : n]
        dot = y[a] * 0
        for b in range(row.size):
            dot += row[b] * rest[b]
        y[a] = (y[a] - dot) / c[a, a]
