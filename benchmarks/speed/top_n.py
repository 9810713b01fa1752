"""The ten best of a million items for one user at a time: exactly, by every product or by falling norms; and by usearch.

    python benchmarks/speed/top_n.py [--items 1000000] [--rank 64] [--users 200] [--decays 0 0.5 1] [--no-index]

Made-up factors, whose j-th direction has the size j^-decay (0: all alike, the hardest; 1: as fits have), with log-normal
norms; users by a ridge regression on 30 ratings. Everything on one thread. `lowkey` is all of `model.recommend`: the
user's solve, the search, what was seen left out. usearch gets the same vectors (f16, its settings but for the expansion)
and a list so long that the seen can be left out; recall is the share of the exact ten that is in it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from threadpoolctl import threadpool_limits

import lowkey as lk
from lowkey.linalg.topn import top_n
from lowkey.model import Model
from lowkey_lab.speed import told

N, HISTORY = 10, 30
EXPANSIONS = (64, 256, 1024)


def made_up(n_items: int, rank: int, decay: float) -> Model:
    rng = np.random.default_rng(1)
    sizes = np.arange(1, rank + 1) ** -decay
    factors = (rng.normal(size=(n_items, rank)) * sizes * rng.lognormal(0.0, 0.5, (n_items, 1))).astype(np.float32)
    arrays = {"item_factors": factors, "item_bias": rng.normal(0.0, 0.3, n_items).astype(np.float32)}
    settings = {"center": 3.0, "rating_range": [0.5, 5.0], "offset_reg": 3.0, "reg": 3.0}
    return Model("made up", "factors", arrays, settings, lk.Domain(n_items, (0.5, 5.0)), lk.Ledger())


def histories(n_items: int, users: int) -> scipy.sparse.csr_array:
    rng = np.random.default_rng(2)
    items = np.sort(np.stack([rng.choice(n_items, HISTORY, replace=False) for _ in range(users)]))
    values = rng.choice(np.arange(1, 11) / 2, items.size).astype(np.float32)
    return scipy.sparse.csr_array((values, items.ravel(), np.arange(users + 1) * HISTORY), shape=(users, n_items))


def milliseconds(answer: Callable[[Any], Any], rows: list[Any]) -> tuple[float, list[Any]]:
    """The median of one request's time, and the answers."""
    answer(rows[0])
    took, found = [], []
    for row in rows:
        begin = time.perf_counter()
        found.append(answer(row))
        took.append(1e3 * (time.perf_counter() - begin))
    return float(np.median(took)), found


def compare(options: argparse.Namespace, decay: float) -> None:
    model, users = made_up(options.items, options.rank, decay), histories(options.items, options.users)
    rows = [users[[u]] for u in range(options.users)]
    print(f"{options.items:,} items, rank {options.rank}, decay {decay:g}, one thread")
    vectors = model.item_vectors().astype(np.float32)

    def every_product(row: Any) -> Any:
        scores = vectors @ np.append(model.transform(row)[0], 1.0).astype(np.float32)
        return top_n(scores[None], N, row)[0][0]

    whole, expected = milliseconds(every_product, rows)
    begin = time.perf_counter()
    model.recommend(rows[0], N)
    ready = time.perf_counter() - begin
    ours, found = milliseconds(lambda row: model.recommend(row, N)[0][0], rows)
    same = np.mean([np.isin(e, f).mean() for e, f in zip(expected, found, strict=True)])
    print(f"  every product, one scan  {whole:7.2f} ms a request")
    print(f"  lowkey, by falling norm  {ours:7.2f} ms, recall {same:.4f}; ready after {ready:.1f} s", flush=True)
    told(f"top {N} of {options.items:,}, decay {decay:g} / every product", ours / whole, 1.0)
    if not options.no_index:
        index(model, vectors, rows, expected, ours)


def index(model: Model, vectors: Any, rows: list[Any], expected: list[Any], ours: float) -> None:
    from usearch.index import Index

    found = Index(ndim=vectors.shape[1], metric="ip", dtype="f16")
    begin = time.perf_counter()
    found.add(np.arange(len(vectors)), vectors, threads=2)
    print(f"  usearch, index made in {time.perf_counter() - begin:.0f} s, {found.memory_usage / 2**30:.2f} GB")
    for expansion in EXPANSIONS:
        found.expansion_search = expansion

        def search(row: Any) -> Any:
            query = np.append(model.transform(row)[0], 1.0).astype(np.float32)
            keys = found.search(query, N + HISTORY, threads=1).keys
            return keys[~np.isin(keys, row.indices)][:N]

        took, answers = milliseconds(search, rows)
        recall = np.mean([np.isin(e, f).mean() for e, f in zip(expected, answers, strict=True)])
        print(
            f"  usearch, expansion {expansion:<5} {took:7.2f} ms, recall {recall:.3f}; lowkey takes {ours / took:.1f} of it"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--decays", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    parser.add_argument("--no-index", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(1):
        for decay in options.decays:
            compare(options, decay)


if __name__ == "__main__":
    main()
