"""Public room: where the rounds of ``DPFactors`` begin: at random, at the rows' spectrum, or where ``DPMoments`` ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.moments import RatingMoments
from lowkey.linalg.packed import packed_length
from lowkey.methods.curator import Curator
from lowkey.methods.factors.bounds import Known, Scale
from lowkey.methods.factors.settings import FactorsSettings
from lowkey.methods.means import Means
from lowkey.methods.moments.head import LARGEST_HEAD, clear_size, most_counted, places
from lowkey.methods.moments.models import rating_factors
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
    settings: FactorsSettings, seed: int, scale: Scale, known: Known, means: Means, curator: Curator
) -> Array:
    """Item factors (n_items, rank) for which a user's ridge is ``scale.variance``."""
    # As large as leaves half of a user's factor to the ridge: neither drowned by it nor fitted to every rating.
    typical = math.sqrt(scale.variance) / scale.activity
    if settings.start == "random":
        return typical * _directions(settings, seed, known, means)
    if settings.start == "spectral":
        bounds = (scale.update_bound, means.offset_reg, settings.rank)
        found = start_factors(means.prior, known.weights, known.counts, *bounds, curator)
        return typical * math.sqrt(settings.rank) * found
    counts = means.posted_counts
    head = most_counted(counts, clear_size(settings.domain, counts, means.count_std))
    slots = places(head, settings.n_items)
    posts = curator.ask(RatingMoments(means.prior, slots, len(head), scale.update_bound, means.offset_reg))
    moments = Moments("ratings", {**posts.arrays, "item_counts": counts, "head": head}, posts.stds, {})
    found, _ = rating_factors(moments, settings.n_items, settings.rank)
    return np.pad(found, ((0, 0), (0, settings.rank - found.shape[1])))


def _directions(settings: FactorsSettings, seed: int, known: Known, means: Means) -> Array:
    """Random, but for the two that are known: how items are liked, and how often they are rated; of size one each."""
    drawn = np.random.default_rng(seed).standard_normal((settings.n_items, settings.rank))
    for k, direction in enumerate((means.effects, np.log(known.counts))[: settings.rank]):
        centred = direction - np.average(direction, weights=known.counts)
        size = math.sqrt(float(np.average(centred**2, weights=known.counts)))
        if size > 1e-9:
            drawn[:, k] = centred / size
    return drawn
