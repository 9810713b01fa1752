"""Public room: a private spectral start for methods with factors: one noisy Gram matrix, its leading directions.

Paper: DPLMC (Wang, Zhao and Kolar 2023), Algorithm 2. Deviates: ``linalg.spectral_start``.

A method that wants it adds ``start_requests`` to its plan and calls ``spectral_start``, or ``start_factors`` if it only
takes the items' side, before its rounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.moments import RowMoments
from lowkey.kernels.spectral_start import StartGram
from lowkey.linalg.packed import packed_length, unpack
from lowkey.linalg.spectral_start import Start, balanced_start
from lowkey.methods.moments.ease import clean_gram
from lowkey.methods.moments.head import WEIGHT_POWER, most_counted, places
from lowkey.methods.posts import post_all
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Request

LARGEST_ROWS = 2048  # items of the Gram matrix for binary feedback: its eigenvectors take the cube of this
LEAST_SHARE = 0.1  # an item that is seen less than this share of the average counts as seen this often


def start_request(n_items: int, share: float) -> Request:
    """A line of the plan: one symmetric matrix of order ``n_items``, for ``share`` of mu^2 if the others' add up to 1."""
    if not 0.0 < share < 1.0:
        refuse("start_share", got=repr(share), needed="a share between 0 and 1", try_="start_share=0.1")
    return Request(
        "start_gram", packed_length(n_items), share / (1.0 - share), symmetric=True, note="of the rows, for the start"
    )


def start_requests(start: str, share: float, domain: Domain) -> list[Request]:
    """For methods that start at random or, with ratings, by the spectrum: nothing for the plan, or the line."""
    if start != "random" and (start != "spectral" or domain.rating_range is None):
        refuse("start", got=repr(start), needed="'random', or 'spectral' for ratings", try_="start='random'")
    return [start_request(domain.n_items, share)] if start == "spectral" else []


def observed_shares(weights: NDArray[np.float64], counts: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """How often each item is seen, times its weight, in units of the average item; all alike without posted counts."""
    shares = np.ones(len(weights)) if counts is None else counts / counts.mean()
    return np.maximum(weights * shares, LEAST_SHARE)


def spectral_start(
    sweep: StartGram, rank: int, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
) -> Start:
    """Post the Gram matrix and take it apart. ``public`` says what rows are centred and weighted by, how many users
    there are (``n_users``) and which share of item j they show, its weight included (``observed``)."""
    sums, _ = engine.sweep(sweep, ratings, public=public)
    gram = unpack(billboard.post(sums["start_gram"]))
    return balanced_start(gram, rank, public["n_users"], public["observed"])


def start_factors(
    row_bound: float,
    offset_reg: float | None,
    rank: int,
    counts: NDArray[np.float64] | None,
    ratings: Ratings,
    engine: Engine,
    billboard: Billboard,
    public: dict[str, Any],
) -> NDArray[np.float64]:
    """The items' side alone, with rows of length 1 in the root mean square: neither p nor the number of users is needed.

    ``row_bound`` bounds the root mean square of a user's weighted residuals. Dropped columns (see ``balanced_start``)
    stay zero.
    """
    sweep = StartGram(row_bound, math.inf if offset_reg is None else offset_reg, per_rating=True)
    facts = {"n_users": 1.0, "observed": observed_shares(public["item_weights"], counts)}
    factors = spectral_start(sweep, rank, ratings, engine, billboard, {**public, **facts}).item_factors
    return factors / max(float(np.sqrt((factors**2).sum(axis=1).mean())), 1e-300)


def binary_start_request(n_head: int, share: float) -> Request:
    """The line for ``binary_start_factors``: it gets ``share`` of mu^2 if the others' shares add up to 1."""
    line = start_request(min(n_head, LARGEST_ROWS), share)
    return replace(line, name="row_gram", note="of rows of norm 1, for the start")


def binary_start_factors(
    rank: int,
    active: NDArray[np.bool_],
    counts: NDArray[np.float64] | None,
    ratings: Ratings,
    engine: Engine,
    billboard: Billboard,
) -> NDArray[np.float64]:
    """Factors from the Gram matrix of users' rows of norm 1 over the most frequent ``active`` items (``RowMoments``).

    Rows are weighted by posted count^-WEIGHT_POWER, which is taken back from the factors; its noise is cleaned out of the
    spectrum. Columns beyond what is left of it, and items beyond ``LARGEST_ROWS``, are zero. V^T V has mean eigenvalue 1.
    """
    known = np.ones(len(active)) if counts is None else np.maximum(counts, 1.0)
    head = np.flatnonzero(active)
    head = head[most_counted(known[head], LARGEST_ROWS)]
    weights = known[head] ** -WEIGHT_POWER
    public = {"n_items": len(active), "head_weights": weights, **places(head, len(active))}
    posted, stds = post_all(RowMoments(), ratings, engine, billboard, public)
    clean = clean_gram(unpack(posted["row_gram"]), stds["row_gram"])
    kept = min(rank, len(clean.values))
    factors = np.zeros((len(active), rank))
    factors[head, :kept] = clean.vectors[:, :kept] * np.sqrt(clean.values[:kept]) / weights[:, None]
    return factors / max(math.sqrt(float(np.sum(factors**2)) / rank), 1e-300)
