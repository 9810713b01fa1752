"""White-box canaries for DPFactors: every kind of post shifts along one user's contribution by the mu of the ledger.

And its private starts in whole fits on neighbouring data: the table of estimators has the options of the rounds.
"""

from __future__ import annotations

import numpy as np
import pytest
from adversaries import gallery
from estimators import DOMAINS, base_keys, base_rows, ratings_of
from replay import record, replay
from test_replay import neighbour

import lowkey as lk
from lowkey.engines.local import LocalEngine
from lowkey.kernels.factors import FactorRound
from lowkey.kernels.taken import TakenMoments
from lowkey.linalg.packed import unpack
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.sums import Statistic, Unreleased

POSTS = 400
N_ITEMS, RANK = 16, 2
DOMAIN = lk.Domain(N_ITEMS, (0.5, 5.0), expected_users=30)
CANARY = (np.arange(1, 12, dtype=np.int32), np.where(np.arange(11) % 2, 5.0, 0.5).astype(np.float32))
# With which the canary reaches that of the post:
BOUNDS = {"item_update_1": (0.4, 1.7), "user_moments": (9.0, 0.5), "taken": (0.3,)}
PLAN = lk.DPFactors(100.0, 1e-5, rank=RANK, n_iter=1).plan(DOMAIN)


def round_of(name: str) -> FactorRound | TakenMoments:
    rng = np.random.default_rng(6)
    if name == "taken":
        prior, factors = 2.75 + rng.normal(0.0, 0.3, N_ITEMS), rng.normal(0.0, 0.5, (N_ITEMS, RANK))
        return TakenMoments(prior, factors, 100.0 * np.abs(factors), *BOUNDS[name], reg=0.7, offset_reg=1.3)
    return FactorRound(
        1,
        2.75 + rng.normal(0.0, 0.3, N_ITEMS),
        rng.normal(0.0, 0.5, (N_ITEMS, RANK)),
        rng.uniform(0.3, 2.0, N_ITEMS),
        rng.uniform(0.4, 3.0, N_ITEMS),
        *BOUNDS[name],
        reg=0.7,
        offset_reg=1.3,
    )


def sums_of(name: str, with_canary: bool, crowd: bool = True) -> tuple[Statistic, np.ndarray]:
    rows, keys = (base_rows(DOMAIN), base_keys()) if crowd else ([], np.zeros(0, np.uint64))
    if with_canary:
        rows, keys = [*rows, CANARY], np.append(keys, np.uint64(99))
    sums, _ = LocalEngine(n_jobs=1).sweep(round_of(name), ratings_of(DOMAIN, rows, keys))
    return sums[name].statistic, sums[name]._open()


def projections(name: str, with_canary: bool) -> np.ndarray:
    """POSTS times: the posted sum along the canary's own direction, in units of the noise along it."""
    full = unpack if name == "user_moments" else np.asarray
    direction = full(sums_of(name, True, crowd=False)[1].astype(float))
    direction /= np.linalg.norm(direction)
    statistic, units = sums_of(name, with_canary)
    found = np.empty(POSTS)
    for i in range(POSTS):
        billboard = Billboard()
        billboard.begin(PLAN)
        # (W + W^T)/2 along a symmetric direction of norm 1 varies as an entry of W: sqrt(2) times an off-diagonal one.
        std = billboard.noise_std(statistic) * (np.sqrt(2.0) if statistic.layout == "symmetric" else 1.0)
        found[i] = np.sum(full(billboard.post(Unreleased(statistic, units.copy()))) * direction) / std
    return found


@pytest.mark.parametrize("name", list(BOUNDS))
def test_the_shift_is_the_mu_of_the_ledger(name: str) -> None:
    """The canary reaches its clip, so the shift is mu itself. False alarms: 1 in 15,000 (four standard errors)."""
    claimed = next(line.mechanism.mu for line in PLAN.lines if line.name == name)
    assert claimed > 1.0
    measured = projections(name, True).mean() - projections(name, False).mean()
    assert abs(measured - claimed) < 4.0 * np.sqrt(2.0 / POSTS)


@pytest.mark.parametrize("start", ["moments", "spectral"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_private_starts_in_whole_fits(start: str, adjacency: str) -> None:
    """Nobody of the gallery moves a post further than declared, and somebody comes near at one of the start's own."""
    domain = DOMAINS["ratings"]
    rows = base_rows(domain)
    make = lambda: lk.DPFactors(1.0, 1e-6, adjacency, rank=3, n_iter=2, start=start)
    known = record(make(), domain, rows, base_keys(), SeededNoise(11))
    assert [entry.line.name for entry in known.entries if entry.line.name.endswith("gram")]
    moved = [
        replay(known, make(), domain, *neighbour(rows, row, adjacency, place))
        for place, row in enumerate(gallery(domain, rows).values())
    ]
    assert max(moved) > 0.5
