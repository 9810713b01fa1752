"""Lab room: the data sets of the benchmarks, each as one split: users held out, a history shown, the rest to predict.

Real data is read from a local folder (``LOWKEY_DATA``) and never fetched; ``sources`` says where to get it. Which
items are popular is treated as public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.synthetic import taste
from lowkey.errors import refuse
from lowkey.evaluation.splits import Split, hold_out_users, split_ratings
from lowkey_lab import sources
from lowkey_lab.liang import liang_split
from lowkey_lab.papers import dpfw, dplmc
from lowkey_lab.synthetic import lookalike_ml10m, planted_low_rank

FOLD_IN = 0.8
HALF_STARS = (0.5, 5.0)
data_folder = sources.data_folder


class File(NamedTuple):
    """What ``lowkey bench`` must be told of a file: its columns, and the range of the ratings (None: binary feedback)."""

    user: str = "user"
    item: str = "item"
    rating: str | None = None
    scale: tuple[float, float] | None = None


def load(name: str, seed: int = 0, file: File | None = None) -> Split:
    """The split of a named data set or of a file; the seed decides who is held out and what is shown."""
    if name in DATASETS:
        return DATASETS[name](seed)
    if Path(name).suffix or Path(name).exists():
        return from_file(name, file or File(), seed)
    return refuse("--data", got=repr(name), needed=" | ".join(DATASETS) + " | a file", try_="--data jester")


def from_file(name: str, file: File, seed: int) -> Split:
    """Any file: a tenth of the users held out, four fifths of their ratings shown."""
    if (file.rating is None) != (file.scale is None):
        needed = "both, or neither for binary feedback"
        refuse("--rating and --scale", got="one of the two", needed=needed, try_="--rating rating --scale 0.5 5")
    rows = sources.as_rows(sources.file_columns(Path(name), file.user, file.item, file.rating))
    domain = _domain(rows, file.scale, "binary" if file.scale is None else "ratings")
    return hold_out_users(Ratings.from_csr(rows, domain), 0.1, FOLD_IN, seed)


def jester(seed: int) -> Split:
    """Jester data set 1, part 1: ratings mapped from -10..10 to 0..5; 2000 users held out."""
    return hold_out_users(_jester(), 2000, FOLD_IN, seed)


def jester_cells(seed: int) -> Split:
    """Jester as Jain et al. 2018 split it: 1 % of the ratings held out (part 1 of 3)."""
    return split_ratings(_jester(), 0.01, seed)


def ml_100k(seed: int) -> Split:
    """MovieLens 100K; a tenth of the users held out."""
    rows = _rows("ml-100k")
    return hold_out_users(Ratings.from_csr(rows, _domain(rows)), 0.1, FOLD_IN, seed)


def ml_100k_official(seed: int) -> Split:
    """MovieLens 100K, the official split u1 .. u5: 80 % of the ratings to train on (the seed chooses which, from 0)."""
    table = sources.columns(f"ml-100k-u{seed % 5 + 1}", "split")
    place = (table["user"] - 1, table["item"] - 1)
    train, test = (
        scipy.sparse.csr_array(
            (table["rating"][table["split"] == part].astype(np.float32), tuple(p[table["split"] == part] for p in place)),
            shape=(943, 1682),
        )
        for part in (0, 1)
    )
    return Split(Ratings.from_csr(train, _domain(train)), train, test)


def ml_1m(seed: int, feedback: str = "ratings") -> Split:
    """MovieLens 1M as it is; 600 users held out."""
    rows = _rows("ml-1m")
    return hold_out_users(Ratings.from_csr(rows, _domain(rows, feedback=feedback, users=6000)), 600, FOLD_IN, seed)


def ml_1m_resampled(seed: int, copies: int, feedback: str = "ratings", top: int | None = None) -> Split:
    """MovieLens 1M with every training user ``copies`` times, each copy keeping each rating with chance 1/2."""
    rows = _rows("ml-1m")
    if top is not None:
        rows = most_rated(rows, top)
    domain = _domain(rows, feedback=feedback, users=5440 * copies)
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


def ml_10m(seed: int) -> Split:
    """MovieLens 10M, 80/10/10 over the ratings (Lee et al. 2013); the validation tenth is left unused."""
    rows = _rows("ml-10m")
    return three_ways(Ratings.from_csr(rows, _domain(rows, HALF_STARS, users=70_000)), 0.1, 0.1, seed)


def top_400(name: str, users: int, scale: tuple[float, float], seed: int) -> Split:
    """The 400 most rated items, 98/1/1 over the ratings (Jain et al. 2018)."""
    rows = most_rated(_rows(name), 400)
    return three_ways(Ratings.from_csr(rows, _domain(rows, scale, users=users)), 0.01, 0.01, seed)


def ml_20m(seed: int) -> Split:
    """MovieLens 20M after Liang et al. 2018: ratings from 4, binary; 10,000 users held out. Their split, seed 0 only."""
    if seed != 0:
        refuse("--split", got=f"{seed}", needed="0: the published split has one seed", try_="--split 0")
    train, histories, held_out = liang_split(sources.columns("ml-20m"))
    return Split(Ratings.from_csr(train, _domain(train, feedback="binary", users=117_000)), histories, held_out)


def ml_25m(seed: int) -> Split:
    """MovieLens 25M, half-star ratings; a tenth of the users held out."""
    rows = _rows("ml-25m")
    return hold_out_users(Ratings.from_csr(rows, _domain(rows, HALF_STARS, users=146_000)), 0.1, FOLD_IN, seed)


def restaurants(seed: int) -> Split:
    """RC, restaurants rated 0..2; 80/20 over the ratings (Li et al. 2021)."""
    rows = _rows("rc")
    return split_ratings(Ratings.from_csr(rows, _domain(rows, (0.0, 2.0))), 0.2, seed)


def web_areas(seed: int) -> Split:
    """Anonymous Microsoft Web: which of 285 areas of a site a visitor saw; a tenth of the visitors held out."""
    rows = _rows("msweb")
    return hold_out_users(Ratings.from_csr(rows, _domain(rows, feedback="binary", users=29_000)), 0.1, FOLD_IN, seed)


def jester_5k(seed: int) -> Split:
    """Jester5k, 5,000 users of Jester on its own scale of -10..10; a tenth of the users held out."""
    rows = _rows("jester5k")
    return hold_out_users(Ratings.from_csr(rows, _domain(rows, (-10.0, 10.0))), 0.1, FOLD_IN, seed)


def ciao_dvd(seed: int) -> Split:
    """CiaoDVD: 17,615 users with four ratings each, most of them high; a tenth of the users held out."""
    table = sources.columns("ciaodvd")
    _, last = np.unique(np.stack([table["user"], table["item"]])[:, ::-1], axis=1, return_index=True)
    rows = sources.as_rows({name: values[::-1][last] for name, values in table.items()})  # of a repeated pair the last one
    return hold_out_users(Ratings.from_csr(rows, _domain(rows)), 0.1, FOLD_IN, seed)


def book_crossing(seed: int) -> Split:
    """Book-Crossing, explicit ratings 1..10 of the 20,000 most rated books; a tenth of the users held out."""
    table = sources.columns("book-crossing")
    given = table["rating"] > 0  # 0: somebody only had the book
    rows = most_rated(sources.as_rows({name: values[given] for name, values in table.items()}), 20_000)
    rows = rows[np.diff(rows.indptr) > 0]
    return hold_out_users(Ratings.from_csr(rows, _domain(rows, (1.0, 10.0))), 0.1, FOLD_IN, seed)


def made_up(seed: int, n_users: int = 100_000, n_items: int = 2_000) -> Split:
    """The taste generator: half-star ratings by made-up people with made-up tastes."""
    return hold_out_users(taste(n_users, n_items, seed=seed).ratings(), 2000, FOLD_IN, seed)


def look_alike(seed: int) -> Split:
    """The MovieLens-10M look-alike: 70k users, 8k items, 7.2 M half-star ratings; a tenth of the ratings held out."""
    return split_ratings(lookalike_ml10m(seed).ratings(), 0.1, seed)


def planted(seed: int, n_users: int) -> Split:
    """The synthetic setting of the DPALS paper (Figure 4), with unit rows: rank 5, 1000 items, p = 20 ln(n)/1000."""
    density = 20.0 * math.log(n_users) / 1000.0
    data = planted_low_rank(n_users, 1000, 5, density=density, seed=seed)
    csr = data.csr
    csr.data /= csr.data.std()  # about 1/sqrt(5) before, so that entries reach sqrt(5) = 2.24
    domain = Domain(1000, (-2.5, 2.5), expected_users=n_users)
    return split_ratings(Ratings.from_csr(csr, domain), 0.1, seed)


def rank_one(seed: int, n_users: int = 50_000) -> Split:
    """The synthetic setting of the Frank-Wolfe paper: rank one, 400 items, 81 exact ratings each, one in 81 to predict."""
    rows, _ = dpfw.rank_one(n_users, np.random.default_rng(seed))
    return split_ratings(Ratings.from_csr(rows, Domain(rows.shape[1], (-1.0, 1.0), expected_users=n_users)), 1 / 81, seed)


def gaussian_factors(seed: int, n_users: int = 10_000, rank: int = 5) -> Split:
    """The synthetic setting of the DPLMC paper: 10,000 users, 100 items, Gaussian factors of rank 5, noise variance 1."""
    rows: Any = scipy.sparse.csr_array(dplmc.planted(n_users, rank, True, seed).ratings)
    domain = Domain(rows.shape[1], (-dplmc.LIMIT, dplmc.LIMIT), expected_users=n_users)
    return split_ratings(Ratings.from_csr(rows, domain), 0.1, seed)


def three_ways(ratings: Ratings, test: float, validation: float, seed: int) -> Split:
    """Every rating goes to test, to validation (unused here) or to training, at random."""
    whole = split_ratings(ratings, test + validation, seed)
    held = whole.held_out
    tested = np.random.default_rng([seed, 1]).random(held.nnz) < test / (test + validation)
    before = np.concatenate([[0], np.cumsum(tested)])
    entries = (held.data[tested], held.indices[tested], before[held.indptr])
    return Split(whole.train, whole.histories, scipy.sparse.csr_array(entries, shape=held.shape))


def most_rated(rows: Any, top: int) -> Any:
    """The columns with most entries, in their old order."""
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    return rows[:, np.sort(np.argsort(-counts, kind="stable")[:top])]


def _jester() -> Ratings:
    rows = _rows("jester")
    rows.data = (rows.data + 10.0) / 4.0
    return Ratings.from_csr(rows, Domain(100, (0.0, 5.0), expected_users=25_000))


def _rows(name: str) -> Any:
    return sources.as_rows(sources.columns(name))


def _domain(
    rows: Any, scale: tuple[float, float] | None = (1.0, 5.0), feedback: str = "ratings", users: int | None = None
) -> Domain:
    """Without ``users`` the number of rows, to two digits, counts as known."""
    size = rows.shape[0]
    rough = round(size, 1 - int(math.log10(size)))
    return Domain(rows.shape[1], scale if feedback == "ratings" else None, feedback, users or max(1, rough))


DATASETS: dict[str, Callable[[int], Split]] = {
    "jester": jester,
    "jester-cells": jester_cells,
    "jester5k": jester_5k,
    "ciaodvd": ciao_dvd,
    "book-crossing": book_crossing,
    "ml-100k": ml_100k,
    "ml-100k-official": ml_100k_official,
    "ml-1m": ml_1m,
    "ml-1m-binary": lambda seed: ml_1m(seed, "binary"),
    "ml-1m-x12-top400": lambda seed: ml_1m_resampled(seed, 12, top=400),
    "ml-1m-x20-binary": lambda seed: ml_1m_resampled(seed, 20, "binary"),
    "ml-10m": ml_10m,
    "ml-10m-top400": lambda seed: top_400("ml-10m", 70_000, HALF_STARS, seed),
    "ml-20m": ml_20m,
    "ml-25m": ml_25m,
    "netflix-top400": lambda seed: top_400("netflix", 480_000, (1.0, 5.0), seed),
    "rc": restaurants,
    "msweb": web_areas,
    "taste": made_up,
    "look-alike": look_alike,
    "planted-5k": lambda seed: planted(seed, 5_000),
    "planted-10k": lambda seed: planted(seed, 10_000),
    "planted-20k": lambda seed: planted(seed, 20_000),
    "planted-50k": lambda seed: planted(seed, 50_000),
    "rank-one": rank_one,
    "gaussian-factors": gaussian_factors,
}
STANDARD = ("jester", "ml-1m", "ml-1m-binary", "ml-100k", "ciaodvd", "book-crossing", "jester5k", "msweb")
ABOUT = {
    "ml-1m-binary": "MovieLens 1M, who saw what; 600 users held out.",
    "ml-1m-x12-top400": "MovieLens 1M, the 400 most rated films, 12 half-thinned copies of each training user (65k users).",
    "ml-1m-x20-binary": "MovieLens 1M, who saw what, 20 half-thinned copies of every training user (109k users).",
    "ml-10m-top400": "MovieLens 10M, the 400 most rated films, 98/1/1 over the ratings (Jain et al. 2018).",
    "netflix-top400": "Netflix, the 400 most rated films, 98/1/1 over the ratings (Jain et al. 2018).",
    "planted-5k": "The synthetic setting of the DPALS paper (Figure 4), 5,000 users.",
    "planted-10k": "The synthetic setting of the DPALS paper (Figure 4), 10,000 users.",
    "planted-20k": "The synthetic setting of the DPALS paper (Figure 4), 20,000 users.",
    "planted-50k": "The synthetic setting of the DPALS paper (Figure 4), 50,000 users.",
}


def about(name: str) -> str:
    """One sentence on a data set and its split."""
    return ABOUT.get(name) or (DATASETS[name].__doc__ or "").splitlines()[0]


def source_of(name: str) -> str | None:
    """The source file behind a data set; None for what is made up."""
    return next((s for s in sorted(sources.SOURCES, key=len, reverse=True) if name.startswith(s)), None)
