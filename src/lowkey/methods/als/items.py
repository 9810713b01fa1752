"""Public room: what DPALS makes of the items before its rounds: the head, weights by posted count, random factors.

Paper: DPALS (Chien et al. 2021), Algorithm 3 (frequent items, rarest first); weights of Krichene et al. 2023. Deviates:
the head is a share of the catalogue by posted count; weights follow posted counts, see ``docs/dpals.md`` (h).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import refuse
from lowkey.kernels.bias import ItemCounts
from lowkey.methods.als.settings import ALSSettings
from lowkey.methods.curator import Curator
from lowkey.methods.means import Means, ask_means

Array = NDArray[np.float64]
LIGHT_USER = 20.0  # ratings; for binary feedback


class Items(NamedTuple):
    """What is known of the items before the rounds. All public."""

    center: float
    bias: Array
    counts: Array | None  # posted, weighted, at least 1; None where nothing was posted
    weights: Array  # 0 outside the head
    rarity: NDArray[np.int64] | None  # rises from rare to frequent, and the head comes first; None: not known
    means: Means | None = None  # what the counts are from, where they are of ratings

    @property
    def active(self) -> NDArray[np.bool_]:
        return self.weights > 0.0

    @property
    def user_gram_scale(self) -> float:
        """So that a user with LIGHT_USER ratings of usual weight counts once in the implicit term, heavier ones less."""
        usual = float(self.weights @ self.counts) / float(self.counts.sum()) if self.counts is not None else 1.0
        return math.sqrt(LIGHT_USER) * max(usual, 1e-300)


def ask_items(settings: ALSSettings, curator: Curator) -> Items:
    """Item means (binary: counts), if they are in the plan, and the weights that follow from them."""
    center, bias, counts, means = 0.0, np.zeros(settings.n_items), None, None
    binary = settings.domain.rating_range is None
    if not binary:
        center = settings.center
    if settings.bias_share > 0.0 and binary:
        counts = np.maximum(curator.ask(ItemCounts(settings.n_items))["item_counts"], 1.0)
    elif settings.bias_share > 0.0:
        means = ask_means(settings, curator, 1)
        center, bias, counts = means.center, means.effects, np.maximum(means.posted_counts, 1.0)
    return Items(center, bias, counts, *_weights(settings, counts), means)


def _weights(settings: ALSSettings, counts: Array | None) -> tuple[Array, NDArray[np.int64] | None]:
    """Weights of the items, 0 outside the head; and, for ``max_ratings``, the order from rare to frequent, if known."""
    n_items = settings.n_items
    if counts is None:
        return np.ones(n_items), None
    place = np.empty(n_items, np.int64)  # 0 for the most frequent item
    place[np.argsort(-counts, kind="stable")] = np.arange(n_items)
    in_head = place < settings.head_size
    weights = np.ones(n_items) if settings.max_ratings is not None else counts**-settings.weight_exponent
    return np.where(in_head, weights, 0.0), np.where(in_head, n_items - place, 2 * n_items - place)


def random_start(settings: ALSSettings, items: Items, seed: int) -> Array:
    """Random factors from the public stream; for binary feedback blind to popularity, which the first round finds."""
    n_items, rank = settings.n_items, settings.rank
    start = np.random.default_rng(seed).normal(size=(n_items, rank)) / math.sqrt(rank)
    if items.counts is not None and settings.domain.rating_range is None and n_items > rank:
        popularity = items.counts / np.linalg.norm(items.counts)
        start -= np.outer(popularity, popularity @ start)
    return start * items.active[:, None]


def orthogonal_columns(factors: Array) -> Array:
    """The same factors in the basis in which their columns are orthogonal."""
    if not np.isfinite(factors).all():
        refuse("item factors", got="a number that is not finite", needed="finite factors", try_="a larger reg")
    return factors @ np.linalg.eigh(factors.T @ factors)[1]
