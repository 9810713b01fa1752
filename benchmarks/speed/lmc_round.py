"""One round of DPLMC next to one round of DPALS at the same rank, in one run: passes over users, posts, items' side.

    python benchmarks/speed/lmc_round.py [--users 15000] [--items 100] [--rank 5] [--repeats 5] [--jobs 2]

A round is the difference between fits of eleven rounds and of one, divided by ten, so that neither item means nor starts
count; noise, ledger and hashes do. The two take turns; the best of the repeats is shown, in wall and processor seconds.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import lowkey as lk
from lowkey_lab.synthetic import planted_low_rank

ROUNDS = 10


def seconds(model: Any, ratings: lk.Ratings, jobs: int | None) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(ratings, engine=lk.LocalEngine(jobs))
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=15_000)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--density", type=float, default=0.48)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args()
    ratings = planted_low_rank(options.users, options.items, options.rank, density=options.density, noise=0.5).ratings()
    budget: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-5, "rank": options.rank}
    makers = {
        "DPLMC": lambda rounds: lk.DPLMC(**budget, n_iter=rounds, start="random"),
        "DPALS": lambda rounds: lk.DPALS(**budget, n_iter=rounds),
    }
    for make in makers.values():
        make(2).fit(ratings)  # compiles
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.repeats):
        for name, make in makers.items():
            one, more = (seconds(make(rounds), ratings, options.jobs) for rounds in (1, 1 + ROUNDS))
            taken = tuple((b - a) / ROUNDS for a, b in zip(one, more, strict=True))
            best[name] = tuple(map(min, best.get(name, taken), taken))  # pyright: ignore
    print(f"{options.users} x {options.items}, density {options.density:g}, rank {options.rank}")
    for name, (wall, cpu) in best.items():
        print(f"{name}: {1e3 * wall:8.2f} ms wall  {1e3 * cpu:8.2f} ms processor per round")
    ratio = [lmc / als for lmc, als in zip(best["DPLMC"], best["DPALS"], strict=True)]
    print(f"DPLMC / DPALS: {ratio[0]:.2f} wall, {ratio[1]:.2f} processor")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
