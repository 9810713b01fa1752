"""Gate room: signs that are flipped by chance, in place of sums that noise is added to. Noise and price in one object."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lowkey.privacy.mechanisms import Mechanism, check_positive
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.sums import Adjacency, Statistic


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """Each sign is flipped with probability 1 / (1 + e^per_sign_epsilon). One person changes ``signs`` signs at most."""

    per_sign_epsilon: float
    signs: int = 1
    kind: ClassVar[str] = "randomized-response"

    def __post_init__(self) -> None:
        check_positive("per_sign_epsilon", self.per_sign_epsilon)
        check_positive("signs", self.signs)

    @property
    def mu(self) -> float:
        return 0.0

    @property
    def own_delta(self) -> float:
        return 0.0

    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> None:
        return None

    @property
    def width(self) -> str:
        return "flips"

    @property
    def in_words(self) -> str:
        return f"answers flipped, epsilon {self.per_sign_epsilon:.6g} each"

    @property
    def epsilon(self) -> float:
        return self.signs * self.per_sign_epsilon

    @property
    def flip_probability(self) -> float:
        return 1.0 / (1.0 + math.exp(self.per_sign_epsilon))

    def apply(
        self, units: NDArray[np.int64], statistic: Statistic, adjacency: Adjacency, noise: NoiseSource
    ) -> NDArray[np.float64]:
        if not np.isin(units, (-1, 1)).all():
            raise TypeError(f"{statistic.name}: randomized response takes signs only")
        flips = noise.flips(self.flip_probability, units.size).reshape(units.shape)
        return np.where(flips, -units, units).astype(np.float64)
