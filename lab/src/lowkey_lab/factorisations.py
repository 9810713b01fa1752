"""Lab room: other ways in which the releases of a stream could share one price, to be compared with the optimum.

Papers: Henzinger and Upadhyay 2022 (the square root), Dwork et al. 2010 (the tree).
"""

from __future__ import annotations

import math

import numpy as np

from lowkey.privacy.factorisations import Array, lower


def split(target: Array) -> Array:
    """Every S_t is posted anew, and pays for itself: the price is shared by all releases that a user is in."""
    return target / math.sqrt(np.max(np.sum(target**2, axis=0)))


def square_root(target: Array) -> Array:
    """C C = A, in closed form for a Toeplitz A with first entry 1: the power series of its weights has a square root."""
    weights = target[:, 0]
    root = np.zeros_like(weights)
    root[0] = 1.0
    for n in range(1, len(root)):
        root[n] = (weights[n] - root[1:n] @ root[n - 1 : 0 : -1]) / 2.0
    root = lower(root)
    return root / math.sqrt(np.max(np.sum(root**2, axis=0)))


def tree_noise(horizon: int) -> Array:
    """Of each running sum the noise of a binary tree, over that of a single release; for comparison only.

    A user is in one node of every level, so that the price is shared by the levels; a running sum adds up as many nodes
    as its number has ones in binary.
    """
    levels = horizon.bit_length()
    return np.array([math.sqrt(levels * t.bit_count()) for t in range(1, horizon + 1)])
