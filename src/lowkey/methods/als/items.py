"""Public room: what DPALS makes of the items before its rounds: the head, weights by posted count, random factors.

Paper: DPALS (Chien et al. 2021), Algorithm 3 (frequent items, rarest first); weights of Krichene et al. 2023. Deviates:
the head is a share of the catalogue by posted count; weights follow posted counts, see ``docs/dpals.md`` (h).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.als.settings import Settings

Array = NDArray[np.float64]
LIGHT_USER = 20.0  # ratings; for binary feedback


def head_size(n_items: int, settings: Settings) -> int:
    """How many items get factors."""
    return min(n_items, max(settings.rank, round(settings.head * n_items)))


def item_weights(n_items: int, counts: Array | None, settings: Settings, equal: bool) -> dict[str, Any]:
    """Weights of the items, 0 outside the head; and, for ``max_ratings``, the order from rare to frequent."""
    if counts is None:
        return {"item_weights": np.ones(n_items), "rarity": np.arange(n_items)}
    place = np.empty(n_items, np.int64)  # 0 for the most frequent item
    place[np.argsort(-counts, kind="stable")] = np.arange(n_items)
    in_head = place < head_size(n_items, settings)
    weights = np.ones(n_items) if equal else counts**-settings.weight_exponent
    rarity = np.where(in_head, n_items - place, 2 * n_items - place)
    return {"item_weights": np.where(in_head, weights, 0.0), "rarity": rarity}


def user_gram_scale(weights: Array, counts: Array | None) -> float:
    """So that a user with LIGHT_USER ratings of usual weight counts once in the implicit term, heavier ones less."""
    usual = float(weights @ counts) / float(counts.sum()) if counts is not None else 1.0
    return math.sqrt(LIGHT_USER) * max(usual, 1e-300)


def random_start(domain: Domain, counts: Array | None, rank: int, seed: int) -> Array:
    """Random factors from the public stream; for binary feedback blind to popularity, which the first round finds."""
    start = np.random.default_rng(seed).normal(size=(domain.n_items, rank)) / math.sqrt(rank)
    if counts is not None and domain.rating_range is None and domain.n_items > rank:
        popularity = counts / np.linalg.norm(counts)
        start -= np.outer(popularity, popularity @ start)
    return start


def orthogonal_columns(factors: Array) -> Array:
    """The same factors in the basis in which their columns are orthogonal."""
    if not np.isfinite(factors).all():
        refuse("item factors", got="a number that is not finite", needed="finite factors", try_="a larger reg")
    return factors @ np.linalg.eigh(factors.T @ factors)[1]
