"""Local room: randomized response on a user's own signs, before they leave the user's device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import refuse
from lowkey.privacy.noise import NoiseSource


def randomize_signs(signs: Any, epsilon: float, *, noise: NoiseSource | None = None) -> NDArray[np.int8]:
    """Flip each sign (+1 or -1) with probability 1/(1 + e^epsilon): each is epsilon-private, whoever gets them.

    m signs of one user together cost m epsilon. Which cells they belong to is not hidden. Train on what comes out with
    ``OneBit(flip_probability=1/(1 + e^epsilon))``.

    Parameters
    ----------
    signs : array of +1 and -1
        A user's own.
    epsilon : float
        Of each sign.
    noise : NoiseSource, optional
        For tests.

    Examples
    --------
    >>> sent = lk.randomize_signs([1, -1, 1], epsilon=1.0)  # doctest: +SKIP
    """
    if not 0.0 < epsilon < math.inf:
        refuse("epsilon", got=repr(epsilon), needed="a finite number above 0", try_="epsilon=1.0")
    array = np.asarray(signs)
    if not np.isin(array, (-1, 1)).all():
        refuse(
            "signs", got="other values", needed="+1 for a like and -1 for a dislike", try_="np.where(stars > 3.5, 1, -1)"
        )
    source = noise if noise is not None else NoiseSource()
    flips = source.flips(math.exp(-epsilon) / (1.0 + math.exp(-epsilon)), array.size).reshape(array.shape)
    return np.where(flips, -array, array).astype(np.int8)
