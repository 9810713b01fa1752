"""One BLAS thread inside, as many as before outside, also for a library that came later."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import numpy, threadpoolctl
from lowkey.threads import one_blas_thread

def threads():
    return sorted({pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"})

before = threads()
with one_blas_thread():
    assert threads() == [1], threads()
assert threads() == before
import scipy.linalg
with one_blas_thread(), one_blas_thread():
    assert len([pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]) > 1
    assert threads() == [1], threads()
assert threads() == before, (threads(), before)
"""


def test_one_thread_for_every_library() -> None:
    environment = {"OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=environment)
