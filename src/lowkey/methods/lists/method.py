"""Public room: lists from who took what: counts first, then the second moments of what popularity does not explain.

Paper: ours (docs/lists.md), after Steck 2019 (EASE). Deviates: popularity is taken out of every row before it is scaled,
the noise is cleaned out of the spectrum, and the ridge of an item follows its popularity and the known noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import inv

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.lists import USERS_WEIGHT, TakenCounts, TasteMoments
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import positive, whole, within_catalogue
from lowkey.methods.counts import Counts, count_posterior
from lowkey.methods.curator import Curator
from lowkey.methods.moments.ease import CleanGram, clean_gram
from lowkey.methods.moments.head import LARGEST_HEAD, most_counted, places
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

COUNTS_SHARE = 0.2  # of mu^2
SMALLEST_HEAD = 300
CLEAR = 5.7  # an item is in the head from this many times sqrt(average count / mu) on
OWN_RIDGE, NOISE_RIDGE = 1.2, 0.2  # of what an item shares with itself alone, and of the noise's sqrt(n_head)
FEWEST = 200.0  # users times mu, below which popularity alone is better than any personal weights

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ListsSettings(Settings):
    head: int | None  # None: follows the posted counts
    largest_head: int
    liked: float | None
    reg: float
    personal: bool  # False: so few users are expected that only counts are posted

    def told(self) -> dict[str, Any]:
        return {"largest_head": self.largest_head}


class DPLists(Recommender):
    """What to take next, from who took what: ratings count as taken, or only those of at least ``liked``.

    Two posts: how many users took each item, and the second moments of the users' rows over the ``head`` of the
    catalogue (by default as many items as stand clear of the noise) after popularity is taken out of them. Scores are
    popularity plus what each item of a history adds; as noise grows they shrink into popularity. ``reg`` scales the
    ridge that follows from the posts.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    head : int, optional
        How many items get personal weights.
    liked : float, optional
        The least rating that counts as taken; by default every rating does.
    reg : float
        Scales the ridge that follows from the posts.

    Examples
    --------
    >>> model = lk.DPLists(epsilon=1.0, delta=1e-6, liked=4.0).fit(ratings)  # doctest: +SKIP
    >>> ids, scores = model.recommend({"film 7": 4.5}, n=10)  # doctest: +SKIP
    """

    constraints = {"head": whole(), "liked": positive(), "reg": positive()}

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        head: int | None = None,
        liked: float | None = None,
        reg: float = 1.0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.head = head
        self.liked = liked
        self.reg = reg

    def _settings(self, domain: Domain, budget: Budget) -> ListsSettings:
        if self.head is not None:
            within_catalogue("head", self.head, domain.n_items)
        if self.liked is not None and domain.rating_range is None:
            refuse("liked", got="binary feedback, where everything is", needed="ratings", try_="leaving it out")
        few = domain.expected_users is not None and domain.expected_users * budget.signal < FEWEST
        return ListsSettings(
            domain=domain,
            budget=budget,
            head=self.head,
            largest_head=min(domain.n_items, LARGEST_HEAD) if self.head is None else self.head,
            liked=self.liked,
            reg=self.reg,
            personal=not few or self.head is not None,
        )

    def _requests(self, settings: ListsSettings) -> list[Request]:
        note = "weighted counts of users, and the number of users"
        counts = Request("taken_counts", settings.n_items + 1, COUNTS_SHARE, note=note)
        if not settings.personal:
            return [counts]
        order, share = packed_length(settings.largest_head), 1.0 - COUNTS_SHARE
        return [counts, Request("taste_gram", order, share, mechanism=SymmetricGaussian)]

    def _run(self, settings: ListsSettings, curator: Curator) -> Released:
        posts = curator.ask(TakenCounts(settings.n_items, settings.liked))
        posted, std = posts["taken_counts"], posts.stds["taken_counts"]
        counts, users = count_posterior(posted[:-1], std), float(posted[-1]) / USERS_WEIGHT
        head = most_counted(counts.means, _head_size(settings, counts))
        shares = counts.means / max(float(counts.means[head].sum()), 1e-300)
        weights = np.zeros((len(head), len(head)))
        if settings.personal:
            sweep = TasteMoments(places(head, settings.n_items), shares[head], settings.liked)
            posts = curator.ask(sweep)
            noise = posts.stds["taste_gram"]
            if settings.head is not None or users * settings.budget.signal >= FEWEST:
                weights = taste_weights(clean_gram(unpack(posts["taste_gram"]), noise), shares[head], noise, settings.reg)
        arrays = {
            "head": head,
            "popularity": shares,
            "item_weights": weights,
            "mean_weights": shares[head] @ weights,
            # One form with EASE's item weights, which may be scaled on either side.
            "input_weights": np.ones(len(head)),
            "output_weights": np.ones(len(head)),
        }
        return Released("lists", arrays, {"liked": settings.liked, "rating_range": None})


def _head_size(settings: ListsSettings, counts: Counts) -> int:
    if settings.head is not None:
        return settings.head
    clear = CLEAR * math.sqrt(max(float(counts.means.mean()), 0.0) / settings.budget.signal)
    return min(max(int(np.sum(counts.means >= clear)), SMALLEST_HEAD), settings.largest_head)


def taste_weights(clean: CleanGram, shares: Array, noise_std: float, reg: float) -> Array:
    """EASE's item-item weights B, with a ridge per item.

    A row z = x - k shares goes into B as it is, so k items add the sum of their rows of B less k times the mean row
    shares . B. The ridge of an item is what it shares with itself alone and a part of the noise, times the root of its
    share: frequent items are alone in more rows. With much noise B, and with it all of this, vanishes.
    """
    n = len(shares)
    roots = np.sqrt(np.maximum(shares, 1e-12))
    ridge = reg * roots / roots.mean() * (OWN_RIDGE * clean.own + NOISE_RIDGE * noise_std * math.sqrt(n))
    gram = (clean.vectors * clean.values) @ clean.vectors.T
    gram[np.diag_indices_from(gram)] += ridge
    inverse = inv(gram, overwrite_a=True)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights
