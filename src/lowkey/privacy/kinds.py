"""Gate room: every mechanism that a ledger can name. What is not in this table is unsupported, not free."""

from __future__ import annotations

from typing import Any

from lowkey.errors import LedgerError
from lowkey.privacy.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    NoNoise,
    SymmetricGaussian,
    ThresholdedGaussian,
)
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.privacy.repeat_and_select import RepeatAndSelect

KINDS: dict[str, type[Mechanism]] = {
    m.kind: m
    for m in (Gaussian, SymmetricGaussian, ThresholdedGaussian, Laplace, RandomizedResponse, RepeatAndSelect, NoNoise)
}


def mechanism_from_json(fields: dict[str, Any]) -> Mechanism:
    """The inverse of ``to_json``. A kind that is not known has no known price, so nothing is said about it."""
    rest = dict(fields)
    kind = rest.pop("kind")
    if kind not in KINDS:
        raise LedgerError(
            what="a post of an unsupported kind", got=repr(kind), needed=", ".join(KINDS), try_="a newer version of lowkey"
        )
    return KINDS[kind](**rest)
