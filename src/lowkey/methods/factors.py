"""Public room: factors for ratings in rounds: bias first, then residual updates solved with the noise in mind.

Paper: ours (docs/factors.md), after Chien et al. 2021 (DPALS). Deviates: one second-moment matrix is shared by all items,
a user's whole contribution is clipped at once, and the items' side is a posterior mean in place of a ridge regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.factors import ACTIVITY, EXCESS, EXTRA, FactorRound
from lowkey.linalg.blup import ItemMean, Round, clean_moments, common_scale, item_means, posterior
from lowkey.linalg.packed import unpack
from lowkey.methods.base import Recommender
from lowkey.methods.posts import PRIOR_STD, post_item_means
from lowkey.methods.spectral_start import start_factors, start_requests
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

MEANS_SHARE, MOMENTS_SHARE = 0.20, 0.05  # of mu^2; the item updates get the rest
GROWTH = 1.5  # of a round's share over the one before: late rounds make the model, early ones only find the way
RESIDUAL_STD = 0.17  # of the rating range: where the first round starts; the later ones follow the posts
USUAL_RATINGS, USUAL_RANK = 64.0, 8  # where the domain does not say how many users are expected
LARGEST_RANK = 20

Array = NDArray[np.float64]


def default_rank(domain: Domain, mu: float) -> int:
    """The rank for a noise level: the root of mu times the expected users over the root of the number of items, times 0.8.

    A direction that users share stands out of a round's noise, whose largest singular value grows like sqrt(n_items)/mu,
    in proportion to the users; the budget of a round is split among directions, so their number follows the root.
    """
    if domain.expected_users is None:
        return min(USUAL_RANK, domain.n_items)
    signal = mu * domain.expected_users / math.sqrt(domain.n_items)
    return max(2, min(round(0.8 * math.sqrt(signal)), LARGEST_RANK, domain.n_items))


@dataclass(frozen=True)
class Scale:
    """Public numbers that a round needs, from the domain and from the rounds before."""

    variance: float  # of a rating around the model
    offset_variance: float  # of users' own offsets
    update_bound: float
    moment_bound: float

    def next(self, seen: _Seen, activity: float, least: float, fall: bool) -> Scale:
        """Bounds at what was seen: about half of the users are clipped a little, which costs less than more noise.

        If the residuals fell, the next bound expects them to fall as much again: too low a bound only slows down.
        """
        offset_variance = self.offset_variance * seen.offset_change
        room = moment_bound(activity, seen.norm)
        if not fall:
            return Scale(seen.variance, offset_variance, self.update_bound, room)
        falling = min(1.0, math.sqrt(seen.variance / self.variance))
        return Scale(seen.variance, offset_variance, max(math.sqrt(seen.variance) * falling, least), room)


def moment_bound(activity: float, factor_norm: float) -> float:
    """Half as much again as a typical |x|^2: a user's sum of weights, about the root of their number, times |(1, u)|."""
    return math.sqrt(1.5 * activity * factor_norm)


def within(coefficients: Array, spread: float) -> Array:
    """No bias and no factor is larger than the rating range, however wild a post was: the next round starts from here."""
    kept = np.nan_to_num(coefficients, posinf=0.0, neginf=0.0)
    kept[:, 0] = np.clip(kept[:, 0], -spread, spread)
    kept[:, 1:] *= np.minimum(1.0, spread / np.maximum(np.linalg.norm(kept[:, 1:], axis=1), 1e-30))[:, None]
    return kept


