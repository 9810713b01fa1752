"""With public data in play: neighbours get the same public part, no user moves a post further, the canary shifts by mu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from adversaries import gallery
from estimators import DOMAINS, base_keys, base_rows, ratings_of
from replay import record, replay
from test_replay import neighbour

import lowkey as lk
from lowkey.engines.local import LocalEngine
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.sums import Unreleased

DOMAIN = DOMAINS["ratings"]
POSTS = 400
METHODS = {
    "DPFactors": {"rank": 2, "n_iter": 2},
    "DPBias": {},
    "DPLists": {"head": 8},
    "DPMoments": {"head": 8, "rank": 2},
}


def public() -> lk.Public:
    rng = np.random.default_rng(4)
    rows = rng.uniform(*DOMAIN.rating_range, (40, DOMAIN.n_items)) * (rng.random((40, DOMAIN.n_items)) < 0.6)
    features = pa.table({"item": DOMAIN.item_ids, "size": rng.normal(size=DOMAIN.n_items)})
    return lk.Public(ratings=scipy.sparse.csr_array(rows), features=features)


class Informed:
    """An estimator whose every fit is told the same public things."""

    def __init__(self, method: str, adjacency: str = "add-remove") -> None:
        self._estimator = getattr(lk, method)(epsilon=50.0, delta=1e-5, adjacency=adjacency, **METHODS[method])

    def fit(self, X: Any, **options: Any) -> Any:
        return self._estimator.fit(X, public=public(), **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._estimator, name)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", list(METHODS))
def test_no_user_moves_a_post_further_than_declared(method: str, adjacency: str) -> None:
    rows = base_rows(DOMAIN)
    known = record(Informed(method, adjacency), DOMAIN, rows, base_keys(), SeededNoise(11))
    assert sum("sha256" in fact for fact in known.plan.public) == 2
    moves = [
        replay(known, Informed(method, adjacency), DOMAIN, *neighbour(rows, row, adjacency, place))
        for place, row in zip((0, 5, 3, 1) * 2, list(gallery(DOMAIN, rows).values())[:8], strict=True)
    ]
    assert 0.2 < max(moves) <= 1.0


def test_the_bounds_of_the_plan_do_not_depend_on_what_is_public() -> None:
    """Sources name themselves in the plan; noise, shares and the sensitivity of what is posted stay."""
    for method, settings in METHODS.items():
        estimator = getattr(lk, method)(epsilon=1.0, delta=1e-5, **settings)
        told, plain = estimator.plan(DOMAIN, public()), estimator.plan(DOMAIN)
        assert told.lines == plain.lines
        assert told.public[: len(plain.public)] == plain.public


def test_the_canary_shifts_a_round_that_starts_from_public_factors_by_at_most_mu() -> None:
    """False alarms: 1 in 30,000 (four standard errors)."""
    known = record(Informed("DPFactors"), DOMAIN, base_rows(DOMAIN), base_keys(), SeededNoise(11))
    sweep = next(call.sweep for call in known.calls if type(call.sweep).__name__ == "FactorRound")
    items = np.arange(DOMAIN.n_items, dtype=np.int32)
    low, high = DOMAIN.rating_range
    canary = (items, np.where(items % 2, high, low).astype(np.float32))

    def units(rows: list[Any]) -> tuple[Any, np.ndarray]:
        sums, _ = LocalEngine(n_jobs=1).sweep(sweep, ratings_of(DOMAIN, rows, np.arange(len(rows), dtype=np.uint64)))
        return sums[sweep.update].statistic, sums[sweep.update]._open()

    statistic, without = units(base_rows(DOMAIN))
    own = units([canary])[1]
    direction = own / np.linalg.norm(own)

    def mean_along(total: np.ndarray) -> float:
        found = []
        for _ in range(POSTS):
            billboard = Billboard()
            billboard.begin(known.plan)
            posted = billboard.post(Unreleased(statistic, total.copy()))
            found.append(np.sum(posted * direction) / billboard.noise_std(statistic))
        return float(np.mean(found))

    claimed = next(line.mechanism.mu for line in known.plan.lines if line.name == sweep.update)
    shift = mean_along(without + own) - mean_along(without)
    assert 0.3 * claimed < shift < claimed + 4.0 * np.sqrt(2.0 / POSTS)
