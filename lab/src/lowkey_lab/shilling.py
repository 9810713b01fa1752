"""Lab room: how far forged users push one item: privacy is not robustness. On a made-up crowd; NOT PRIVATE.

    python -m lowkey_lab.shilling

Whoever can add users adds some who all have one item that few have, with the best rating, and beside it the most popular
ones, so that they look like everybody (a bandwagon attack). Counted is how many of the real people then find it among their
top ten, in the mean over draws of the noise. A guarantee bounds what one user changes, so what k of them change is bounded
by k times mu and no better; clips and noise are no defence against a crowd.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import scipy.sparse

from lowkey.data.synthetic import Synthetic, taste
from lowkey.methods.registry import estimator

USERS, ITEMS, RATINGS_EACH, ASKED = 6000, 1000, 40.0, 500
FILLERS, TOP = 30, 10
METHODS = (("lists", "binary"), ("Popularity", "binary"), ("factors", "ratings"), ("bias", "ratings"), ("Bias", "ratings"))


def with_forged(crowd: Synthetic, forged: int, item: int) -> Any:
    """The rows of the crowd, and so many more who have the item and the most popular ones, all with the best rating."""
    rows: Any = crowd.csr
    popular = np.argsort(-np.bincount(rows.indices, minlength=rows.shape[1]), kind="stable")
    profile = np.sort(np.append(popular[popular != item][:FILLERS], item))
    best = float(rows.data.max())
    more = scipy.sparse.csr_array(
        (np.full(forged * len(profile), best), np.tile(profile, forged), np.arange(forged + 1) * len(profile)),
        shape=(forged, rows.shape[1]),
    )
    return scipy.sparse.vstack([rows, more], format="csr")


def pushed(crowd: Synthetic, method: str, epsilon: float, forged: int, draws: int) -> float:
    """The share of real people who find the item among their top ten; those who have it are not asked."""
    rows: Any = crowd.csr
    domain = crowd.domain()
    item = int(np.argsort(np.bincount(rows.indices, minlength=rows.shape[1]), kind="stable")[rows.shape[1] // 2])
    kind: Any = estimator(method)
    shares = []
    for _ in range(draws if kind.private else 1):
        empty = kind(epsilon, 1e-6) if kind.private else kind()
        fitted = empty.fit(with_forged(crowd, forged, item), domain=domain)
        asked = [u for u in range(ASKED) if item not in rows.indices[rows.indptr[u] : rows.indptr[u + 1]]]
        found, _ = fitted.recommend(rows[asked], n=TOP)
        shares.append(np.mean(np.any(np.asarray(found) == domain.ids([item])[0], axis=1)))
    return float(np.mean(shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forged", type=int, nargs="+", default=[0, 60, 600])
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--draws", type=int, default=10)
    asked = parser.parse_args()
    crowds = {feedback: taste(USERS, ITEMS, RATINGS_EACH, seed=26, feedback=feedback) for feedback in ("binary", "ratings")}
    print(f"{USERS:,} people, {ITEMS:,} items; an item of median popularity among the top {TOP} of {ASKED} of them")
    print(
        f"epsilon = {asked.epsilon:g}, delta = 1e-6, {asked.draws} draws; forged users with it and {FILLERS} popular items"
    )
    print(f"{'forged users':<14}" + "".join(f"{count:>9,}" for count in asked.forged))
    for method, feedback in METHODS:
        shares = [pushed(crowds[feedback], method, asked.epsilon, count, asked.draws) for count in asked.forged]
        print(f"{method:<14}" + "".join(f"{share:>9.1%}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
