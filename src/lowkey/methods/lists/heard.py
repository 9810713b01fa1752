"""Public room: what the posts of lists tell so far, and what of the next one pairs get and what counts.

Paper: ours (docs/lists.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.lists import MOST_EXPECTED, TasteMoments
from lowkey.methods.counts import Counts, Posted

COUNTS_SHARE, FIT_SHARE = 0.1, 0.02  # of mu^2
HALVES = 2
POPULAR, UNCLEAR = 20, 0.1  # most-popular is a list so long; it is known well if noise is this part of its counts
FORETOLD = 0.03  # of what people take beyond popularity: weights that foretell so much are worth more than counts
FEWEST = 200.0  # users times mu, below which popularity alone is better than any personal weights

Array = NDArray[np.float64]
Head = NDArray[np.int64]


@dataclass(frozen=True)
class Heard:
    """What the first post tells: counts, of how many users, and how loud a user is beside the noise (mu)."""

    counts: Posted
    users: float
    signal: float
    enough: float  # for personal weights: how much of them is used at most

    def eagerness(self, counts: Counts, head: NDArray[np.int64]) -> Array:
        """Shares of the head such that what is expected of a typical user (`expected_takes`) is what was counted.

        Counts weigh 1/sqrt(m): their sum is the root of a typical m for each user, and so much is m times the head's part.
        """
        taken = counts.means[head]
        typical = max(float(taken.sum()) * float(counts.means.sum()) / self.users**2, 1.0)
        eager = -np.log1p(-np.minimum(typical * taken / taken.sum(), MOST_EXPECTED))
        return eager / eager.sum()


class Moments(NamedTuple):
    """Noisy sums: of z z^T over the head, both triangles; and of everything that was taken."""

    gram: Posted
    counts: Posted

    @property
    def pairs(self) -> tuple[Array, float]:
        """The mean of the two triangles, and its noise."""
        return (self.gram.counts + self.gram.counts.T) / 2.0, self.gram.std / math.sqrt(2.0)


class Tastes(NamedTuple):
    """What is known of the head's pairs; and of all counts."""

    head: NDArray[np.int64]
    sweep: TasteMoments
    gram: Array
    noise_std: float
    counts: Posted
    crowd: float  # the sum of the squared weights of those who are in the pairs


def gram_weight(taken: float, heard: Heard) -> float:
    """What the second moments get of the joint post: all, unless there is little to learn from them.

    ``taken``/users is about the root of a typical number of head items k of a user. Rows of one item or less tell
    nothing of pairs, and a crowd of mu * users below ``FEWEST`` tells nothing through the noise: then counts get it.
    """
    typical = (taken / heard.users) ** 2 * min(1.0, heard.users * heard.signal / FEWEST) ** 8
    return math.sqrt(typical**2 / (1.0 + typical**2)) if typical < math.inf else 1.0


def more_weight(most: float, foretold: float, counts: Array, std: float) -> float:
    """What the next half of the second moments gets of its joint post; ``most`` is what the first half got.

    Where tastes were heard, ``foretold``, all. Where they were not, counts come first until it is known well what is
    popular, as lists are little else then: their noise is to be ``UNCLEAR`` of the counts of what is most popular.
    """
    unclear = std / max(float(np.sort(counts)[-POPULAR:].mean()), 1e-300)
    half = (1.0 - COUNTS_SHARE - FIT_SHARE) / HALVES
    needed = COUNTS_SHARE * ((unclear / UNCLEAR) ** 2 - 1.0) / half
    return most * math.sqrt(min(max(foretold / FORETOLD, 1.0 - needed, 0.0), 1.0))
