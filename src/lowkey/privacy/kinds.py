"""Gate room: every mechanism that a ledger can name. What is not in this table is unsupported, not free."""

from __future__ import annotations

import math
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

MOST = {"max_keys": 2**24}  # the price of a selection is computed for every number of keys up to it


def mechanism_from_json(fields: dict[str, Any]) -> Mechanism:
    """The inverse of ``to_json``. A kind that is not known has no known price, so nothing is said about it."""
    rest = dict(fields)
    kind = rest.pop("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LedgerError(
            what="a post of an unsupported kind",
            got=repr(kind)[:40],
            needed=", ".join(KINDS),
            try_="a newer version of lowkey",
        )
    for name, value in rest.items():
        if not (isinstance(value, str) or (type(value) in (int, float) and abs(value) <= MOST.get(name, math.inf))):
            raise LedgerError(
                what=f"a post of kind {kind!r}",
                got=f"something else as its {str(name)[:40]!r}",
                needed="a number that such a post can have",
                try_="the ledger as it was written",
            )
    return KINDS[kind](**rest)
