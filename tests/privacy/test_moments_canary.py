"""White-box canaries: the posted moments shift along one user's contribution by the mu that the ledger claims."""

from __future__ import annotations

import numpy as np
import pytest
from estimators import base_keys, base_rows, ratings_of

import lowkey as lk
from lowkey.engines.local import LocalEngine
from lowkey.kernels.moments import RatingMoments, RowMoments
from lowkey.linalg.packed import unpack
from lowkey.privacy.billboard import Billboard

POSTS = 400
N_ITEMS = 16
EVERYTHING = np.arange(N_ITEMS, dtype=np.int32)
DOMAINS = {
    "residual_gram": lk.Domain(N_ITEMS, (0.5, 5.0)),
    "rated_gram": lk.Domain(N_ITEMS, (0.5, 5.0)),
    "row_gram": lk.Domain(N_ITEMS, feedback="binary"),
}
RATED = RatingMoments(2.75 + np.linspace(-0.5, 0.5, N_ITEMS), EVERYTHING, N_ITEMS, residual_bound=0.5, offset_reg=4.0)
SWEEPS = {"residual_gram": RATED, "rated_gram": RATED, "row_gram": RowMoments(EVERYTHING, np.linspace(0.3, 1.0, N_ITEMS))}


def projections(name: str, with_canary: bool) -> np.ndarray:
    """POSTS times: the posted matrix along the canary's own direction, in units of the noise along it."""
    domain, sweep = DOMAINS[name], SWEEPS[name]
    canary = (np.arange(1, 12, dtype=np.int32), np.where(np.arange(11) % 2, 5.0, 0.5).astype(np.float32))
    rows, keys = base_rows(domain), base_keys()
    if with_canary:
        rows, keys = [*rows, canary], np.append(keys, np.uint64(99))
    plan = lk.DPMoments(epsilon=8.0, delta=1e-5).plan(domain)
    alone, _ = LocalEngine(n_jobs=1).sweep(sweep, ratings_of(domain, [canary], np.array([99], np.uint64)))
    contribution = unpack(alone[name]._open().astype(float))
    direction = contribution / np.linalg.norm(contribution)
    engine, data = LocalEngine(n_jobs=1), ratings_of(domain, rows, keys)
    found = np.empty(POSTS)
    for i in range(POSTS):
        billboard = Billboard()
        billboard.begin(plan)
        sums, _ = engine.sweep(sweep, data)
        # (W + W^T)/2 along a symmetric direction of norm 1 varies as an entry of W: sqrt(2) times an off-diagonal one.
        along = np.sum(unpack(billboard.post(sums[name])) * direction)
        found[i] = along / (np.sqrt(2.0) * billboard.noise_std(sums[name].statistic))
    return found


@pytest.mark.parametrize("name", list(SWEEPS))
def test_the_shift_is_the_mu_of_the_ledger(name: str) -> None:
    """The canary reaches its clip, so the shift is mu itself. False alarms: 1 in 15,000 (four standard errors)."""
    plan = lk.DPMoments(epsilon=8.0, delta=1e-5).plan(DOMAINS[name])
    claimed = next(line.mechanism.mu for line in plan.lines if line.name == name)
    measured = projections(name, True).mean() - projections(name, False).mean()
    assert abs(measured - claimed) < 4.0 * np.sqrt(2.0 / POSTS)
