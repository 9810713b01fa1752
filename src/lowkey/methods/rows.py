"""Public room: the public bound on the norm of a user's row, for the methods that post Gram matrices of rows."""

from __future__ import annotations

import math

from lowkey.data.domain import Domain
from lowkey.errors import refuse

TYPICAL_RATINGS = 80  # per user, as in the experiments of Jain et al. 2018


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
