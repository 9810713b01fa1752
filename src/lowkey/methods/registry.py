"""Public room: the methods by the names that the command line knows, and the public rule that chooses one."""

from __future__ import annotations

import math
from importlib import import_module

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.base import Recommender
from lowkey.methods.crowd import CATALOGUE_FOR_MOMENTS, CROWD_FOR_FACTORS, CROWD_FOR_MOMENTS
from lowkey.privacy.accounting import gaussian_mu

PRIVATE = {
    "als": "lowkey.methods.als.method:DPALS",
    "bias": "lowkey.methods.bias.method:DPBias",
    "factors": "lowkey.methods.factors.method:DPFactors",
    "lmc": "lowkey.methods.lmc.method:DPLMC",
    "moments": "lowkey.methods.moments.method:DPMoments",
    "sketch": "lowkey.methods.moments.sketch:DPSketch",
    "frank-wolfe": "lowkey.methods.frank_wolfe.method:DPFrankWolfe",
    "svd": "lowkey.methods.svd.method:DPSVD",
}
BASELINES = {
    "ALS": "lowkey.methods.als.method:ALS",
    "Bias": "lowkey.methods.bias.method:Bias",
    "Popularity": "lowkey.methods.bias.method:Popularity",
    "FrankWolfe": "lowkey.methods.frank_wolfe.method:FrankWolfe",
}


def estimator(name: str) -> type[Recommender]:
    """The estimator class of a method's name."""
    known = {**PRIVATE, **BASELINES}
    if name not in known:
        refuse("method", got=repr(name), needed=" | ".join(PRIVATE), try_="leaving it out: a public rule chooses")
    module, _, class_name = known[name].partition(":")
    return getattr(import_module(module), class_name)


def default_method(domain: Domain, epsilon: float, delta: float) -> str:
    """The method for a domain and a budget, from public facts alone.

    Binary feedback: moments, but popularity where the crowd is small. Ratings: factors in rounds, but moments where the
    catalogue is small and the crowd is not, and means where there is hardly a crowd.
    """
    crowd = domain.expected_users * gaussian_mu(epsilon, delta) if domain.expected_users else math.inf
    enough = crowd >= CROWD_FOR_MOMENTS[domain.feedback]
    if domain.feedback == "binary":
        return "moments" if enough else "bias"
    if enough and domain.n_items <= CATALOGUE_FOR_MOMENTS:
        return "moments"
    return "factors" if crowd >= CROWD_FOR_FACTORS else "bias"
