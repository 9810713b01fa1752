"""Lab room: lists on anybody's data: ``python -m lowkey_lab.lists [--data a,b] [--draws 0] [--epsilons 1,5] [--unknown]``.

Prints a row per data set, draw and epsilon: Recall@20 on held-out users of the non-private ``Popularity`` and of
``DPLists``, their difference, and the size of the head. Ratings of any value count as taken. NOT PRIVATE.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey_lab import sources
from lowkey_lab.datasets import most_rated

DATA = ("ml-100k", "msweb", "ciaodvd", "book-crossing", "jester5k", "ml-1m")
TOP = {"book-crossing": 20_000}
EXPLICIT = {"book-crossing": 1.0}  # where 0 says that somebody only had a book
DELTA, HELD_OUT, FOLD_IN = 1e-5, 0.2, 0.8


def taken(name: str) -> Any:
    """Who took what, a row per user."""
    table = sources.columns(name)
    kept = table["rating"] >= EXPLICIT.get(name, -np.inf) if "rating" in table else slice(None)
    users, items = (np.unique(table[column][kept], return_inverse=True)[1] for column in ("user", "item"))
    rows = scipy.sparse.csr_array((np.ones(len(users)), (users, items)))
    rows.data[:] = 1.0
    rows = most_rated(rows, TOP[name]) if name in TOP else rows
    return scipy.sparse.csr_array(rows[np.diff(rows.indptr) > 0])


def split_of(rows: Any, draw: int, *, known_crowd: bool) -> Split:
    users = round((1.0 - HELD_OUT) * rows.shape[0]) if known_crowd else None
    domain = lk.Domain(items=rows.shape[1], feedback="binary", expected_users=users)
    return hold_out_users(lk.Ratings.from_csr(rows, domain), HELD_OUT, FOLD_IN, draw)


def recall(model: Any, split: Split) -> float:
    return evaluate(model.fit(split.train), split.histories, split.held_out)["recall@20"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--draws", default="0")
    parser.add_argument("--epsilons", default="0.5,1,2,5,20")
    parser.add_argument("--unknown", action="store_true", help="no number of users is expected")
    given = parser.parse_args()
    print(f"{'data':<14}{'draw':>5}{'epsilon':>9}{'popularity':>12}{'DPLists':>10}{'gain':>9}{'head':>7}")
    for name in given.data.split(","):
        rows = taken(name)
        for draw in map(int, given.draws.split(",")):
            split = split_of(rows, draw, known_crowd=not given.unknown)
            floor = recall(lk.Popularity(), split)
            for epsilon in map(float, given.epsilons.split(",")):
                model = lk.DPLists(epsilon, DELTA)
                found = recall(model, split)
                head = len(model.model_.arrays["head"])
                figures = f"{epsilon:>9g}{floor:>12.4f}{found:>10.4f}{found - floor:>+9.4f}{head:>7}"
                print(f"{name:<14}{draw:>5}{figures}", flush=True)


if __name__ == "__main__":
    main()
