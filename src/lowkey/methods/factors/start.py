"""Public room: where the rounds of ``DPFactors`` begin: at random, at the rows' spectrum, or where ``DPMoments`` ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.moments import RatingMoments
from lowkey.linalg.packed import packed_length
from lowkey.methods.curator import Curator
from lowkey.methods.factors.blup import ItemMean
from lowkey.methods.factors.bounds import Known, Scale
from lowkey.methods.factors.settings import FactorsSettings
from lowkey.methods.means import PostedMeans
from lowkey.methods.moments.head import LARGEST_HEAD, clear_size, most_counted, places
from lowkey.methods.moments.method import OFFSET_REG
from lowkey.methods.moments.models import model_of
from lowkey.methods.moments.posted import Moments
from lowkey.methods.starts import start_factors, start_request
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

STARTS = ("random", "spectral", "moments")
SHARES = {"random": 0.0, "spectral": 0.1, "moments": 0.4}  # of mu^2
COCOUNTS = 0.1  # of the start's share, as in DPMoments

Array = NDArray[np.float64]


def start_requests(settings: FactorsSettings) -> list[Request]:
    """The start's lines of the plan; the others' shares add up to 1."""
    if settings.start == "random":
        return []
    gram = start_request(settings.n_items, settings.start_share)
    if settings.start == "spectral":
        return [gram]
    order = min(settings.n_items, LARGEST_HEAD)
    return [
        Request(name, packed_length(order), part * gram.share, mechanism=SymmetricGaussian, note="for the start")
        for name, part in (("residual_gram", 1.0 - COCOUNTS), ("rated_gram", COCOUNTS))
    ]


def first_factors(
    settings: FactorsSettings, seed: int, scale: Scale, known: Known, means: tuple[PostedMeans, ItemMean], curator: Curator
) -> Array:
    """Item factors (n_items, rank) for which a user's ridge is ``scale.variance``."""
    posted, items = means
    # As large as leaves half of a user's factor to the ridge: neither drowned by it nor fitted to every rating.
    typical = math.sqrt(scale.variance) / scale.activity
    if settings.start == "random":
        return typical * np.random.default_rng(seed).standard_normal((settings.n_items, settings.rank))
    prior = settings.center + items.means
    if settings.start == "spectral":
        bounds = (scale.update_bound, scale.variance / scale.offset_variance, settings.rank)
        return typical * math.sqrt(settings.rank) * start_factors(prior, known.weights, items.counts, *bounds, curator)
    head = most_counted(posted.counts, clear_size(settings.domain, posted.counts, posted.count_std))
    slots = places(head, settings.n_items)
    posts = curator.ask(RatingMoments(prior, slots, len(head), scale.update_bound, OFFSET_REG))
    facts = {"center": settings.center, "rating_range": list(settings.limits)}
    arrays = {**posts.arrays, "item_counts": posted.counts, "item_bias": items.means, "head": head}
    found = model_of(Moments("ratings", arrays, posts.stds, facts), settings.n_items, settings.rank, 1.0).arrays
    factors = np.zeros((settings.n_items, settings.rank))
    factors[:, : found["item_factors"].shape[1]] = found["item_factors"]
    return factors
