"""Posting the moments next to scipy's A^T A and to one DPALS round at rank 64: 116k users x 20k items x 60 ratings.

Run: python benchmarks/speed/moments_release.py [--users 116000] [--items 20000] [--ratings 60]
"Posting" is everything that touches data or draws noise; the model that is then fitted on the posts is timed apart.
scipy multiplies the rows of the same head, on one thread, which is all that it has, so ours has one there too.
Targets: posting takes no longer than the round, nor twice as long as the product; the peak stays below 6 GB.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey_lab.speed import in_turn, told

HEAD = 4096


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def post_moments(ratings: lk.Ratings) -> tuple[float, float, int]:
    """Seconds to post, seconds to fit the model, and the size of the head."""
    begin = time.perf_counter()
    estimator = lk.DPMoments(epsilon=1.0, delta=1e-6).fit(ratings)
    fitted = time.perf_counter()
    estimator.refit()  # the model alone, on what was posted
    modelling = time.perf_counter() - fitted
    return fitted - begin - modelling, modelling, len(estimator.moments_.arrays["head"])


def against_scipy(ratings: lk.Ratings) -> None:
    """The pass that sums the moments of a head against the bare product of the head's columns."""
    rows = ratings._open_csr()
    head = np.sort(np.argsort(-np.asarray((rows != 0).sum(axis=0)).ravel())[:HEAD])
    some = rows[:, head].tocsr()
    domain = lk.Domain(HEAD, ratings.domain.rating_range)
    estimator = lk.DPMoments(epsilon=1.0, delta=1e-6, head=HEAD)
    own = lk.Ratings.from_csr(some, domain)
    spent: list[float] = []

    class Timed(lk.LocalEngine):
        def sweep(self, *given: Any, **words: Any) -> Any:
            begin = time.perf_counter()
            found = super().sweep(*given, **words)
            spent.append(time.perf_counter() - begin)
            return found

    def ours() -> None:
        estimator.fit(own, engine=Timed(1))

    best = in_turn({"scipy": lambda: some.T @ some, "ours": ours})
    passes = len(spent) // 3
    a_fit = min(sum(spent[k * passes : (k + 1) * passes]) for k in range(3))
    print(f"head of {HEAD:,} items: scipy's product {best['scipy']:.2f} s, the passes of a fit {a_fit:.2f} s")
    told("DPMoments' passes / scipy.sparse A^T A, one thread", a_fit / best["scipy"], 2.0)


def als_round(ratings: lk.Ratings) -> float:
    """Seconds of one round at rank 64: the difference of a fit with two rounds and a fit with one."""
    seconds = []
    for n_iter in (1, 2):
        begin = time.perf_counter()
        lk.DPALS(epsilon=1.0, delta=1e-6, rank=64, n_iter=n_iter).fit(ratings)
        seconds.append(time.perf_counter() - begin)
    return seconds[1] - seconds[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=116_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--ratings", type=float, default=60.0)
    options = parser.parse_args()
    small = taste(500, 300, seed=1).ratings()
    post_moments(small), als_round(small)  # compile
    ratings = taste(options.users, options.items, options.ratings, seed=0).ratings()
    data_gb = peak_gb()
    posting, fitting, head = post_moments(ratings)
    moments_gb = peak_gb()
    one_round = als_round(ratings)
    print(f"{options.users:,} users x {options.items:,} items x {options.ratings:g} ratings each (taste generator)")
    print(f"posting the moments   {posting:7.2f} s   head of {head:,} items")
    print(f"one DPALS round       {one_round:7.2f} s   rank 64")
    told("posting the moments / a DPALS round of rank 64", posting / one_round, 1.0)
    against_scipy(ratings)
    print(f"fitting the model     {fitting:7.2f} s   on posted moments: no data, no noise")
    print(f"peak memory           {moments_gb:7.2f} GB  ({data_gb:.2f} GB after making the data); target: below 6 GB")


if __name__ == "__main__":
    main()
