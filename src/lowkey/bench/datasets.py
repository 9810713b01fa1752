"""Lab room: the data sets of the benchmarks, each as one split: users held out, a history shown, the rest to predict.

Real data is read from a local folder (``LOWKEY_DATA``) and never fetched. Which items are popular is treated as public.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import scipy.sparse

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.synthetic import lookalike_ml10m, planted_low_rank, taste
from lowkey.errors import refuse
from lowkey.evaluation.splits import Split, hold_out_users, split_ratings

FOLD_IN = 0.8


def data_folder() -> Path:
    return Path(os.environ.get("LOWKEY_DATA", "../shared/data"))


def load(name: str, seed: int = 0) -> Split:
    """The split of a named data set; the seed decides who is held out and what is shown."""
    if name not in DATASETS:
        refuse("data", got=repr(name), needed=" | ".join(DATASETS), try_="lowkey bench --data jester")
    return DATASETS[name](seed)


def jester(seed: int) -> Split:
    """Jester data set 1, part 1: ratings mapped from -10..10 to 0..5; 2000 users held out."""
    rows = _matrix("jester")
    rows.data = (rows.data + 10.0) / 4.0
    return hold_out_users(Ratings.from_csr(rows, Domain(100, (0.0, 5.0), expected_users=25_000)), 2000, FOLD_IN, seed)


def ml_1m(seed: int, feedback: str = "ratings") -> Split:
    """MovieLens 1M as it is; a tenth of the users held out."""
    rows = _matrix("ml-1m")
    return hold_out_users(Ratings.from_csr(rows, _domain(rows.shape[1], feedback, 6000)), 600, FOLD_IN, seed)


def ml_1m_resampled(seed: int, copies: int, feedback: str = "ratings", top: int | None = None) -> Split:
    """MovieLens 1M with every training user ``copies`` times, each copy keeping each rating with chance 1/2."""
    rows = _matrix("ml-1m")
    if top is not None:
        counts = np.bincount(rows.indices, minlength=rows.shape[1])
        rows = rows[:, np.sort(np.argsort(-counts, kind="stable")[:top])]
    domain = _domain(rows.shape[1], feedback, 5440 * copies)
    once = hold_out_users(Ratings.from_csr(rows, domain), 600, FOLD_IN, seed)
    train = once.train._open_csr()
    rng = np.random.default_rng(seed)
    thinned = []
    for _ in range(copies):
        kept = rng.random(train.nnz) < 0.5
        before = np.concatenate([[0], np.cumsum(kept)])
        entries = (train.data[kept], train.indices[kept], before[train.indptr])
        thinned.append(scipy.sparse.csr_array(entries, shape=train.shape))
    whole = scipy.sparse.csr_array(scipy.sparse.vstack(thinned))
    return Split(Ratings.from_csr(whole, domain), once.histories, once.held_out)


def _matrix(name: str) -> Any:
    path = data_folder() / f"{name}.parquet"
    if not path.exists():
        refuse(f"data {name!r}", got="no such file", needed=f"{name}.parquet in LOWKEY_DATA", try_="LOWKEY_DATA=folder")
    table = pyarrow.parquet.read_table(path, columns=["user", "item", "rating"])
    users, items = (np.unique(table[c].to_numpy(), return_inverse=True)[1] for c in ("user", "item"))
    return scipy.sparse.csr_array((table["rating"].to_numpy().astype(np.float32), (users, items)))


def _domain(n_items: int, feedback: str, expected_users: int) -> Domain:
    limits = (1.0, 5.0) if feedback == "ratings" else None
    return Domain(n_items, limits, feedback, expected_users)


def made_up(seed: int, n_users: int = 100_000, n_items: int = 2_000) -> Split:
    """The taste generator: half-star ratings by made-up people with made-up tastes."""
    return hold_out_users(taste(n_users, n_items, seed=seed).ratings(), 2000, FOLD_IN, seed)


def look_alike(seed: int) -> Split:
    """The MovieLens-10M look-alike: 70k users, 8k items, 7.2 M half-star ratings; a tenth of the ratings held out."""
    return split_ratings(lookalike_ml10m(seed).ratings(), 0.1, seed)


def planted(seed: int, n_users: int) -> Split:
    """The synthetic setting of the DPALS paper (Figure 4): rank 5, 1000 items, p = 20 ln(n)/1000, standard deviation 1."""
    density = 20.0 * math.log(n_users) / 1000.0
    data = planted_low_rank(n_users, 1000, 5, density=density, seed=seed)
    csr = data.csr
    csr.data /= csr.data.std()  # about 1/sqrt(5) before, so that entries reach sqrt(5) = 2.24
    domain = Domain(1000, (-2.5, 2.5), expected_users=n_users)
    return split_ratings(Ratings.from_csr(csr, domain), 0.1, seed)


DATASETS: dict[str, Callable[[int], Split]] = {
    "jester": jester,
    "ml-1m": ml_1m,
    "ml-1m-binary": lambda seed: ml_1m(seed, "binary"),
    "ml-1m-x12-top400": lambda seed: ml_1m_resampled(seed, 12, top=400),
    "ml-1m-x20-binary": lambda seed: ml_1m_resampled(seed, 20, "binary"),
    "taste": made_up,
    "look-alike": look_alike,
    "planted-20k": lambda seed: planted(seed, 20_000),
    "planted-50k": lambda seed: planted(seed, 50_000),
}
