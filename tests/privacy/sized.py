"""The table of estimators at size: rows over 256 items, a catalogue over 1,000, rank 16, two threads, several blocks."""

from __future__ import annotations

import lowkey as lk
from lowkey.methods.frank_wolfe.method import DPFrankWolfe
from lowkey.methods.moments.method import DPMoments
from lowkey.methods.svd.method import DPSVD
from lowkey.testing.attackers import (
    BLOCK,
    COUNTS,
    N_ITEMS,
    N_USERS,
    SIZED,
    THREADS,
    SizedCase,
    long_rows,
    sized_keys,
    sized_rows,
    some_user,
)

__all__ = [
    "BLOCK",
    "COUNTS",
    "N_ITEMS",
    "N_USERS",
    "SIZED",
    "SIZED_CASES",
    "THREADS",
    "SizedCase",
    "long_rows",
    "sized_keys",
    "sized_rows",
    "some_user",
]

SIZED_CASES = [
    SizedCase(lk.DPBias, "ratings", {"n_iter": 3}),
    SizedCase(lk.DPBias, "binary"),
    SizedCase(DPFrankWolfe, "ratings", {"n_iter": 2, "row_norm": 3.0, "form": "gram"}, note="gram"),
    SizedCase(DPFrankWolfe, "ratings", {"n_iter": 3, "row_norm": 3.0, "form": "power"}, note="power"),
    SizedCase(DPSVD, "ratings", {"rank": 16, "row_norm": 3.0}),
    SizedCase(DPSVD, "ratings", {"rank": 16, "cleansing": True}, note="cleansing"),
    SizedCase(DPMoments, "ratings", {"head": 600, "rank": 16}),
    SizedCase(DPMoments, "binary", {"head": 600}),
    SizedCase(lk.DPLists, "binary", {"head": 300}),
    SizedCase(lk.DPLists, "ratings", {"head": 300, "liked": 2.5}, note="liked"),
    SizedCase(lk.DPLists, "binary", note="too few for tastes"),
    SizedCase(lk.DPSketch, "ratings", {"width": 16}),
    SizedCase(lk.DPALS, "ratings", {"rank": 16, "n_iter": 3}, note="weights"),
    SizedCase(lk.DPALS, "ratings", {"rank": 16, "n_iter": 2, "max_ratings": 200}, note="sampled"),
    SizedCase(lk.DPALS, "binary", {"rank": 16, "n_iter": 2, "head": 1.0}),
    SizedCase(lk.DPFactors, "ratings", {"rank": 16, "n_iter": 3}),
    SizedCase(lk.DPFactors, "ratings", {"rank": 16, "n_iter": 2, "start": "spectral"}, note="spectral"),
    SizedCase(lk.DPLMC, "ratings", {"rank": 16, "n_iter": 3, "step": 8.0, "user_norm": 0.7, "residual_norm": 2.0}),
    SizedCase(lk.DPLMC, "ratings", {"rank": 16, "n_iter": 3, "start": "random"}, note="random"),
]
