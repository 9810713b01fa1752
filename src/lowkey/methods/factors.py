"""Public room: factors for ratings in rounds, every lever at once.

Paper: ours (docs/factors.md), after Chien et al. 2021 (DPALS).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.factors import ACTIVITY, EXTRA, FactorRound
from lowkey.linalg.blup import Round, clean_moments, common_scale, posterior
from lowkey.linalg.packed import unpack
from lowkey.methods.base import Recommender
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

SUM_BOUND = 0.22
COUNT_WEIGHT = 0.5
PRIOR_STD = 0.1
RESIDUAL_BOUND = 0.17
OFFSET_STD = 0.1

Array = NDArray[np.float64]


class DPFactors(Recommender):
    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int = 6,
        init_seed: int = 0,
        means_share: float = 0.2,
        growth: float = 1.3,
        weight_power: float = 0.25,
        window: int = 2,
        rescale: bool = True,
        tight: float = 1.0,
        mshare: float = 0.05,
        verbose: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.n_iter = n_iter
        self.init_seed = init_seed
        self.means_share = means_share
        self.growth = growth
        self.weight_power = weight_power
        self.window = window
        self.rescale = rescale
        self.tight = tight
        self.verbose = verbose
        self.mshare = mshare

    def plan(self, domain: Domain) -> Plan:
        if domain.rating_range is None:
            refuse("DPFactors", got="binary feedback", needed="ratings", try_="DPMoments")
        rank = self._rank(domain)
        requests = [Request("item_means", 2 * domain.n_items, self.means_share)]
        growth = self.growth ** np.arange(self.n_iter)
        left = 1.0 - self.means_share - self.mshare
        for t in range(self.n_iter):
            requests.append(Request(f"item_update_{t + 1}", domain.n_items * (rank + 1), left * growth[t] / growth.sum()))
        order = rank + EXTRA
        requests.append(Request("user_moments", order * (order + 1) // 2, self.mshare, times=self.n_iter, symmetric=True))
        return self._calibrated(domain, requests, rank=rank)

    def _rank(self, domain: Domain) -> int:
        return 12 if self.rank is None else self.rank

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain, n_items = ratings.domain, ratings.domain.n_items
        assert domain.rating_range is not None
        low, high = domain.rating_range
        spread = high - low
        rank = self._rank(domain)
        public: dict[str, Any] = {"n_items": n_items, "center": (low + high) / 2, "item_bias": np.zeros(n_items)}
        unit = SUM_BOUND * spread
        means = ItemMeans(unit, 0.0, COUNT_WEIGHT)
        std = billboard.noise_std(means.statistics(public)[0])
        sums, _ = engine.sweep(means, ratings, public=public)
        totals, counts = billboard.post(sums["item_means"])
        counts = counts / COUNT_WEIGHT
        count_std = std / COUNT_WEIGHT
        known = np.maximum(counts, 0.0)
        prior_var = (PRIOR_STD * spread) ** 2
        precision = known**2 / ((unit * std) ** 2 + 0.5 * (0.2 * spread) ** 2 * known) + 1 / prior_var
        bias_variance = 1 / precision
        bias0 = unit * totals * known / ((unit * std) ** 2 + 0.5 * (0.2 * spread) ** 2 * known) * bias_variance
        known = np.maximum(known, max(0.5 * count_std, 1.0))
        weights = known**-self.weight_power
        weights /= weights.mean()
        users = domain.expected_users or max(1.0, known.sum() / 10)
        root_m = max(1.0, counts.sum() / users)
        shares = weights * known / np.sum(weights * known)
        var = (RESIDUAL_BOUND * spread) ** 2
        bound = RESIDUAL_BOUND * spread
        moment_bound = math.sqrt(1.5 * root_m * math.sqrt(1.0 + rank / 4))
        rng = np.random.default_rng(self.init_seed)
        v = rng.standard_normal((n_items, rank)) * math.sqrt(var) / root_m
        bias = bias0
        rounds: list[Round] = []
        last = None
        for t in range(self.n_iter):
            sweep = FactorRound(t + 1, bound, moment_bound, var, var / (OFFSET_STD * spread) ** 2)
            public |= {"item_bias": bias, "item_factors": v, "item_weights": weights}
            stat, mstat = sweep.statistics(public)
            noise_std, mstd = billboard.noise_std(stat), billboard.noise_std(mstat)
            sums, _ = engine.sweep(sweep, ratings, public=public)
            update, moments = billboard.post(sums[sweep.update]), unpack(billboard.post(sums["user_moments"]))
            moments = clean_moments(moments, mstd, rank)
            weight = max(moments[0, 0], 4 * mstd)
            seen = moments[: rank + 1, : rank + 1]
            seen_var = max(moments[rank + 1, rank + 1] / weight, 1e-4) * bound**2
            m = max(1.0, (ACTIVITY**2 * weight / max(moments[rank + 2, rank + 2], mstd)) ** 2)
            big = math.sqrt(max(1.0, np.trace(seen) / weight))
            old = np.column_stack([bias, v])
            y = shares[:, None] * (old @ seen) + update
            rounds.append(Round.of(shares, y, seen, noise_std, seen_var / math.sqrt(m) / big))
            rounds = rounds[-self.window :] if t > 1 else rounds[-1:]
            found = posterior(rounds, bias0, bias_variance)
            change = np.eye(rank)
            mean_u = seen[1:, 1:] / weight
            if self.rescale:
                change = common_scale(found.prior, mean_u, m, seen_var)
                rounds = [r.turned(change) for r in rounds]
            if self.verbose:
                s = np.linalg.svd(found.means[:, 1:] * np.sqrt(shares)[:, None], compute_uv=False)
                print(t, f"bound {bound:.4f} var {seen_var:.5f} m {m:.1f} |u|2 {np.trace(mean_u):.2f} big {big:.2f} noise {noise_std:.2f} mb {moment_bound:.2f}", "u", np.linalg.eigvalsh(mean_u)[[0,-1]].round(2), "sv", s.round(3)[[0,rank//2,-1]], "ch", np.linalg.eigvals(change).real.round(2).min(), np.linalg.eigvals(change).real.round(2).max(), flush=True)
            bias, v = found.means[:, 0], found.means[:, 1:] @ change.T
            fall = 1.0 if last is None else min(1.0, math.sqrt(seen_var / last))
            last = seen_var
            var = seen_var
            moment_bound = math.sqrt(1.5 * root_m * big)
            bound = self.tight * math.sqrt(seen_var) * fall
        arrays = {"item_bias": bias, "item_factors": v}
        settings = {
            "center": public["center"],
            "rating_range": [low, high],
            "offset_reg": var / (OFFSET_STD * spread) ** 2,
            "reg": var,
        }
        return Model(type(self).__name__, "factors", arrays, settings, domain, billboard.ledger)
