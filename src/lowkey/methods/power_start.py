"""Public room: noisy power iteration for a start: a random basis, seen through the users' rows a few times over.

Paper: DPALS (Chien et al. 2021), appendix B.4, Algorithm 2. Deviates: one user's whole contribution x (x^T Q), not a column
of it, is bounded, in Frobenius norm and without the number of ratings entering the bound; the diagonal x_j^2, an item with
itself, is left out; a fixed number of steps, so that no failure is reported and none is retried. For catalogues whose
square does not fit: a step posts n_items * rank numbers, where ``spectral_start`` posts n_items^2/2 once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.moments import RatingMoments
from lowkey.kernels.sketch import GramView
from lowkey.methods.moments.nystrom import random_basis
from lowkey.methods.posts import post_all
from lowkey.methods.spectral_start import observed_shares
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Request

STEPS = 2
SEEN = 0.3  # of a row's square: what a basis that fits sees, without the diagonal


def power_requests(n_items: int, rank: int, share: float) -> list[Request]:
    """Lines of the plan, for ``share`` of mu^2 in all if the others' shares add up to 1."""
    if not 0.0 < share < 1.0:
        refuse("start_share", got=repr(share), needed="a share between 0 and 1", try_="start_share=0.2")
    return [Request(f"power_step_{s}", n_items * rank, share / (1.0 - share) / STEPS) for s in range(STEPS)]


def power_start(
    row_bound: float,
    offset_reg: float | None,
    rank: int,
    counts: NDArray[np.float64] | None,
    seed: int,
    ratings: Ratings,
    engine: Engine,
    billboard: Billboard,
    public: dict[str, Any],
) -> NDArray[np.float64]:
    """Item factors with rows of length 1 in the root mean square, from Q <- orthonormal(sum of x x^T Q + noise).

    ``row_bound`` bounds the root mean square x of a user's residuals. Eigenvalues of the last view below the edge of its
    noise count as that edge: their columns are as good as random.
    """
    n_items = ratings.domain.n_items
    everything = np.arange(n_items, dtype=np.int32)
    known = {**public, "head": everything, "slots": everything, "basis": random_basis(n_items, rank, seed)}
    rows = RatingMoments(row_bound, math.inf if offset_reg is None else offset_reg)
    values, turn = np.ones(rank), np.eye(rank)
    for step in range(STEPS):
        # A random basis sees about sqrt(rank/n_items) of a row.
        seen = SEEN if step else min(1.0, 1.5 * math.sqrt(rank / n_items))
        name = f"power_step_{step}"
        posted, stds = post_all(GramView(rows, seen * row_bound**2, name), ratings, engine, billboard, known)
        small = known["basis"].T @ posted[name]
        values, turn = np.linalg.eigh((small + small.T) / 2.0)
        values, turn = np.maximum(values[::-1], 2.0 * stds[name] * math.sqrt(rank)), turn[:, ::-1]
        known["basis"], triangle = np.linalg.qr(posted[name])
        turn = np.linalg.qr(triangle @ turn)[0]
    factors = known["basis"] @ turn * np.sqrt(np.maximum(values, 1e-300))
    factors /= observed_shares(np.ones(n_items), counts)[:, None]
    return factors / max(float(np.sqrt((factors**2).sum(axis=1).mean())), 1e-300)
