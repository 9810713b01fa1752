"""Vault room: data sets that are made up, hence public, from a seed: for demos, tests and benchmarks.

`planted_low_rank` (what completion should recover), `checkerboard` (an answer a child can check), `taste` (a readable
film crowd with the skews of MovieLens, any size) and `lookalike_ml10m` (a stand-in for MovieLens 10M).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.synthetic_crowd import Crowd, popularity_by_rank
from lowkey.errors import refuse

HALF_STARS = (0.5, 5.0)


class Synthetic(NamedTuple):
    """A made-up data set: `Domain(**facts)` is its domain, `truth` what was planted."""

    csr: scipy.sparse.csr_array
    facts: dict[str, Any]
    truth: dict[str, Any]

    def domain(self) -> Domain:
        return Domain(**self.facts)

    def ratings(self) -> Ratings:
        return Ratings.from_csr(self.csr, self.domain())


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


def checkerboard(n_users: int, n_items: int | None = None) -> Synthetic:
    """Even users like even items, odd users odd items, each with one item of their own colour left out.

    As in implicit's tests: what to recommend is the item left out, which is `truth["left_out"][user]` (the user's
    own number, while there is an item with that number).
    """
    n_items = n_users if n_items is None else n_items
    if n_users < 1 or n_items < 4:
        refuse("checkerboard", got="too small a board", needed="a user and four items", try_="checkerboard(20)")
    users = np.arange(n_users)
    colour = users % 2
    of_colour = (n_items - colour + 1) // 2  # how many items have the user's colour
    left_out = 2 * ((users // 2) % of_colour) + colour
    board = (users[:, None] % 2 == np.arange(n_items) % 2) & (np.arange(n_items) != left_out[:, None])
    csr = scipy.sparse.csr_array(board.astype(np.float32))
    facts = {"items": n_items, "feedback": "binary", "expected_users": n_users}
    return Synthetic(csr, facts, {"left_out": left_out})


def taste(
    n_users: int, n_items: int, ratings_per_user: float = 50.0, seed: int = 0, feedback: str = "ratings"
) -> Synthetic:
    """Film fans with genres for taste: readable names, popularity and activity skewed as in MovieLens.

    The top 20 % of films hold about 84 % of the ratings (less where `ratings_per_user` is large for the catalogue:
    nobody rates a film twice), the mean number of ratings is about 2.1 times the median. People pick more from
    genres they like and rate those higher. `feedback="binary"` keeps who saw what. Nobody has a film twice.
    `truth`: genres, user_factors (liking of each genre), item_factors (a film's genres), user_bias, item_bias, mean.
    """
    crowd = _film_crowd(n_users, n_items, ratings_per_user, seed)
    csr = _as_csr(crowd, n_items)
    if feedback == "binary":
        csr.data[:] = 1.0
    names = film_names(crowd.groups)
    truth = {"genres": [list(GENRES)[genre] for genre in crowd.groups], **_truth(crowd)}
    return Synthetic(csr, _facts(names, feedback, n_users), truth)


def write_taste(
    path: str | Path,
    n_users: int,
    n_items: int,
    ratings_per_user: float = 50.0,
    seed: int = 0,
    feedback: str = "ratings",
    numbers: bool = False,
    users_per_group: int = 10_000,
) -> dict[str, Any]:
    """The ratings of `taste` as a Parquet file with columns user, item, rating; returns the facts for `Domain`.

    Users are "u000123" and items film names, or both plain integers with `numbers`. Written in row groups of
    `users_per_group` users, so memory does not grow with the number of users; a user's films are in picking order.
    """
    crowd = _film_crowd(n_users, n_items, ratings_per_user, seed)
    items = np.arange(n_items) if numbers else film_names(crowd.groups)
    _write_users(path, crowd, range(0, n_users, users_per_group), n_users, pa.array(items), feedback)
    return _facts(items, feedback, n_users)


def write_taste_pieces(
    folder: str | Path, n_users: int, n_items: int, ratings_per_user: float = 50.0, seed: int = 0, each: int = 100_000
) -> Iterator[Path]:
    """The ratings of `write_taste(numbers=True)` as a folder of Parquet files of `each` users, one path after the other.

    Each user draws from a stream of their own, so the first pieces of a large crowd are those of a small one. A piece
    gets its name when it is whole, and one that has its name is not made again: who was interrupted goes on.
    """
    crowd, place = _film_crowd(n_users, n_items, ratings_per_user, seed), Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for first in range(0, n_users, each):
        piece, last = place / f"piece-{first // each:05d}.parquet", min(first + each, n_users)
        if not piece.exists():
            unfinished = place / f".{piece.name}"
            _write_users(unfinished, crowd, range(first, last, 10_000), last, pa.array(np.arange(n_items)), "ratings")
            unfinished.rename(piece)
        yield piece


def _write_users(path: str | Path, crowd: Crowd, firsts: range, end: int, item_ids: Any, feedback: str) -> None:
    """Row groups of users, each from one of `firsts` to the next; users are numbers where items are."""
    numbers = pa.types.is_integer(item_ids.type)
    kind = pa.int64() if numbers else pa.string()
    fields = [("user", kind), ("item", kind)] + ([("rating", pa.float32())] if feedback == "ratings" else [])
    schema = pa.schema(fields)
    digits = len(str(crowd.n_users))
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for first in firsts:
            last = min(first + firsts.step, end)
            offsets, positions, ratings = crowd.draw(first, last)
            ids = np.arange(first, last)
            user_ids = pa.array(ids if numbers else [f"u{user:0{digits}d}" for user in ids])
            users = np.repeat(np.arange(len(ids)), np.diff(offsets))
            columns = [user_ids.take(pa.array(users)), item_ids.take(pa.array(positions)), pa.array(ratings)]
            writer.write_table(pa.table(columns[: len(fields)], schema=schema))


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
    return Synthetic(_as_csr(crowd, n_items), _facts(n_items, "ratings", crowd.n_users), _truth(crowd))


def _film_crowd(n_users: int, n_items: int, ratings_per_user: float, seed: int) -> Crowd:
    if n_users < 1:
        refuse("n_users", got="less than one", needed="at least one user", try_="n_users=1000")
    rng = np.random.default_rng([seed, 0])
    genres = rng.integers(len(GENRES), size=n_items).astype(np.int32)
    second = (genres + rng.integers(1, len(GENRES), size=n_items)) % len(GENRES)
    item_factors = np.zeros((n_items, len(GENRES)), np.float32)
    item_factors[np.arange(n_items), genres] = 0.40
    item_factors[np.arange(n_items), second] = 0.20
    popularity = rng.permutation(popularity_by_rank(n_items, ratings_per_user))
    fame = np.log(popularity)
    fame = (fame - fame.mean()) / max(float(fame.std()), 1e-9)
    item_bias = 0.40 * (0.4 * fame + np.sqrt(1 - 0.4**2) * rng.standard_normal(n_items))  # good films are seen more
    return Crowd(
        seed=seed,
        n_users=n_users,
        ratings_per_user=ratings_per_user,
        popularity=popularity,
        groups=genres,
        item_factors=item_factors,
        item_bias=item_bias.astype(np.float32),
        mean=3.05,
        user_bias_std=0.40,
        noise_std=0.75,
        tilt=0.7,
    )


def _as_csr(crowd: Crowd, n_items: int) -> scipy.sparse.csr_array:
    offsets, items, ratings = crowd.draw(0, crowd.n_users)
    csr = scipy.sparse.csr_array((ratings, items, offsets), shape=(crowd.n_users, n_items))
    csr.sort_indices()
    return csr


def _facts(items: Any, feedback: str, n_users: int) -> dict[str, Any]:
    scale = {"rating_range": HALF_STARS} if feedback == "ratings" else {}
    return {"items": items, **scale, "feedback": feedback, "expected_users": n_users}


def _truth(crowd: Crowd) -> dict[str, Any]:
    bias, factors, _ = crowd.traits(0, crowd.n_users)
    return {
        "user_factors": factors,
        "item_factors": crowd.item_factors,
        "user_bias": bias,
        "item_bias": crowd.item_bias,
        "mean": crowd.mean,
    }


def _unit_rows(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


GENRES = {
    "Space Opera": "Orbit Signal Colony Starship Horizon Nebula Crossing Machine",
    "Nordic Noir": "Fjord Ferry Snowfall Confession Lighthouse Alibi Winter Witness",
    "Heist Comedy": "Vault Getaway Diamond Disguise Blueprint Safe Partner Decoy",
    "Folk Horror": "Harvest Well Orchard Effigy Parish Hollow Solstice Scarecrow",
    "Courtroom Drama": "Verdict Oath Appeal Juror Precedent Objection Motive Defence",
    "Western": "Saddle Canyon Sheriff Stagecoach Ridge Telegraph Ranch Outlaw",
    "Romantic Comedy": "Wedding Bakery Neighbour Letter Umbrella Florist Train Proposal",
    "Spy Thriller": "Cipher Courier Embassy Handler Dossier Double Border Microfilm",
    "Nature Documentary": "Glacier Migration Reef Savanna Wolf Monsoon Canopy Tide",
    "Musical": "Overture Encore Understudy Refrain Ballroom Chorus Matinee Spotlight",
    "Kung Fu": "Temple Crane Master Tournament Bamboo Fist Disciple Mountain",
    "Coming of Age": "Summer Bicycle Diary Mixtape Lake Graduation Attic Bus",
}
_QUALITIES = "Long Silent Last Broken Golden Hidden Second Distant Crooked Borrowed Bitter Bright Lost Paper Slow Northern"
_MIXES = 5  # coprime to the number of qualities, so that quality and noun run through all their pairs


def film_names(genres: npt.NDArray[np.int32]) -> list[str]:
    """A distinct name for each film of these genres (numbers into `GENRES`), for any number of films."""
    words = list(GENRES)
    nouns = [GENRES[word].split() for word in words]
    qualities = _QUALITIES.split()
    made = [0] * len(words)
    names = []
    for genre in genres.tolist():
        made[genre] += 1  # the number alone makes the name distinct within its genre
        number = made[genre]
        noun = nouns[genre][number % len(nouns[genre])]
        quality = qualities[(number // len(nouns[genre]) + _MIXES * number + 3 * genre) % len(qualities)]
        names.append(f"{words[genre]} {number}: The {quality} {noun}")
    return names
