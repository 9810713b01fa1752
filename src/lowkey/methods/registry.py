"""Public room: the methods by the names that the command line knows, and the public rule that chooses one."""

from __future__ import annotations

import math
from importlib import import_module

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.base import Recommender
from lowkey.privacy.accounting import gaussian_mu

PRIVATE = {
    "als": "lowkey.methods.als:DPALS",
    "bias": "lowkey.methods.bias:DPBias",
    "moments": "lowkey.methods.moments:DPMoments",
    "sketch": "lowkey.methods.sketched_moments:DPSketch",
    "frank-wolfe": "lowkey.methods.frank_wolfe:DPFrankWolfe",
    "svd": "lowkey.methods.svd:DPSVD",
}
BASELINES = {
    "ALS": "lowkey.methods.als:ALS",
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


# Second moments have far more numbers than means, so they need a crowd. It is measured in users times mu (the signal of one
# user over the noise). Where the two methods break even was measured on public data: MovieLens 100K and 1M, the taste
# generator; ratings need more than binary feedback.
CROWD_FOR_MOMENTS = {"ratings": 4000.0, "binary": 800.0}


def default_method(domain: Domain, epsilon: float, delta: float) -> str:
    """The method for a domain and a budget, from public facts alone: moments, but means where the crowd is small."""
    crowd = domain.expected_users * gaussian_mu(epsilon, delta) if domain.expected_users else math.inf
    return "moments" if crowd >= CROWD_FOR_MOMENTS[domain.feedback] else "bias"
