"""Public room: one noisy matrix as two with independent noise, so that fits can be compared without touching data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def split_noise(
    matrix: Matrix, std: float, gamma: float = 0.5, seed: int = 0
) -> tuple[tuple[Matrix, float], tuple[Matrix, float]]:
    """matrix = signal + symmetric noise of known ``std`` (sqrt(2) std on the diagonal): two matrices and their stds.

    M + gamma Z and M - Z/gamma, for fresh Z of the same law, have noises of covariance std^2 - std^2 = 0, so they are
    independent; together they hold no more than M does. Z is public randomness on a public matrix.
    """
    z = np.random.default_rng(seed).standard_normal(matrix.shape)
    z = (z + z.T) * (std / np.sqrt(2.0))
    first = (matrix + gamma * z, std * np.sqrt(1.0 + gamma**2))
    return first, (matrix - z / gamma, std * np.sqrt(1.0 + gamma**-2))
