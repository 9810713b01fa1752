"""Public room: the numbers of a ``DPFrankWolfe`` fit, where they were not given: public bounds from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.rows import RowSettings, rating_spread

GRAM_ITEMS = 2048  # above, the n_items^2 numbers of a Gram matrix are left alone
TYPICAL_RANK = 4.0  # equal directions make up a matrix of ratings: for the default nuclear norm


@dataclass(frozen=True, kw_only=True)
class FrankWolfeSettings(RowSettings):
    n_iter: int
    form: str  # "gram" or "power"
    power_steps: int
    step: str
    row_norm: float
    residual_norm: float
    nuclear_norm: float | None  # None: not needed by a refit
    reg: float | None  # None: each direction's follows from what its round posted

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = {"row_norm": self.row_norm}
        return told if self.step == "corrective" else {**told, "nuclear_norm": self.nuclear_norm}

    @property
    def refits_offset(self) -> bool:
        """A refit takes the user's offset along, as a direction that is public from the start."""
        return self.step == "corrective" and self.offset_reg is not None


def default_nuclear_norm(domain: Domain) -> float:
    """What a matrix of the usual spread has, ``expected_users`` x n_items, when ``TYPICAL_RANK`` directions make it up."""
    if domain.expected_users is None:
        refuse(
            "nuclear_norm",
            got="none, and a domain that does not say how many users to expect",
            needed="one of the two, as a public number",
            try_="Domain(..., expected_users=...)",
        )
    return rating_spread(domain) * math.sqrt(TYPICAL_RANK * domain.expected_users * domain.n_items)
