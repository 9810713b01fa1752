"""Public room: the methods by the names that the command line knows, and the public rule that chooses one."""

from __future__ import annotations

from importlib import import_module

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.base import Recommender

PRIVATE = {
    "bias": "lowkey.methods.bias:DPBias",
    "frank-wolfe": "lowkey.methods.frank_wolfe:DPFrankWolfe",
    "svd": "lowkey.methods.svd:DPSVD",
}
BASELINES = {
    "Bias": "lowkey.methods.bias:Bias",
    "Popularity": "lowkey.methods.bias:Popularity",
    "FrankWolfe": "lowkey.methods.frank_wolfe:FrankWolfe",
}


def estimator(name: str) -> type[Recommender]:
    """The estimator class of a method's name."""
    known = {**PRIVATE, **BASELINES}
    if name not in known:
        refuse("method", got=repr(name), needed=" | ".join(PRIVATE), try_="leaving it out: a public rule chooses")
    module, _, class_name = known[name].partition(":")
    return getattr(import_module(module), class_name)


def default_method(domain: Domain) -> str:
    """The method for a domain, from public facts alone."""
    return "bias"
