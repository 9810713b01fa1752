"""Public room: what methods that bound a user's whole row share: the user's own offset, and a public bound on the norm."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.base import Settings

TYPICAL_RATINGS = 80  # per user, as in the experiments of Jain et al. 2018


@dataclass(frozen=True, kw_only=True)
class RowSettings(Settings):
    """Of a method whose users take an offset of their own from their rows, or none."""

    offset_reg: float | None

    @property
    def damping(self) -> float:
        """Of a user's own offset; infinite: none."""
        return math.inf if self.offset_reg is None else self.offset_reg


def rating_spread(domain: Domain) -> float:
    """A quarter of the rating range: stars are rarely spread wider around what is expected. Public."""
    assert domain.rating_range is not None
    return (domain.rating_range[1] - domain.rating_range[0]) / 4.0


def default_row_norm(domain: Domain) -> float:
    """What a user with 80 ratings (or with the whole catalogue, if it is smaller) of that spread has. Public."""
    return rating_spread(domain) * math.sqrt(min(domain.n_items, TYPICAL_RATINGS))


def largest_row_norm(domain: Domain) -> float:
    """What no row of ratings around the middle of the range can exceed: for the non-private baselines."""
    return 2.0 * rating_spread(domain) * math.sqrt(domain.n_items)


def need_ratings(method: str, domain: Domain) -> tuple[float, float]:
    """The rating range, or a refusal where there is none."""
    if domain.rating_range is None:
        refuse(method, got="binary feedback", needed="ratings within a range", try_="a method for binary feedback")
    return domain.rating_range
