"""Public room: one thread for BLAS while our own loops use the cores."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    return _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _libraries(scipy_too: bool) -> ThreadpoolController:
    """Found once, and again after SciPy has brought its own: a search through the process takes 4 ms, a small pass one."""
    return ThreadpoolController()
