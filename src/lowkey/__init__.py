"""Public room: low-rank models under differential privacy, the public names."""

from lowkey import privacy
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.local import LocalEngine
from lowkey.methods.bias import Bias, DPBias, Popularity
from lowkey.privacy import Billboard, Guarantee, Ledger, Plan

__all__ = [
    "Bias",
    "Billboard",
    "DPBias",
    "Domain",
    "Guarantee",
    "Ledger",
    "LocalEngine",
    "Plan",
    "Popularity",
    "Ratings",
    "privacy",
]
