"""One ALS iteration against implicit's, in one run: 70k x 10.7k, about 8 million skewed ratings.

    python benchmarks/speed/als_iteration.py [rank ...] [--repeats 3] [--no-peer] [--profile]

For each rank (64 and 128) what one more iteration takes on the clock: (three iterations - one)/2, best of the repeats in
turn, at equal threads: ours, the private one (its noise from the cryptographic generator, its ledger and hashes too), and
implicit's, exact and by conjugate gradients, with BLAS on one thread as it advises. Then the share of the machine's own
sgemm rate that a whole pass over the users reaches, by the products of the Gram matrices alone. `--profile` shows instead
where the processor time of such a pass goes, on one block of 16,384 users.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads
from threadpoolctl import threadpool_limits

import lowkey as lk
from lowkey.data.ratings import HeldRows
from lowkey.engines.local import LocalEngine, no_sums
from lowkey.kernels.als import ItemEquations
from lowkey_lab.speed import per_iteration, told

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
    rows = HeldRows(offsets, items, values, np.arange(N_USERS, dtype=np.uint64))
    return lk.Ratings(lk.Domain(N_ITEMS, (1.0, 5.0)), rows)


def gemm_rate(dtype: Any) -> float:
    """GFlop/s of a large product, per processor second, so that other work on the machine does not count."""
    a = np.ones((2048, 2048), dtype)
    with threadpool_limits(get_num_threads(), "blas"):
        a @ a
        started = time.process_time()
        for _ in range(3):
            a @ a
    return 3 * 2 * 2048**3 / (time.process_time() - started) / 1e9


def equations(rank: int) -> ItemEquations:
    rng = np.random.default_rng(0)
    return ItemEquations(
        round=1,
        prior=np.full(N_ITEMS, 3.0),
        item_weights=np.ones(N_ITEMS),
        rarity=np.arange(N_ITEMS),
        item_factors=rng.normal(size=(N_ITEMS, rank)) / rank,
        row_bound=1.0,
        offset_reg=1.0,
        user_reg=10.0,
        max_ratings=N_ITEMS,
    )


def statistics_rate(ratings: lk.Ratings, rank: int) -> float:
    """Useful GFlop/s, per processor second, of the whole pass: rank (rank + 1) per rating for the Gram matrices alone."""
    started = time.process_time()
    LocalEngine().sweep(equations(rank), ratings)
    return n_ratings(ratings) * rank * (rank + 1) / (time.process_time() - started) / 1e9


def profile(ratings: lk.Ratings, rank: int) -> None:
    """Seconds of processor time of each part of a pass, by the kernels' own names."""
    sweep, block = equations(rank), next(iter(ratings._open_blocks(1 << 14)))
    watched, sums = cProfile.Profile(time.process_time), no_sums(sweep.statistics)
    sweep.run(block, None, sums)  # compiles
    with threadpool_limits(1, "blas"):
        watched.runcall(sweep.run, block, None, sums)
    found = Counter[str]()
    for (_, _, name), row in pstats.Stats(watched).stats.items():  # type: ignore[attr-defined]
        found[name] += row[2]
    useful, whole = len(block.items) * rank * (rank + 1) / 1e9, sum(found.values())
    print(f"rank {rank}, {len(block.items):,} ratings, sgemm {gemm_rate(np.float32):.0f} GFlop/s")
    for name in ("_row_sides", "_solve_users", "_by_item", "_add_equations"):
        print(f"  {name:<16}{found[name]:7.3f} s{found[name] / whole:7.0%}{useful / found[name]:8.1f} GFlop/s")
    print(f"  {'all':<16}{whole:7.3f} s{1:7.0%}{useful / whole:8.1f} GFlop/s", flush=True)


def baseline(rank: int, n_iter: int) -> lk.ALS:
    """With given ridges, so that it tries none."""
    return lk.ALS(rank=rank, n_iter=n_iter, reg=0.05, user_reg=1.5 * rank, offset_reg=1.0)


def n_ratings(ratings: lk.Ratings) -> int:
    return int(ratings._open_csr().nnz)


def compare(ratings: lk.Ratings, rank: int, peer: bool, repeats: int) -> None:
    rows = ratings._open_csr().tocsr().copy()  # implicit wants to be able to write

    def implicit(use_cg: bool) -> Callable[[int], Any]:
        from implicit.als import AlternatingLeastSquares

        usual = {"regularization": 10.0, "use_cg": use_cg, "use_gpu": False, "num_threads": get_num_threads()}

        def fit(n_iter: int) -> None:
            with threadpool_limits(1, "blas"):
                AlternatingLeastSquares(rank, iterations=n_iter, **usual).fit(rows, show_progress=False)

        return fit

    fits: dict[str, Callable[[int], Any]] = {
        "ALS": lambda n: baseline(rank, n).fit(ratings),
        "DPALS": lambda n: lk.DPALS(epsilon=5.0, delta=1e-6, rank=rank, n_iter=n).fit(ratings),
    }
    if peer:
        fits |= {"implicit, exact": implicit(False), "implicit, CG": implicit(True)}
    small = lk.Ratings.from_csr(ratings._open_csr()[:500], ratings.domain)
    for model in (baseline(rank, 2), lk.DPALS(epsilon=5.0, delta=1e-6, rank=rank, n_iter=2)):
        model.fit(small)  # compiles
    found = per_iteration(fits, repeats=repeats)
    for name, seconds in found.items():
        print(f"rank {rank}  {name:<16}{seconds:7.2f} s an iteration", flush=True)
    told(f"private round / non-private, rank {rank}", found["DPALS"] / found["ALS"], 1.1)
    if peer:
        told(f"ALS / implicit's exact iteration, rank {rank}", found["ALS"] / found["implicit, exact"], 0.33)
        told(f"ALS / implicit's iteration by CG, rank {rank}", found["ALS"] / found["implicit, CG"], 1.0)
    ours, theirs = zip(*[(statistics_rate(ratings, rank), gemm_rate(np.float32)) for _ in range(repeats)], strict=True)
    share = max(ours) / max(theirs)  # the best of each, in turn
    told(f"pass over the users / sgemm, rank {rank}", share, 0.3, at_least=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ranks", type=int, nargs="*", default=[64, 128])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options, ratings = parser.parse_args(), skewed()
    print(f"{N_USERS} x {N_ITEMS}, {n_ratings(ratings) / 1e6:.2f} M ratings, {get_num_threads()} threads")
    for rank in options.ranks:
        if options.profile:
            profile(ratings, rank)
        else:
            compare(ratings, rank, not options.no_peer, options.repeats)


if __name__ == "__main__":
    main()
