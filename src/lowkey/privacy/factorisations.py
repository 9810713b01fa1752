"""Gate room: how T releases share one price: a lower-triangular C that says what each post holds, for sums that are wanted.

| letter | meaning | our word |
|---|---|---|
| A (T, T) | what is wanted: S_t = sum over s <= t of A_ts x_s | ``wanted`` |
| C (T, T) | what is posted: E_t = sum over s <= t of C_ts x_s + noise; columns of norm at most 1 | ``encoder`` |
| B = A C^-1 | public decoding: S_t = sum over s <= t of B_ts E_s | ``decoder`` |

The noise of S_t has the standard deviation |B_t| times that of one post. ``optimal`` makes the mean of |B_t|^2 as small
as it can be: over X = C^T C with diagonal 1 the objective tr(A^T A X^-1) is convex, and with D = diag(v) and
M = (D^1/2 A^T A D^1/2)^1/2 its stationary point is X = D^-1/2 M D^-1/2 where v = diag(M), found by iterating that.
Paper: Denisov et al. 2022 (the fixed point).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import refuse

Array = NDArray[np.float64]
LONGEST = 400  # releases: the optimum's matrices are dense
# Of the diagonal of X to 1. Columns are scaled to norm 1 afterwards, so that this is a matter of accuracy alone, and there
# of second order: the objective is flat at its minimum.
CLOSE_ENOUGH = 1e-5
MOST_ROUNDS = 1000


def wanted(horizon: int, half_life: float | None = None, window: int | None = None) -> Array:
    """A: running sums; with weights 2^(-age/half_life); over the last ``window`` releases."""
    if not 1 <= horizon <= LONGEST:
        refuse("releases", got=repr(horizon), needed=f"a whole number from 1 to {LONGEST}", try_="releases=52")
    if half_life is not None and not half_life > 0.0:
        refuse("half_life", got=repr(half_life), needed="releases, above 0", try_="half_life=26")
    if window is not None and window < 1:
        refuse("window", got=repr(window), needed="a whole number of releases", try_="window=26")
    age = np.arange(horizon, dtype=np.float64)
    weights = np.ones(horizon) if half_life is None else np.exp2(-age / half_life)
    if window is not None:
        weights[window:] = 0.0
    return lower(weights)


@lru_cache(maxsize=32)
def optimal(horizon: int, half_life: float | None = None, window: int | None = None) -> Array:
    """The C of least mean squared noise over all releases; computed once."""
    target = wanted(horizon, half_life, window)
    gram = target.T @ target
    v, half = np.sqrt(np.diag(gram)), gram
    for _ in range(MOST_ROUNDS):
        root = np.sqrt(v)
        values, vectors = np.linalg.eigh(root[:, None] * gram * root)
        half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        new = np.diag(half).copy()
        done = np.max(np.abs(new / v - 1.0)) < CLOSE_ENOUGH
        v = new
        if done:
            break
    root = np.sqrt(v)
    # X = C^T C with C lower triangular is a Cholesky factor from the last column on.
    factor = np.linalg.cholesky((half / root / root[:, None])[::-1, ::-1])
    encoder = unit_columns(np.array(factor.T[::-1, ::-1], np.float64))
    encoder.flags.writeable = False
    return encoder


def decoder(target: Array, encoder: Array) -> Array:
    """B with B C = A."""
    return np.array(np.tril(np.linalg.solve(encoder.T, target.T).T), np.float64)


def noise(decoding: Array) -> Array:
    """Of each S_t the noise's standard deviation, over that of one post."""
    return np.sqrt(np.sum(decoding**2, axis=1))


def loudest(encoder: Array, again: int) -> float:
    """The norm of what one user adds to all posts, who speaks every ``again`` releases (0: once); columns have norm 1."""
    if not again:
        return 1.0
    return max(float(np.linalg.norm(np.abs(encoder[:, s::again]).sum(axis=1))) for s in range(min(again, len(encoder))))


def unit_columns(encoder: Array) -> Array:
    return encoder / np.sqrt(np.sum(encoder**2, axis=0))


def lower(first_column: Array) -> Array:
    n = np.arange(len(first_column))
    return np.tril(first_column[np.abs(n[:, None] - n)])
