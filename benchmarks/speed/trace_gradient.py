"""A gradient pass of trace regression over n = 50,000 dense 50 x 50 records, against dgemv and dgemm in the same run.

dgemv reads the same array once (X @ m): its rate in bytes is what memory allows. A textbook gradient needs two such
passes, X @ m for the residuals and X.T @ residuals. dgemm is the skinny product X V (50 x 3) for all records, which does
half of the multiplications of a tangent projection.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from numba import set_num_threads
from threadpoolctl import threadpool_limits

from lowkey.data.trace import DenseMeasurements, TraceRecords
from lowkey.engines.local import LocalEngine
from lowkey.kernels.trace_regression import TangentGradient
from lowkey.linalg.lowrank import truncated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    n, d, rank = options.records, 50, 3
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d, d)), rng.standard_normal(n)
    flat, point = X.reshape(n, -1), truncated(rng.standard_normal((d, d)), rank)
    m, basis = point.matrix().ravel(), np.ascontiguousarray(point.right)
    records = TraceRecords(DenseMeasurements(X), y)
    engine, sweep = LocalEngine(n_jobs=options.threads), TangentGradient("gradient", point, 1.0, 17.0)
    jobs: dict[str, Callable[[], object]] = {
        "gradient pass": lambda: engine.sweep(sweep, records),
        "dgemv X @ m": lambda: flat @ m,
        "dgemv X.T @ e": lambda: y @ flat,
        "dgemm X V": lambda: X.reshape(-1, d) @ basis,
    }
    # One thread is timed by its own clock, which other processes on the machine do not slow down so much.
    clock = time.process_time if options.threads == 1 else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in jobs}
    set_num_threads(options.threads)
    with threadpool_limits(limits=options.threads, user_api="blas"):
        for job in jobs.values():
            job()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        jobs["gradient pass"]()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        for _ in range(options.repeat):  # interleaved, so that a busy machine is busy for all
            for name, job in jobs.items():
                start = clock()
                job()
                times[name].append(clock() - start)
    best = {name: min(values) for name, values in times.items()}
    one = 2.0 * n * d * d  # multiplications and additions of one reading
    work = {"gradient pass": 2.0 * rank * one, "dgemv X @ m": one, "dgemv X.T @ e": one, "dgemm X V": rank * one}
    rates = {name: work[name] / seconds / 1e9 for name, seconds in best.items()}
    for name, seconds in best.items():
        print(f"{name:<16}{seconds:8.4f} s  {X.nbytes / seconds / 1e9:6.1f} GB/s read  {rates[name]:6.1f} GFlop/s")
    ours = "gradient pass"
    both = best["dgemv X @ m"] + best["dgemv X.T @ e"]
    shares = [rates[ours] / rates[name] for name in ("dgemv X @ m", "dgemm X V")]
    print(f"multiplications per second: {shares[0]:.0%} of dgemv, {shares[1]:.0%} of dgemm")
    shares = [best["dgemv X @ m"] / best[ours], both / best[ours]]
    print(f"bytes per second: {shares[0]:.0%} of one dgemv, {shares[1]:.0%} of the two that a textbook gradient takes")
    print(f"memory grown by the pass: {grown / 1024:.1f} MB, the data are {X.nbytes / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
