"""Public room: after a fit of lists, the share of the gain without noise that it kept: from its posts, so free of charge.

    share = head_share^HEAD / (1 + exp(-LEVEL - HEARD log(heard/(1 - heard)) - SHOWN log shown - SPREAD log spread))

Weights foretell less the more of them noise has drowned (*heard*, by adding it once more, and *shown*, by the post of how
well they did), they are large where few people speak (*spread*), and what is outside the head gets none. The constants come
from ``python -m lowkey_lab.feasible --fit``, and ``python -m lowkey_lab.feasible`` holds them against crowds that they were
not made from (docs/lists.md). Paper: ours.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.methods.lists.again import agreement_without_noise, heard_again
from lowkey.methods.moments.ease import CleanGram

HEAD, LEVEL, HEARD, SHOWN, SPREAD = 0.55, -3.69, 0.64, 1.16, -1.14
SMALLEST_SPREAD, LEAST_SHOWN = 1e-4, 0.02
LITTLE_KEPT, LITTLE_EXPLAINED = 0.3, 0.015  # below, lists may be behind most-popular

Array = NDArray[np.float64]


class Signs(NamedTuple):
    """What the posts show of how much was heard."""

    heard: float  # of what weights without noise would foretell, if what was heard were all
    shown: float  # how well the weights foretold people left out, beside how well those without noise would
    spread: float  # root mean square of the weights
    explained: float  # of what people left out took beyond popularity, the part that the weights foretell
    head_share: float = 1.0  # of all that is taken

    @classmethod
    def of(
        cls,
        gram: Array,
        clean: CleanGram,
        shares: Array,
        noise_std: float,
        crowd: float,
        weights: Array,
        fit: tuple[float, float],
    ) -> Signs:
        """``fit`` is the first number of the post ``taste_fit``, and its noise; ``crowd`` as for the ridges."""
        users = max(crowd, 1.0)
        # What is above two standard deviations, and smoothly little below.
        surely = (fit[0] + math.hypot(fit[0], 4.0 * fit[1])) / 2.0
        shown = surely / max(agreement_without_noise(clean, shares, users), 1e-4 * users)
        spread = math.sqrt(float(np.mean(weights**2)))
        return cls(heard_again(gram, clean, shares, noise_std, users), shown, spread, fit[0] / users)


def share_left(signs: Signs | None) -> float:
    """0 to 1; 0 where only counts were posted."""
    if signs is None:
        return 0.0
    level = LEVEL + HEARD * logit(signs.heard) + SHOWN * shown(signs) + SPREAD * wide(signs.spread)
    return signs.head_share**HEAD / (1.0 + math.exp(-level))


def logit(heard: float) -> float:
    """The logarithm of the odds, within limits beyond which nothing changes."""
    heard = min(max(heard, 0.005), 0.995)
    return math.log(heard / (1.0 - heard))


def shown(signs: Signs) -> float:
    return math.log(max(signs.shown, LEAST_SHOWN))


def wide(spread: float) -> float:
    return math.log(max(spread, SMALLEST_SPREAD))


def may_be_behind(signs: Signs | None) -> bool:
    """Most-popular by exact counts: where little of the gain is kept, or little is foretold, and less than was to be."""
    if signs is None or share_left(signs) < LITTLE_KEPT:
        return True
    return signs.explained * min(signs.shown, 1.0) < LITTLE_EXPLAINED
