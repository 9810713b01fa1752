"""A round of DPFactors next to a round of DPALS, in one run: same rank, same data (70k x 10.7k, 8 million ratings).

    python benchmarks/speed/factors_round.py [rank ...]        (default 16, 32 and 64)

A round is what one more round adds to a fit: the pass over the users, the posts with their noise, ledger and hashes,
and the items' solve. Fits of two and of four rounds are timed, and half of the difference is printed, best of two.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from als_iteration import N_ITEMS, N_USERS, n_ratings, skewed
from numba import get_num_threads

import lowkey as lk

FEW, MANY = 2, 4


def seconds(make: Callable[[int], Any], ratings: lk.Ratings) -> tuple[float, float]:
    """Wall and processor seconds of one more round, best of two of each."""
    found: list[tuple[float, float]] = []
    for n_iter in (FEW, MANY):
        runs = [_timed(make(n_iter), ratings) for _ in range(2)]
        found.append((min(wall for wall, _ in runs), min(cpu for _, cpu in runs)))
    (wall_few, cpu_few), (wall_many, cpu_many) = found
    return (wall_many - wall_few) / (MANY - FEW), (cpu_many - cpu_few) / (MANY - FEW)


def _timed(model: Any, ratings: lk.Ratings) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(ratings)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    ranks = [int(a) for a in sys.argv[1:]] or [16, 32, 64]
    ratings = skewed()
    print(f"{N_USERS} x {N_ITEMS}, {n_ratings(ratings) / 1e6:.2f} M ratings, {get_num_threads()} threads")
    print(f"load of the machine before: {os.getloadavg()}", flush=True)
    small = lk.Ratings.from_csr(ratings._open_csr()[:500], ratings.domain)
    for rank in ranks:
        makers = {
            "DPALS": lambda n, rank=rank: lk.DPALS(epsilon=5.0, delta=1e-6, rank=rank, n_iter=n),
            "DPFactors": lambda n, rank=rank: lk.DPFactors(epsilon=5.0, delta=1e-6, rank=rank, n_iter=n),
        }
        for make in makers.values():
            make(2).fit(small)  # compiles
        rounds = {name: seconds(make, ratings) for name, make in makers.items()}
        for name, (wall, cpu) in rounds.items():
            print(f"rank {rank:>3} {name:<10} {wall:7.2f} s wall {cpu:7.2f} s processor a round", flush=True)
        ours, theirs = rounds["DPFactors"], rounds["DPALS"]
        print(f"rank {rank:>3} DPFactors / DPALS: {ours[0] / theirs[0]:.2f} wall, {ours[1] / theirs[1]:.2f} processor")
    print(f"load of the machine after: {os.getloadavg()}")


if __name__ == "__main__":
    main()
