"""Gate room: the price of a fit that was chosen among several by private scores: repeat and select.

A random number K of candidates is drawn; each is fitted and scored, mu-GDP together, and only the one with the best score
comes out. For K of the logarithmic law with mean m the whole costs little more than one candidate, by Rényi accounting.
The price is an (epsilon, delta) and not a curve, so a ledger books delta as the mechanism's own and epsilon as pure:
whatever is (epsilon, delta)-DP is no worse than a pure epsilon that fails with probability delta.

Paper: Papernot and Steinke 2021 (arXiv:2110.03620), Theorem 2, as dp_accounting's RepeatAndSelectDpEvent prices it.
Deviates: nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import refuse
from lowkey.privacy.mechanisms import Mechanism
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.sums import Adjacency, Statistic

# What the noise sampler's finite resolution costs is below 1e-6 per candidate (noise.log_ratio), in the Rényi divergence
# of every order above 1.1 too, and enters the formula at most three times; this share of epsilon is set aside for it.
ASIDE = 1e-3


@lru_cache(maxsize=1 << 10)
def selection_epsilon(mu: float, delta: float, mean: float) -> float:
    """Epsilon, at ``delta``, of the best of a random number of mu-GDP candidates (logarithmic law with this mean)."""
    # Here, as every ledger knows this mechanism and hardly any has it: reading one need not wait for dp_accounting.
    from dp_accounting import dp_event  # pyright: ignore[reportMissingTypeStubs]
    from dp_accounting.rdp import RdpAccountant  # pyright: ignore[reportMissingTypeStubs]

    accountant = RdpAccountant(list(1.0 + np.geomspace(0.1, 1e5, 300)))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1.0 / mu), mean, 0.0))
    return float(accountant.get_epsilon(delta))


@dataclass(frozen=True)
class RepeatAndSelect(Mechanism):
    """The best of a random number of candidates. Fits and scores are noised by themselves: this books their choice."""

    candidate_mu: float
    mean_candidates: float
    delta: float
    kind: ClassVar[str] = "repeat-and-select"

    def __post_init__(self) -> None:
        if not (self.candidate_mu > 0.0 and self.mean_candidates > 1.0 and 0.0 < self.delta < 1.0):
            refuse(
                "a private selection",
                got=f"mu = {self.candidate_mu:g}, {self.mean_candidates:g} candidates, delta = {self.delta:g}",
                needed="a mu above 0, more than 1 candidate on average, a delta between 0 and 1",
                try_="select_privately",
            )

    @property
    def mu(self) -> float:
        return 0.0

    @property
    def epsilon(self) -> float:
        return selection_epsilon(self.candidate_mu, self.delta, self.mean_candidates) / (1.0 - ASIDE)

    @property
    def own_delta(self) -> float:
        return self.delta

    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> None:
        return None

    @property
    def width(self) -> str:
        return "selected"

    @property
    def in_words(self) -> str:
        return f"the best of {self.mean_candidates:g} fits on average, by noisy scores, at mu {self.candidate_mu:.6g} each"

    def apply(self, units: NDArray[np.int64], statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> NoReturn:
        raise TypeError("repeat-and-select books a choice among fits; there is no sum to add noise to")
