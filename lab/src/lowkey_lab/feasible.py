"""Lab room: ``python -m lowkey_lab.feasible``: what was expected of lists before the fit, and what was then kept.

Crowds that ``methods.feasibility`` was not made from: cut-down MovieLens 1M and Microsoft Web with draws of their own, and
two made-up kinds of takers. Kept is the share of what ``DPLists`` gains over ``Popularity`` without noise. NOT PRIVATE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey.methods.feasibility import LITTLE, kept_share
from lowkey.privacy.gaussian import gaussian_mu
from lowkey_lab.anyone import rows_of

DELTA, SEED, TESTED, WITHIN = 1e-5, 77, 600, 0.15
EPSILONS = (1.0, 5.0)
NEARLY_EXACT = 500.0  # an epsilon whose noise no longer matters


def takers(users: int, n_items: int, ratings: float, *, groups: bool, seed: int) -> Any:
    """Popularity falls like 1/rank^0.8; takes are drawn by it, tilted by Gaussian factors, or by one of ten groups."""
    rng = np.random.default_rng(seed)
    odds = -0.8 * np.log(np.arange(1, n_items + 1))[rng.permutation(n_items)]
    if groups:
        tastes = 2.0 * (rng.integers(10, size=users)[:, None] == rng.integers(10, size=n_items))
    else:
        tastes = rng.normal(size=(users, 6)) @ rng.normal(0.0, 0.6, (6, n_items))
    lengths = np.minimum(2 + rng.geometric(1.0 / ratings, users), n_items // 2)
    order = np.argsort(-(odds + tastes + rng.gumbel(size=(users, n_items))), axis=1)
    taken = [order[u, : lengths[u]] for u in range(users)]
    owners = np.repeat(np.arange(users), lengths)
    return scipy.sparse.csr_array((np.ones(len(owners)), (owners, np.concatenate(taken))), shape=(users, n_items))


def crowds() -> Iterator[tuple[str, Any]]:
    """Named rows of who took what; ``TESTED`` of them are held out, the others are the crowd."""
    for name, sizes in (("ml-1m", (800, 1800, 4000)), ("msweb", (600, 2500, 12_000))):
        rows = rows_of(name, "lists")
        for size in sizes:
            chosen = np.random.default_rng([SEED, size]).permutation(rows.shape[0])[: size + TESTED]
            yield f"{name}, {size:,} users", rows[np.sort(chosen)]
    for users, n_items, ratings in ((1500, 300, 20.0), (4000, 800, 30.0), (8000, 400, 8.0), (1000, 1500, 60.0)):
        for groups in (False, True):
            kind = "groups" if groups else "factors"
            yield f"{kind}, {users:,} users", takers(users + TESTED, n_items, ratings, groups=groups, seed=SEED)


def recall(model: Any, split: Split) -> float:
    return evaluate(model.fit(split.train), split.histories, split.held_out)["recall@20"]


def main() -> None:
    print(f"{'crowd':<24}{'items':>7}{'epsilon':>9}{'popularity':>12}{'exact':>8}{'DPLists':>9}{'expected':>10}{'kept':>7}")
    right, unwarned, cells = 0, 0, 0
    for name, rows in crowds():
        users, n_items = rows.shape[0] - TESTED, rows.shape[1]
        domain = lk.Domain(n_items, feedback="binary", expected_users=users)
        split = hold_out_users(lk.Ratings.from_csr(scipy.sparse.csr_array(rows), domain), TESTED, 0.8, SEED)
        floor = recall(lk.Popularity(), split)
        exact = recall(lk.DPLists(NEARLY_EXACT, DELTA), split)
        for epsilon in EPSILONS:
            found = recall(lk.DPLists(epsilon, DELTA), split)
            expected = kept_share(users, n_items, gaussian_mu(epsilon, DELTA), rows.nnz / rows.shape[0])
            kept = (found - floor) / max(exact - floor, 0.01)
            cells, right = cells + 1, right + (abs(expected - kept) <= WITHIN)
            unwarned += found < floor - 0.003 and expected >= LITTLE
            figures = f"{epsilon:>9g}{floor:>12.4f}{exact:>8.4f}{found:>9.4f}{expected:>10.2f}{kept:>7.2f}"
            print(f"{name:<24}{n_items:>7}{figures}", flush=True)
    print(f"{right} of {cells} within {WITHIN}; below popularity without a warning: {unwarned}. NOT PRIVATE.")


if __name__ == "__main__":
    main()
