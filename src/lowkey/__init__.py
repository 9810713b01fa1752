"""Public room: low-rank models under differential privacy, the public names.

A name is loaded when it is first used: `lowkey --help` need not wait for a compiler and two accountants.
"""
# ruff: noqa: F401 (the imports for type checkers are the public names)

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lowkey.methods import registry

if TYPE_CHECKING:  # for type checkers and editors; a test holds it against the table below
    from lowkey import data, errors, evaluation, privacy, testing
    from lowkey.audit.measuring import audit
    from lowkey.data.calendar import Calendar
    from lowkey.data.domain import Domain
    from lowkey.data.public import Public
    from lowkey.data.public_tables import read_catalogue
    from lowkey.data.ratings import Ratings
    from lowkey.data.readers import from_frame, read_ratings, read_uncatalogued
    from lowkey.data.spark_rows import from_spark, uncatalogued_from_spark
    from lowkey.data.spark_timed import timed_from_spark
    from lowkey.data.timed import TimedRatings
    from lowkey.engines.local import LocalEngine
    from lowkey.engines.spark import SparkEngine
    from lowkey.methods.als.baseline import ALS
    from lowkey.methods.als.method import DPALS
    from lowkey.methods.bias.baseline import Bias
    from lowkey.methods.bias.method import DPBias, Popularity
    from lowkey.methods.catalogue import PrivateCatalogue
    from lowkey.methods.factors.method import DPFactors
    from lowkey.methods.frank_wolfe.method import DPFrankWolfe, FrankWolfe
    from lowkey.methods.lists.method import DPLists
    from lowkey.methods.lmc.method import DPLMC
    from lowkey.methods.moments.method import DPMoments
    from lowkey.methods.moments.posted import Moments
    from lowkey.methods.moments.sketch import DPSketch
    from lowkey.methods.one_bit.method import DPOneBit, OneBit
    from lowkey.methods.recommender import DPRecommender
    from lowkey.methods.stream import Stream
    from lowkey.methods.svd.method import DPSVD
    from lowkey.methods.trace.baseline import TraceRegression
    from lowkey.methods.trace.method import DPTraceRegression
    from lowkey.model import Model
    from lowkey.privacy.billboard import Billboard
    from lowkey.privacy.guarantee import Guarantee, Unit
    from lowkey.privacy.ledger import Ledger
    from lowkey.privacy.plan import Plan
    from lowkey.release import load, verify
    from lowkey.serving.randomize import randomize_signs

HOMES = {
    "lowkey.audit.measuring": ("audit",),  # also by calling the package, which is loaded with any part of it
    "lowkey.data.calendar": ("Calendar",),
    "lowkey.data.timed": ("TimedRatings",),
    "lowkey.methods.stream": ("Stream",),
    "lowkey.data.domain": ("Domain",),
    "lowkey.data.public": ("Public",),
    "lowkey.data.ratings": ("Ratings",),
    "lowkey.data.public_tables": ("read_catalogue",),
    "lowkey.data.readers": ("from_frame", "read_ratings", "read_uncatalogued"),
    "lowkey.data.spark_rows": ("from_spark", "uncatalogued_from_spark"),
    "lowkey.data.spark_timed": ("timed_from_spark",),
    "lowkey.engines.local": ("LocalEngine",),
    "lowkey.engines.spark": ("SparkEngine",),
    "lowkey.methods.catalogue": ("PrivateCatalogue",),
    "lowkey.methods.recommender": ("DPRecommender",),
    "lowkey.model": ("Model",),
    "lowkey.methods.moments.posted": ("Moments",),
    "lowkey.privacy.billboard": ("Billboard",),
    "lowkey.privacy.guarantee": ("Guarantee", "Unit"),
    "lowkey.privacy.ledger": ("Ledger",),
    "lowkey.privacy.plan": ("Plan",),
    "lowkey.release": ("load", "verify"),
    "lowkey.serving.randomize": ("randomize_signs",),
}
MODULES = ("data", "errors", "evaluation", "privacy", "testing")
_HOME = {**{name: module for module, names in HOMES.items() for name in names}, **registry.homes()}

__version__ = version("lowkey")
__all__ = sorted([*_HOME, *MODULES])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in MODULES:
        value = import_module(f"lowkey.{name}")
    else:
        raise AttributeError(f"lowkey has no {name!r}; it has {', '.join(__all__)}")
    globals()[name] = value  # the next look-up is an ordinary one
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
