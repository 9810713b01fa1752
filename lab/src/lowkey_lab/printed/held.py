"""Lab room: the guarantee that really holds for a printed algorithm, and why it differs from the printed one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu

Word = Literal["proven", "none proven", "refuted"]


@dataclass(frozen=True)
class Held:
    """``epsilon`` at the paper's delta; ``word``: *proven*, *none proven* (so far), or *refuted* by an attack.

    ``mu`` is the Gaussian price where the noise is Gaussian. ``reasons`` say, point by point, what the printed proof
    misses; empty if it misses nothing.
    """

    claimed: float
    epsilon: float
    word: Word = "proven"
    mu: float = math.nan
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        claim = f"claimed epsilon = {self.claimed:.4g}; "
        return claim + (f"epsilon = {self.epsilon:.4g} holds" if self.word == "proven" else self.word)


def gaussian_held(mu: float, delta: float, claimed: float, reasons: tuple[str, ...] = (), word: Word = "proven") -> Held:
    """Of Gaussian releases with mu^2 = sum (sensitivity/noise)^2; no finite epsilon unless it is proven."""
    epsilon = gaussian_epsilon(mu, delta) if word == "proven" else math.inf
    return Held(claimed, epsilon, word, mu, reasons)


def noise_for(mu_at_one: float, epsilon: float, delta: float) -> float:
    """The factor on all noise that makes a run cost exactly ``epsilon``, if it costs ``mu_at_one`` at factor 1."""
    return mu_at_one / gaussian_mu(epsilon, delta)
