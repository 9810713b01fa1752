"""Public room: where the rounds of ``DPFactors`` begin: at random, at the rows' spectrum, or where ``DPMoments`` ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.moments import RatingMoments
from lowkey.linalg.packed import packed_length
from lowkey.methods.factors.blup import ItemMean
from lowkey.methods.factors.bounds import Scale
from lowkey.methods.moments.head import LARGEST_HEAD, clear_size, most_counted, places
from lowkey.methods.moments.method import OFFSET_REG
from lowkey.methods.moments.models import model_of
from lowkey.methods.moments.posted import Moments
from lowkey.methods.posts import PostedMeans, post_all
from lowkey.methods.spectral_start import start_factors, start_request
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Request

STARTS = ("random", "spectral", "moments")
SHARES = {"spectral": 0.1, "moments": 0.4}  # of mu^2, where ``start_share`` does not say
COCOUNTS = 0.1  # of the start's share, as in DPMoments

Array = NDArray[np.float64]


def start_requests(start: str, share: float | None, domain: Domain) -> list[Request]:
    """The start's lines of the plan; the others' shares add up to 1."""
    if start not in STARTS:
        refuse("start", got=repr(start), needed=" | ".join(STARTS), try_="start='random'")
    if start == "random":
        return []
    gram = start_request(domain.n_items, SHARES[start] if share is None else share)
    if start == "spectral":
        return [gram]
    order = min(domain.n_items, LARGEST_HEAD)
    return [
        Request(name, packed_length(order), part * gram.share, symmetric=True, note="for the start")
        for name, part in (("residual_gram", 1.0 - COCOUNTS), ("rated_gram", COCOUNTS))
    ]


def first_factors(
    start: str,
    rank: int,
    seed: int,
    scale: Scale,
    means: tuple[PostedMeans, ItemMean],
    ratings: Ratings,
    engine: Engine,
    billboard: Billboard,
    public: dict[str, Any],
) -> Array:
    """Item factors (n_items, rank) for which a user's ridge is ``scale.variance``."""
    domain, (posted, items) = ratings.domain, means
    # As large as leaves half of a user's factor to the ridge: neither drowned by it nor fitted to every rating.
    typical = math.sqrt(scale.variance) / scale.activity
    known = {**public, "item_bias": items.means}
    if start == "random":
        return typical * np.random.default_rng(seed).standard_normal((domain.n_items, rank))
    if start == "spectral":
        bounds = (scale.update_bound, scale.variance / scale.offset_variance, rank, items.counts)
        return typical * math.sqrt(rank) * start_factors(*bounds, ratings, engine, billboard, known)
    head = most_counted(posted.counts, clear_size(domain, posted.counts, posted.count_std))
    known |= places(head, domain.n_items)
    arrays, stds = post_all(RatingMoments(scale.update_bound, OFFSET_REG), ratings, engine, billboard, known)
    assert domain.rating_range is not None
    settings = {"center": public["center"], "rating_range": list(domain.rating_range)}
    arrays |= {"item_counts": posted.counts, "item_bias": items.means, "head": head}
    _, model, _ = model_of(Moments("ratings", arrays, stds, settings), domain.n_items, rank, 1.0)
    factors = np.zeros((domain.n_items, rank))
    factors[:, : model["item_factors"].shape[1]] = model["item_factors"]
    return factors
