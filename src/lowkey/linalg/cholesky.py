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
