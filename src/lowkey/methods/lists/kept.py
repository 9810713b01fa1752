"""Public room: after a fit of lists, the share of the gain without noise that it kept: from its posts, so free of charge.

    share = head_share^HEAD / (1 + exp(-LEVEL - TASTES log(tastes/(1 - tastes)) - SPREAD log spread))

Noise drowns weak tastes, weights are large where few people speak, and what is outside the head gets none. The constants
come from ``python -m lowkey_lab.feasible --fit``, and ``python -m lowkey_lab.feasible`` holds them against crowds that they
were not made from (docs/lists.md). Paper: ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.methods.moments.ease import CleanGram

HEAD, LEVEL, TASTES, SPREAD = 0.53, -5.77, 2.26, -1.01
STRONGEST = 5  # tastes that are looked at
SMALLEST_SPREAD = 1e-4
LITTLE_KEPT, LITTLE_EXPLAINED = 0.3, 0.02  # below, lists may be behind most-popular

Array = NDArray[np.float64]


class Signs(NamedTuple):
    """What the posts show of how much was heard."""

    tastes: float  # t/(t + noise): the mean of the strongest, beside where the noise's own spectrum ends
    spread: float  # root mean square of the weights
    explained: float  # of what people left out took beyond popularity, the part that the weights foretell
    head_share: float  # of all that is taken

    @classmethod
    def of(cls, clean: CleanGram, noise_std: float, weights: Array, agreement: float, head_share: float) -> Signs:
        """``agreement`` is the first number of the post ``taste_fit`` over the users."""
        strongest = float(clean.values[:STRONGEST].sum()) / STRONGEST
        noise = noise_std * math.sqrt(len(weights))
        spread = math.sqrt(float(np.mean(weights**2)))
        return cls(strongest / max(strongest + noise, 1e-300), spread, agreement, head_share)


def share_left(signs: Signs | None) -> float:
    """0 to 1; 0 where only counts were posted."""
    if signs is None:
        return 0.0
    return signs.head_share**HEAD / (
        1.0 + math.exp(-LEVEL - TASTES * stand_out(signs.tastes) - SPREAD * wide(signs.spread))
    )


def stand_out(tastes: float) -> float:
    """The logarithm of tastes over noise, within limits beyond which nothing changes."""
    return math.log(min(max(tastes, 0.05), 0.98) / (1.0 - min(max(tastes, 0.05), 0.98)))


def wide(spread: float) -> float:
    return math.log(max(spread, SMALLEST_SPREAD))


def may_be_behind(signs: Signs | None) -> bool:
    """Most-popular by exact counts: where little of the gain is kept, or there is little to gain."""
    return signs is None or share_left(signs) < LITTLE_KEPT or signs.explained < LITTLE_EXPLAINED
