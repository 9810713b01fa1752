"""A round of DPFactors next to a round of DPALS, in one run: same rank, same data (70k x 10.7k, 8 million ratings).

    python benchmarks/speed/factors_round.py [rank ...]        (default 16, 32 and 64)

A round is what one more round adds to a fit: the pass over the users, the posts with their noise, ledger and hashes,
and the items' solve. Fits of two and of four rounds are timed, in turn with the other method's, and half of the difference
of the best of three is printed.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from als_iteration import N_ITEMS, N_USERS, n_ratings, skewed
from numba import get_num_threads

import lowkey as lk

FEW, MANY, TIMES = 2, 4, 3


def rounds(makers: dict[str, Callable[[int], Any]], ratings: lk.Ratings) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of one more round, by method."""
    best = {(name, n): (math.inf, math.inf) for name in makers for n in (FEW, MANY)}
    for name, n in TIMES * list(best):  # what else the machine does falls on all alike
        wall, cpu = _timed(makers[name](n), ratings)
        best[name, n] = min(best[name, n][0], wall), min(best[name, n][1], cpu)
    more = lambda name, at: (best[name, MANY][at] - best[name, FEW][at]) / (MANY - FEW)
    return {name: (more(name, 0), more(name, 1)) for name in makers}


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
        found = rounds(makers, ratings)
        for name, (wall, cpu) in found.items():
            print(f"rank {rank:>3} {name:<10} {wall:7.2f} s wall {cpu:7.2f} s processor a round", flush=True)
        ours, theirs = found["DPFactors"], found["DPALS"]
        print(f"rank {rank:>3} DPFactors / DPALS: {ours[0] / theirs[0]:.2f} wall, {ours[1] / theirs[1]:.2f} processor")
    print(f"load of the machine after: {os.getloadavg()}")


if __name__ == "__main__":
    main()
