"""Public room: the methods by name: one line each. The names ``lk.…`` and the command line follow from this table.

Another package registers a method by an entry point of the group ``lowkey.methods``, whose name is the one that the
command line takes; ``lowkey.testing`` checks it as ours are checked.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from lowkey.errors import refuse

if TYPE_CHECKING:  # a table of names loads nothing
    from lowkey.methods.base import Recommender

GROUP = "lowkey.methods"
PRIVATE = {
    "als": "lowkey.methods.als.method:DPALS",
    "bias": "lowkey.methods.bias.method:DPBias",
    "factors": "lowkey.methods.factors.method:DPFactors",
    "lists": "lowkey.methods.lists.method:DPLists",
    "lmc": "lowkey.methods.lmc.method:DPLMC",
    "moments": "lowkey.methods.moments.method:DPMoments",
    "sketch": "lowkey.methods.moments.sketch:DPSketch",
    "frank-wolfe": "lowkey.methods.frank_wolfe.method:DPFrankWolfe",
    "svd": "lowkey.methods.svd.method:DPSVD",
}
BASELINES = {
    "ALS": "lowkey.methods.als.baseline:ALS",
    "Bias": "lowkey.methods.bias.baseline:Bias",
    "Popularity": "lowkey.methods.bias.method:Popularity",
    "FrankWolfe": "lowkey.methods.frank_wolfe.method:FrankWolfe",
}
TASKS = {  # with units of privacy of their own: not offered where users are protected
    "one-bit": "lowkey.methods.one_bit.method:DPOneBit",
    "OneBit": "lowkey.methods.one_bit.method:OneBit",
    "trace": "lowkey.methods.trace.method:DPTraceRegression",
    "TraceRegression": "lowkey.methods.trace.baseline:TraceRegression",
}


def homes() -> dict[str, str]:
    """The module of every estimator class."""
    places = [*PRIVATE.values(), *BASELINES.values(), *TASKS.values()]
    return {name: module for module, _, name in (place.partition(":") for place in places)}


def private_methods() -> dict[str, str]:
    """The private recommenders that the command line offers, those of other packages included."""
    return {**{entry.name: entry.value for entry in entry_points(group=GROUP)}, **PRIVATE}


def estimator(name: str) -> type[Recommender]:
    """The estimator class of a method's name."""
    known = {**private_methods(), **BASELINES}
    if name not in known:
        refuse("method", got=repr(name), needed=" | ".join(private_methods()), try_="leaving it out: a public rule chooses")
    module, _, class_name = known[name].partition(":")
    return getattr(import_module(module), class_name)
