"""Lab room: made-up data with something planted: what completion should recover, and a stand-in for MovieLens 10M."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse

from lowkey.data.synthetic import Synthetic, as_csr, facts_of, film_crowd, truth_of, write_users
from lowkey.data.synthetic_crowd import Crowd, popularity_by_rank


def planted_low_rank(
    n_users: int,
    n_items: int,
    rank: int,
    density: float = 0.1,
    noise: float = 0.0,
    seed: int = 0,
    rating_range: tuple[float, float] = (-1.0, 1.0),
) -> Synthetic:
    """Unit vectors u, v per user and item; entry = middle + half the range * (u.v + noise), cut to the range.

    Each entry is seen with chance `density`, on its own. Without noise nothing is cut, so with a range around 0 the
    matrix has exactly this rank (one more with another range). `truth`: user_factors, item_factors, middle.
    """
    rng = np.random.default_rng(seed)
    users = _unit_rows(rng.standard_normal((n_users, rank)))
    items = _unit_rows(rng.standard_normal((n_items, rank)))
    low, high = rating_range
    middle, half = (low + high) / 2, (high - low) / 2
    rows, columns, values = [], [], []
    for first in range(0, n_users, 1000):  # blocks of users: the full matrix need not fit into memory
        block = users[first : first + 1000]
        at, column = np.nonzero(rng.random((len(block), n_items)) < density)
        exact = np.einsum("nk,nk->n", block[at], items[column])
        rating = middle + half * (exact + noise * rng.standard_normal(len(at)))
        rows.append(at + first)
        columns.append(column)
        values.append(np.clip(rating, low, high))
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    csr = scipy.sparse.csr_array(entries, shape=(n_users, n_items))
    facts = {"items": n_items, "rating_range": (low, high), "feedback": "ratings", "expected_users": n_users}
    truth = {"user_factors": half * users, "item_factors": items, "middle": middle}
    return Synthetic(csr, facts, truth)


def write_taste_pieces(
    folder: str | Path, n_users: int, n_items: int, ratings_per_user: float = 50.0, seed: int = 0, each: int = 100_000
) -> Iterator[Path]:
    """The ratings of `write_taste(numbers=True)` as a folder of Parquet files of `each` users, one path after the other.

    Each user draws from a stream of their own, so the first pieces of a large crowd are those of a small one. A piece
    gets its name when it is whole, and one that has its name is not made again: who was interrupted goes on.
    """
    crowd, place = film_crowd(n_users, n_items, ratings_per_user, seed), Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for first in range(0, n_users, each):
        piece, last = place / f"piece-{first // each:05d}.parquet", min(first + each, n_users)
        if not piece.exists():
            unfinished = place / f".{piece.name}"
            write_users(unfinished, crowd, range(first, last, 10_000), last, pa.array(np.arange(n_items)), "ratings")
            unfinished.rename(piece)
        yield piece


def lookalike_ml10m(seed: int = 0) -> Synthetic:
    """A stand-in for MovieLens 10M: 70,000 users, 8,000 items, about 7.2 million half-star ratings.

    Planted: rating = 3.5 + user bias (std 0.40) + item bias (std 0.45) + p.q + noise, where p and q have rank 12 and
    the sum of products has std 0.445, noise std 0.745, then rounded to half stars and cut to 0.5..5. Which items a
    user rates depends on popularity alone (top 20 % of items: 84 % of the ratings), not on taste.
    Measured with seed 0 on a random tenth held out: bias model 0.831, ALS of rank 12 with biases (reg 8) 0.765, the
    truth itself 0.719. `truth` as for `taste`, without genres.
    """
    rank, n_items, taste_std = 12, 8_000, 0.445
    rng = np.random.default_rng([seed, 10])
    crowd = Crowd(
        seed=seed,
        n_users=70_000,
        ratings_per_user=7.2e6 / 70_000,
        popularity=rng.permutation(popularity_by_rank(n_items, 7.2e6 / 70_000)),
        groups=np.zeros(n_items, np.int32),
        item_factors=(taste_std / np.sqrt(rank) * rng.standard_normal((n_items, rank))).astype(np.float32),
        item_bias=(0.45 * rng.standard_normal(n_items)).astype(np.float32),
        mean=3.5,
        user_bias_std=0.40,
        noise_std=0.745,
        tilt=0.0,
    )
    return Synthetic(as_csr(crowd, n_items), facts_of(n_items, "ratings", crowd.n_users), truth_of(crowd))


def _unit_rows(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
