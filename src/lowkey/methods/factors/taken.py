"""Public room: what ``DPFactors`` expects of a user from what the user took, before any rating is looked at.

u = B z + rest: u are the user's factors, z is what was taken (``kernels.taken``). Posted: Y, the sum of u z^T, and Z, that
of z z^T, both with noise s. In the eigenbasis of Z, with eigenvalues l: y_kl = l b_kl + N(0, s^2 + c l), c being what users
spread by themselves, and b_kl ~ N(0, t^2), t^2 of the largest likelihood. The posterior mean of b_kl is
l y/(l^2 + (s^2 + c l)/t^2): where takes say nothing of taste, or noise drowns it, it is 0: users are expected alike.
Paper: Koren 2008 (SVD++). Deviates: the factors by which an item is taken are linear in those by which it is liked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.kernels.taken import TakenMoments
from lowkey.methods.curator import Curator

TAKEN_SHARE = 0.01  # of mu^2
TYPICAL = 0.1  # of the items' spread: how far apart are the means of what people took
ROOM = 1.5  # of a typical squared norm: what the bound leaves to users above it
SPREADS = np.geomspace(1e-4, 1e2, 49)  # t^2, in units of c
LEAST = 1e-12  # of a factor: below, all items are alike

Array = NDArray[np.float64]


def taken_map(
    arrays: Mapping[str, Array], fitted: Mapping[str, Any], factors: tuple[int, float], shares: Array, curator: Curator
) -> dict[str, Array]:
    """For the release that has ``arrays`` and ``fitted``: ``taken`` and ``taken_middle``.

    ``factors`` are how many of the columns are factors, and a user's mean square sum of them; leanings stand behind.
    """
    (rank, square), columns = factors, arrays["item_factors"]
    middle: Array = np.asarray(shares @ columns, np.float64)
    around = columns[:, :rank] - middle[:rank]
    size = max(math.sqrt(TYPICAL * float(shares @ np.sum(around**2, axis=1))), LEAST)
    prior, bound = fitted["center"] + arrays["item_bias"], math.sqrt(ROOM * (square + 1.0))
    sweep = TakenMoments(prior, columns, around / size, bound, fitted["reg"], fitted["offset_reg"])
    posts = curator.ask(sweep)
    taken = np.zeros((columns.shape[1], columns.shape[1]))
    taken[:rank, :rank] = slopes(posts["taken"], posts.stds["taken"], square / rank) / size
    return {"taken": taken, "taken_middle": middle}


def slopes(posted: Array, std: float, own: float) -> Array:
    """B, (rank, rank), from ``posted`` = Y above Z; ``own`` is the users' mean square in a direction."""
    rank, own = posted.shape[1], max(own, 1e-12)
    both, told = posted[:rank], posted[rank:]
    values, basis = np.linalg.eigh((told + told.T) / 2.0)
    values = np.maximum(values, 0.0)
    seen, noise = both @ basis, std**2 + own * values + 1e-30
    variances = own * SPREADS[:, None] * values**2 + noise
    likelihoods = -0.5 * np.sum(rank * np.log(variances) + np.sum(seen**2, axis=0) / variances, axis=1)
    spread = own * SPREADS[int(np.argmax(likelihoods))]
    return np.asarray((seen * (spread * values / (spread * values**2 + noise))) @ basis.T, np.float64)
