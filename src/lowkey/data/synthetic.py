"""Vault room: a crowd that is made up, hence public, from a seed: film fans with the skews of MovieLens, any number."""

from __future__ import annotations

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


def taste(
    n_users: int, n_items: int, ratings_per_user: float = 50.0, seed: int = 0, feedback: str = "ratings"
) -> Synthetic:
    """Film fans with genres for taste: readable names, popularity and activity skewed as in MovieLens.

    The top 20 % of films hold about 84 % of the ratings (less where `ratings_per_user` is large for the catalogue:
    nobody rates a film twice), the mean number of ratings is about 2.1 times the median. People pick more from
    genres they like and rate those higher. `feedback="binary"` keeps who saw what. Nobody has a film twice.
    `truth`: genres, user_factors (liking of each genre), item_factors (a film's genres), user_bias, item_bias, mean.
    """
    crowd = film_crowd(n_users, n_items, ratings_per_user, seed)
    csr = as_csr(crowd, n_items)
    if feedback == "binary":
        csr.data[:] = 1.0
    names = film_names(crowd.groups)
    truth = {"genres": [list(GENRES)[genre] for genre in crowd.groups], **truth_of(crowd)}
    return Synthetic(csr, facts_of(names, feedback, n_users), truth)


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
    crowd = film_crowd(n_users, n_items, ratings_per_user, seed)
    items = np.arange(n_items) if numbers else film_names(crowd.groups)
    write_users(path, crowd, range(0, n_users, users_per_group), n_users, pa.array(items), feedback)
    return facts_of(items, feedback, n_users)


def write_users(path: str | Path, crowd: Crowd, firsts: range, end: int, item_ids: Any, feedback: str) -> None:
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


def film_crowd(n_users: int, n_items: int, ratings_per_user: float, seed: int) -> Crowd:
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


def as_csr(crowd: Crowd, n_items: int) -> scipy.sparse.csr_array:
    offsets, items, ratings = crowd.draw(0, crowd.n_users)
    csr = scipy.sparse.csr_array((ratings, items, offsets), shape=(crowd.n_users, n_items))
    csr.sort_indices()
    return csr


def facts_of(items: Any, feedback: str, n_users: int) -> dict[str, Any]:
    scale = {"rating_range": HALF_STARS} if feedback == "ratings" else {}
    return {"items": items, **scale, "feedback": feedback, "expected_users": n_users}


def truth_of(crowd: Crowd) -> dict[str, Any]:
    bias, factors, _ = crowd.traits(0, crowd.n_users)
    return {
        "user_factors": factors,
        "item_factors": crowd.item_factors,
        "user_bias": bias,
        "item_bias": crowd.item_bias,
        "mean": crowd.mean,
    }


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
