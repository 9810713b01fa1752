"""The one table of estimators: the conformance suite, the replay harness and the engine tests run over its rows.

To add a method, add a row per feedback kind it takes; ``lowkey.testing.Case`` says what belongs in one.
"""

from __future__ import annotations

import lowkey as lk
from lowkey.methods.frank_wolfe.method import DPFrankWolfe, FrankWolfe
from lowkey.methods.moments.method import DPMoments
from lowkey.methods.svd.method import DPSVD
from lowkey.testing.cases import (
    DOMAINS,
    N_ITEMS,
    N_USERS,
    Case,
    Row,
    as_row,
    base_keys,
    base_ratings,
    base_rows,
    ratings_of,
    stars,
)

__all__ = [
    "BASELINES",
    "CASES",
    "DOMAINS",
    "N_ITEMS",
    "N_USERS",
    "Case",
    "Row",
    "as_row",
    "base_keys",
    "base_ratings",
    "base_rows",
    "ratings_of",
    "stars",
]

CASES = [
    Case(
        lk.DPBias,
        "ratings",
        {"n_iter": 3},
        personal=False,
    ),
    Case(lk.DPBias, "binary", baseline=lk.Popularity, personal=False),
    Case(
        DPFrankWolfe,
        "ratings",
        {"n_iter": 3, "row_norm": 3.0, "form": "gram"},
        baseline=lambda: FrankWolfe(n_iter=6, step="decreasing"),
        twin={"n_iter": 6, "row_norm": 9.0, "residual_norm": 18.0, "step": "decreasing"},
        note="gram",
    ),
    Case(DPFrankWolfe, "ratings", {"n_iter": 2, "row_norm": 3.0, "form": "power"}, note="power"),
    Case(
        DPFrankWolfe,
        "ratings",
        # steps far beyond the target: the residual, and not only the row, must be clipped
        {"n_iter": 3, "row_norm": 3.0, "residual_norm": 3.2, "step": "decreasing", "nuclear_norm": 3000.0},
        whole={"nuclear_norm": None},
        note="decreasing",
    ),
    Case(DPSVD, "ratings", {"rank": 3, "row_norm": 3.0}),
    Case(DPSVD, "ratings", {"rank": 3, "cleansing": True}, note="cleansing"),
    Case(DPMoments, "ratings", {"head": 12, "rank": 3}, whole={"head": None}),
    Case(DPMoments, "binary", {"head": 12}, whole={"head": None}),
    Case(lk.DPLists, "binary", {"head": 12}, whole={"head": None}),
    Case(lk.DPLists, "ratings", {"head": 12, "liked": 2.5}, whole={"head": None}, note="liked"),
    Case(lk.DPLists, "binary", personal=False, note="too few for tastes"),
    Case(lk.DPSketch, "ratings", {"width": 3, "residual_bound": 0.6}),
    Case(lk.DPALS, "ratings", {"rank": 3, "n_iter": 2, "residual_bound": 0.5}, note="weights"),
    Case(lk.DPFactors, "ratings", {"rank": 3, "n_iter": 2}),
    Case(lk.DPFactors, "ratings", {"n_iter": 2}, personal=False, note="too few for factors", spends=0.95),
    Case(
        lk.DPLMC,
        "ratings",
        {"rank": 3, "n_iter": 3, "step": 8.0, "user_norm": 0.7, "residual_norm": 2.0},
        whole={"step": 0.5, "user_norm": None, "residual_norm": None, "n_iter": 10},
    ),
    Case(
        lk.DPALS,
        "ratings",
        {"rank": 3, "n_iter": 2, "residual_bound": 0.5, "max_ratings": 4},
        whole={"max_ratings": 12},
        note="sampled",
    ),
    Case(lk.DPALS, "binary", {"rank": 3, "n_iter": 2, "head": 0.75}, whole={"head": 1.0, "n_iter": 6, "user_reg": 0.5}),
]
BASELINES = [
    Case(lk.Bias, "ratings", personal=False),
    Case(lk.Bias, "binary", personal=False),
    Case(lk.Popularity, "ratings", personal=False),
    Case(lk.Popularity, "binary", personal=False),
    Case(FrankWolfe, "ratings", {"n_iter": 20}),
    Case(lk.ALS, "ratings", {"rank": 3}),
    Case(lk.ALS, "binary", {"rank": 3}),
]
