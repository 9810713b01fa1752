"""One ALS iteration against implicit's exact solver, in one run: 70k x 10.7k, about 8 million skewed ratings.

    python benchmarks/speed/als_iteration.py [rank ...] [--no-peer]

For each rank (64 and 128) wall and processor seconds of a non-private and of a private iteration (its noise from the
cryptographic generator, its ledger and hashes included) and of the peer's, the peak of memory above the data, and which
share of the machine's own gemm rate the statistics kernel reaches. On a machine that does other things too, read the
processor seconds. Also the load of the machine before and after.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Any

import numpy as np
from numba import get_num_threads
from threadpoolctl import threadpool_limits

import lowkey as lk
from lowkey.engines.local import LocalEngine
from lowkey.kernels.als import ItemEquations
from lowkey_lab.processes import forget_peak, peak_memory

N_USERS, N_ITEMS, RATINGS = 70_000, 10_700, 8_000_000


def skewed(seed: int = 0) -> lk.Ratings:
    """Log-normal activity of users, power-law popularity of items."""
    rng = np.random.default_rng(seed)
    activity = rng.lognormal(0.0, 1.1, N_USERS)
    counts = np.clip(activity / activity.sum() * RATINGS * 1.25, 15, N_ITEMS / 4).astype(np.int64)
    popularity = np.cumsum(1.0 / (np.arange(N_ITEMS) + 30.0) ** 1.1)
    users = np.repeat(np.arange(N_USERS), counts)
    items = np.searchsorted(popularity / popularity[-1], rng.random(len(users)))
    pairs = np.unique(users * N_ITEMS + rng.permutation(N_ITEMS)[np.minimum(items, N_ITEMS - 1)])
    users, items = pairs // N_ITEMS, (pairs % N_ITEMS).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=N_USERS))]).astype(np.int64)
    values = rng.uniform(1.0, 5.0, len(items)).astype(np.float32)
    return lk.Ratings(lk.Domain(N_ITEMS, (1.0, 5.0)), offsets, items, values, np.arange(N_USERS, dtype=np.uint64))


class Clock:
    """Wall seconds, processor seconds and the peak of resident memory above the start, of a with-block."""

    def __enter__(self) -> Clock:
        gc.collect()
        forget_peak()
        self._base = _resident()
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: Any) -> None:
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        self.peak = (peak_memory() - self._base) / 2**30

    def __str__(self) -> str:
        return f"{self.wall:7.2f} s wall {self.cpu:7.2f} s processor  peak {self.peak:5.2f} GB above the data"


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def iteration(ratings: lk.Ratings, rank: int, private: bool) -> Clock:
    """A whole fit of one round: item means, a pass over the users, the posts, the solve of the items."""
    model = lk.DPALS(epsilon=5.0, delta=1e-6, rank=rank, n_iter=1) if private else lk.ALS(rank=rank, n_iter=1)
    with Clock() as clock:
        model.fit(ratings)
    return clock


def gemm_rate(dtype: Any) -> float:
    """GFlop/s of a large product, per processor second, so that other work on the machine does not count."""
    a = np.ones((2048, 2048), dtype)
    with threadpool_limits(get_num_threads(), "blas"):
        a @ a
        started = time.process_time()
        for _ in range(3):
            a @ a
    return 3 * 2 * 2048**3 / (time.process_time() - started) / 1e9


def statistics_rate(ratings: lk.Ratings, rank: int) -> float:
    """Useful GFlop/s, per processor second, of the whole pass: rank (rank + 1) per rating for the Gram matrices alone."""
    rng = np.random.default_rng(0)
    sweep = ItemEquations(
        round=0,
        prior=np.full(N_ITEMS, 3.0),
        item_weights=np.ones(N_ITEMS),
        rarity=np.arange(N_ITEMS),
        item_factors=rng.normal(size=(N_ITEMS, rank)) / rank,
        row_bound=1.0,
        offset_reg=1.0,
        user_reg=10.0,
        max_ratings=N_ITEMS,
    )
    started = time.process_time()
    LocalEngine().sweep(sweep, ratings)
    return n_ratings(ratings) * rank * (rank + 1) / (time.process_time() - started) / 1e9


def n_ratings(ratings: lk.Ratings) -> int:
    return int(ratings._open_csr().nnz)


def peer_iteration(ratings: lk.Ratings, rank: int) -> tuple[float, float]:
    """Wall and processor seconds of one exact iteration of implicit, BLAS on one thread as it advises; best of two."""
    from implicit.als import AlternatingLeastSquares

    rows = ratings._open_csr().tocsr()
    model = AlternatingLeastSquares(
        rank, regularization=10.0, iterations=2, use_cg=False, use_gpu=False, num_threads=get_num_threads()
    )
    wall, cpu = list[float](), [0.0]

    def told(_: int, elapsed: float, *rest: Any) -> None:
        wall.append(elapsed)
        cpu.append(time.process_time())

    with threadpool_limits(1, "blas"):
        model.fit(rows.copy(), show_progress=False, callback=told)
    return min(wall), cpu[2] - cpu[1]  # the first has the set-up before it


def compare(ratings: lk.Ratings, rank: int, peer: bool) -> None:
    small = lk.Ratings.from_csr(ratings._open_csr()[:500], ratings.domain)
    for private in (False, True):
        iteration(small, rank, private)  # compiles
    clocks = {}
    for name, private in (("non-private", False), ("private", True)):
        runs = [iteration(ratings, rank, private) for _ in range(2)]
        clocks[name] = min(runs, key=lambda clock: clock.cpu)
        clocks[name].peak = max(run.peak for run in runs)
        print(f"rank {rank}  {name:<12} {clocks[name]}", flush=True)
    ours, noisy = clocks["non-private"], clocks["private"]
    print(f"  private / non-private: {noisy.wall / ours.wall:.2f} wall, {noisy.cpu / ours.cpu:.2f} processor")
    double, single = gemm_rate(np.float64), gemm_rate(np.float32)
    rate = statistics_rate(ratings, rank)
    print(
        f"  pass over the users {rate:.0f} GFlop/s: {rate / single:.2f} of sgemm, {rate / double:.2f} of dgemm", flush=True
    )
    if peer:
        wall, cpu = peer_iteration(ratings, rank)
        print(f"  implicit, exact {wall:7.2f} s wall {cpu:7.2f} s processor")
        print(f"  ours / implicit: {ours.wall / wall:.3f} wall, {ours.cpu / cpu:.3f} processor", flush=True)


def main() -> None:
    ratings = skewed()
    print(f"{N_USERS} x {N_ITEMS}, {n_ratings(ratings) / 1e6:.2f} M ratings, {get_num_threads()} threads")
    print(f"load of the machine before: {os.getloadavg()}", flush=True)
    for rank in [int(a) for a in sys.argv[1:] if a.isdigit()] or [64, 128]:
        compare(ratings, rank, "--no-peer" not in sys.argv)
    print(f"load of the machine after: {os.getloadavg()}")


if __name__ == "__main__":
    main()
