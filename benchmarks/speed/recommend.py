"""Recommending for 100k users x 20k items (top 20, seen excluded) against implicit's `recommend`, in one run.

    python benchmarks/speed/recommend.py [--users 100000] [--rank 64]

Both get factors of the same rank on the same two threads, once from the histories (which we always fold in, and implicit
with `recalculate_user`) and once from ready-made user factors. Ratios are of processor time, as other work on the machine
stretches the wall's. Also printed: our peak of memory above the data.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import implicit
import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

import lowkey as lk

N_ITEMS, N = 20_000, 20


def skewed_rows(n_users: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(20, 100, n_users))])
    popularity = 1.0 / np.arange(1, N_ITEMS + 1) ** 0.8
    items = rng.choice(N_ITEMS, offsets[-1], p=popularity / popularity.sum())
    rows = scipy.sparse.csr_matrix(
        (np.full(len(items), 3.0, np.float32), items.astype(np.int32), offsets), (n_users, N_ITEMS)
    )
    rows.sum_duplicates()
    rows.data = rng.uniform(1.0, 5.0, len(rows.data)).astype(np.float32)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--rank", type=int, default=64)
    options = parser.parse_args()
    rows = skewed_rows(options.users)
    few = rows[:2000]
    exact = lk.ALS(rank=options.rank, n_iter=1, reg=0.01, user_reg=1.0, offset_reg=1.0)
    model = exact.fit(scipy.sparse.csr_array(few), domain=lk.Domain(N_ITEMS, (1.0, 5.0))).model_
    model.recommend(few, N)  # compiled

    peer = implicit.als.AlternatingLeastSquares(factors=options.rank, num_threads=2)
    peer.item_factors = np.asarray(model.arrays["item_factors"], np.float32)
    peer.user_factors = np.asarray(model.transform(rows), np.float32)[:, -options.rank :]
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ours = timed(lambda: model.recommend(rows, N))
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 2**20
    with threadpool_limits(1, "blas"):  # as implicit advises
        given = timed(lambda: peer.recommend(np.arange(options.users), rows, N=N))
        theirs = timed(lambda: peer.recommend(np.arange(options.users), rows, N=N, recalculate_user=True))
    fold = timed(lambda: model.transform(rows))
    print(f"{options.users} users x {N_ITEMS} items, rank {options.rank}, top {N}, seen excluded")
    ranked = (ours[0] - fold[0], ours[1] - fold[1])
    print("                                                wall  processor")
    print(f"from histories:     lowkey                 {line(ours)}   peak {peak:.2f} GB above the data")
    print(f"                    implicit, recalculated {line(theirs)}   ratio {ours[1] / theirs[1]:.2f} (target: 1)")
    print(f"from user factors:  lowkey                 {line(ranked)}   (the above less {fold[1]:.2f} s of fold-in)")
    print(f"                    implicit               {line(given)}   ratio {ranked[1] / given[1]:.2f} (target: 1)")


def line(seconds: tuple[float, float]) -> str:
    return "".join(f"{number:8.2f} s" for number in seconds)


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


if __name__ == "__main__":
    main()
