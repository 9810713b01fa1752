"""Public room: the Cholesky factor of a small matrix in float32, in place, by panels of rows with BLAS for what is left.

At orders from 30 to 130 LAPACK's potrf spends more time on calling small kernels than in them; see docs/decisions.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math

from numba import njit

from lowkey.linalg.blas import PLAIN, TRANSPOSED, gemm

PANEL = 16  # rows


@njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def factor_positive(a, sgemm):
    """The upper triangle of a (n, n) becomes R, a = R^T R; False, and a is spoilt, where it is not positive definite."""
    n = len(a)
    first, width = 0, n % PANEL or PANEL  # the odd panel first: the others are then whole
    while first < n:
        for i in range(first, first + width):
            row = a[i, i:]
            if not row[0] > 0.0:
                return False
            scale = row.dtype.type(1.0 / math.sqrt(row[0]))
            for b in range(len(row)):
                row[b] *= scale
            for k in range(i + 1, first + width):
                part, own, to = row[k - i], row[k - i :], a[k, k:]
                for b in range(len(to)):
                    to[b] -= part * own[b]
        at, panel = first + width, a.ctypes.data + 4 * first * n
        for b in range(at, n, PANEL):
            rows, corner = panel + 4 * b, a.ctypes.data + 4 * (b * n + b)
            gemm(4, PLAIN, TRANSPOSED, n - b, PANEL, width, -1.0, rows, n, rows, n, 1.0, corner, n, sgemm)
        first, width = at, PANEL
    return True