class DPFactors(Recommender):
    """rating = center + item bias + user offset + item factor . user factor; the item side in ``n_iter`` noisy rounds.

    Nothing needs tuning: ``rank`` follows from the noise level (``default_rank``), bounds follow the posts, and what a
    ridge does elsewhere is done by the known noise. ``averaged`` is how many of the last rounds the final model uses,
    each weighted by its precision; ``weight_power`` weighs an item count^-power within a user's row; without
    ``falling_bound`` every round is clipped like the first; without ``noise_aware`` the items' side takes the posts for
    exact. The last three are there to be compared with. ``start="spectral"`` spends ``start_share`` of the budget on a
    private start (``methods.spectral_start``).
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int = 8,
        averaged: int = 3,
        weight_power: float = 0.25,
        falling_bound: bool = True,
        noise_aware: bool = True,
        start: str = "random",
        start_share: float = 0.1,
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.n_iter = n_iter
        self.averaged = averaged
        self.weight_power = weight_power
        self.falling_bound = falling_bound
        self.noise_aware = noise_aware
        self.start = start
        self.start_share = start_share
        self.init_seed = init_seed

    def plan(self, domain: Domain) -> Plan:
        if domain.rating_range is None:
            refuse("DPFactors", got="binary feedback", needed="ratings", try_="DPMoments")
        if self.n_iter < 1 or self.averaged < 1:
            refuse("n_iter, averaged", got=f"{self.n_iter}, {self.averaged}", needed="1 or more", try_="n_iter=8")
        rank = self._rank(domain)
        growth = GROWTH ** np.arange(self.n_iter)
        growth *= (1.0 - MEANS_SHARE - MOMENTS_SHARE) / growth.sum()
        order = rank + EXTRA
        requests = [Request("item_means", 2 * domain.n_items, MEANS_SHARE, note="sums and counts, bounded jointly")]
        for t, share in enumerate(growth):
            requests.append(Request(f"item_update_{t + 1}", domain.n_items * (rank + 1), float(share)))
        requests += start_requests(self.start, self.start_share, domain)
        requests.append(Request("user_moments", order * (order + 1) // 2, MOMENTS_SHARE, self.n_iter, symmetric=True))
        return self._calibrated(domain, requests, rank=rank)

    def _rank(self, domain: Domain) -> int:
        if self.rank is not None:
            if not 1 <= self.rank <= domain.n_items:
                refuse("rank", got=repr(self.rank), needed=f"1 to {domain.n_items}", try_="leaving it out")
            return self.rank
        mu = self._mu()
        return default_rank(domain, mu) if mu < math.inf else 1  # without a budget no plan will come of it

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain = ratings.domain
        assert domain.rating_range is not None
        low, high = domain.rating_range
        spread = high - low
        public: dict[str, Any] = {"n_items": domain.n_items, "center": (low + high) / 2.0}
        items, activity = self._post_means(ratings, engine, billboard, public)
        weights = items.counts**-self.weight_power
        public["item_weights"] = weights / weights.mean()
        shares = public["item_weights"] * items.counts
        shares /= shares.sum()
        rank = self._rank(domain)
        variance, offset_variance = (RESIDUAL_STD * spread) ** 2, (PRIOR_STD * spread) ** 2
        room = moment_bound(activity, math.sqrt(1.0 + rank / 4.0))
        scale = Scale(variance, offset_variance, RESIDUAL_STD * spread, room)
        # As large as leaves half of a user's factor to the ridge: neither drowned by it nor fitted to every rating.
        start = np.random.default_rng(self.init_seed).standard_normal((domain.n_items, rank))
        if self.start == "spectral":
            public["item_bias"] = items.means
            bounds = (RESIDUAL_STD * spread, variance / offset_variance, rank, items.counts)
            start = math.sqrt(rank) * start_factors(*bounds, ratings, engine, billboard, public)
        coefficients = np.column_stack([items.means, start * math.sqrt(variance) / activity])
        rounds: list[Round] = []
        for t in range(self.n_iter):
            public["item_bias"] = np.ascontiguousarray(coefficients[:, 0])
            public["item_factors"] = np.ascontiguousarray(coefficients[:, 1:])
            sweep = FactorRound(
                t + 1, scale.update_bound, scale.moment_bound, scale.variance, scale.variance / scale.offset_variance
            )
            update, moments, stds = self._post_round(sweep, ratings, engine, billboard, public)
            seen = _Seen.of(clean_moments(moments, stds[1], rank), stds[1], sweep)
            targets = shares[:, None] * (coefficients @ seen.regressors) + update
            rounds.append(Round.of(shares, targets, seen.regressors, stds[0] if self.noise_aware else 0.0, seen.sampling))
            # A start that knows nothing is forgotten at once; then the last rounds count, by their precision.
            rounds = rounds[-1:] if t < 2 else rounds[-self.averaged :]
            found = posterior(rounds, items.means, items.variances)
            change = common_scale(found.prior, seen.factors, seen.ratings, seen.variance)
            rounds = [r.turned(change) for r in rounds]
            coefficients = within(np.column_stack([found.means[:, 0], found.means[:, 1:] @ change.T]), spread)
            scale = scale.next(seen, activity, 1e-6 * spread, self.falling_bound)
        settings = {
            "center": public["center"],
            "rating_range": [low, high],
            "offset_reg": scale.variance / scale.offset_variance,
            "reg": scale.variance,
        }
        arrays = {"item_bias": coefficients[:, 0].copy(), "item_factors": coefficients[:, 1:].copy()}
        return Model(type(self).__name__, "factors", arrays, settings, domain, billboard.ledger)

    def _post_means(
        self, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
    ) -> tuple[ItemMean, float]:
        """The items' means and counts, and a typical user's activity: the root of the number of ratings."""
        domain = ratings.domain
        assert domain.rating_range is not None
        spread = domain.rating_range[1] - domain.rating_range[0]
        public["item_bias"] = np.zeros(domain.n_items)
        posted = post_item_means(ratings, engine, billboard, public)
        stds = (posted.sum_std, posted.count_std, posted.prior_std, RESIDUAL_STD * spread)
        found = item_means(posted.sums, posted.counts, *stds)
        if domain.expected_users is None:
            return found, math.sqrt(USUAL_RATINGS)
        return found, min(max(1.0, float(posted.counts.sum()) / domain.expected_users), math.sqrt(domain.n_items))

    def _post_round(
        self, sweep: FactorRound, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
    ) -> tuple[Array, Array, list[float]]:
        """One pass: the update, the second moments, and how much noise each of the two holds."""
        stds = [billboard.noise_std(statistic) for statistic in sweep.statistics(public)]
        sums, _ = engine.sweep(sweep, ratings, public=public)
        return billboard.post(sums[sweep.update]), unpack(billboard.post(sums["user_moments"])), stds


@dataclass(frozen=True)
class _Seen:
    """What a round's second moments say: all of it averages over ratings, by ratios to the moment of the constant 1."""

    regressors: Array  # sums of c W/N (1, u)(1, u)^T
    factors: Array  # mean of u u^T
    variance: float  # of a rating around the model
    ratings: float  # of a typical user
    norm: float  # of (1, u)
    offset_change: float  # what to multiply the offsets' variance with

    @classmethod
    def of(cls, moments: Array, std: float, sweep: FactorRound) -> _Seen:
        size = len(moments) - EXTRA + 1  # 1 and the factor; then residual, activity and the offset's excess
        regressors = moments[:size, :size].copy()
        weight = regressors[0, 0] = max(moments[0, 0], 4.0 * std)
        factors = regressors[1:, 1:] / weight
        variance = min(max(moments[size, size] / weight, 1e-4), 4.0) * sweep.update_bound**2
        ratings = max(1.0, (ACTIVITY**2 * weight / max(moments[size + 1, size + 1], std)) ** 2)
        norm = math.sqrt(1.0 + max(float(np.trace(factors)), 0.0))
        # The mean excess is b^2 (true/assumed - 1), b = m/(m + offset_reg): solved for the ratio, with the known noise.
        gain = (ratings / (ratings + sweep.offset_reg)) ** 2
        excess, error = moments[0, size + 2] / weight / EXCESS, std / weight / EXCESS
        change = 1.0 + excess * gain / (gain**2 + 4.0 * error**2)
        return cls(regressors, factors, variance, ratings, norm, min(max(change, 0.25), 4.0))

    @property
    def sampling(self) -> float:
        """Residuals of the users themselves: the variance of a summand w e p/N over its regressor's w/N."""
        return self.variance / math.sqrt(self.ratings) / self.norm
