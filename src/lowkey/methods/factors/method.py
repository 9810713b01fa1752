"""Public room: factors for ratings in rounds: bias first, then residual updates solved with the noise in mind.

Paper: ours (docs/factors.md), after Chien et al. 2021 (DPALS). Deviates: one second-moment matrix is shared by all items,
a user's whole contribution is clipped at once, and the items' side is a posterior mean in place of a ridge regression.
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
from lowkey.kernels.factors import BINS, EXTRA
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.old_base import Recommender
from lowkey.methods.crowd import crowd_signal
from lowkey.methods.factors.blup import ItemRound, Round, clean_moments, common_scale, item_means, posterior
from lowkey.methods.factors.bounds import Scale, Seen, check_bound
from lowkey.methods.factors.start import first_factors, start_requests
from lowkey.methods.posts import PRIOR_STD, PostedMeans, post_all, post_item_means
from lowkey.methods.registry import CATALOGUE_FOR_MOMENTS, CROWD_FOR_MOMENTS
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

MOMENTS_SHARE, NORMS_SHARE = 0.05, 0.02  # of mu^2; the latter for a posted quantile
GRAM_SHARE = 0.3  # of a round's share, for items' own Gram matrices
GROWTH = 1.5  # of a round's share over the one before: late rounds make the model, early ones only find the way
RESIDUAL_STD = 0.17  # of the rating range: where the first round starts; the later ones follow the posts
LEAST = 3e-5  # of the rating range: no residual is looked at more closely
USUAL_RATINGS, USUAL_RANK = 64.0, 8  # where the domain does not say how many users are expected
LARGEST_RANK = 20
FEWEST_ROUNDS, MOST_ROUNDS = 4, 8
GRAMS = ("shared", "items")

Array = NDArray[np.float64]


def default_rank(domain: Domain, mu: float) -> int:
    """0.36 signal^(3/4): the budget of a round is split among directions, but a few too many find the right ones sooner."""
    signal = crowd_signal(domain, mu)
    if signal == math.inf:
        return min(USUAL_RANK, domain.n_items)
    return max(2, min(round(0.36 * signal**0.75), LARGEST_RANK, domain.n_items))


def default_rounds(domain: Domain, mu: float, start: str) -> int:
    """One for every doubling of the signal: more rounds than lift a direction out of the noise only add noise.

    A start that knows the directions saves those that would have looked for them.
    """
    signal = max(crowd_signal(domain, mu), 1.0)
    rounds = MOST_ROUNDS if signal == math.inf else max(FEWEST_ROUNDS, min(math.floor(math.log2(signal)), MOST_ROUNDS))
    return rounds if start == "random" else FEWEST_ROUNDS


def default_start(domain: Domain, mu: float) -> str:
    """Every pair of a small catalogue can be posted for a large crowd: then the moments' factors, else random ones.

    Without an expected number of users nothing is known of the crowd, and chance does no harm.
    """
    enough = domain.expected_users is not None and domain.expected_users * mu >= CROWD_FOR_MOMENTS["ratings"]
    return "moments" if enough and domain.n_items <= CATALOGUE_FOR_MOMENTS else "random"


def within(coefficients: Array, spread: float) -> Array:
    """No bias and no factor is larger than the rating range, however wild a post was: the next round starts from here."""
    kept = np.nan_to_num(coefficients, posinf=0.0, neginf=0.0)
    kept[:, 0] = np.clip(kept[:, 0], -spread, spread)
    kept[:, 1:] *= np.minimum(1.0, spread / np.maximum(np.linalg.norm(kept[:, 1:], axis=1), 1e-30))[:, None]
    return kept


def item_scales(counts: Array, weight_power: float, bias_power: float) -> tuple[Array, Array]:
    """Weights count^-weight_power, of mean 1, and what scales the biases so that they are weighed count^-bias_power.

    Over all ratings the biases take as much of a user's norm as if they had not been scaled: a mean square of one.
    """
    weights = counts**-weight_power
    weights /= weights.mean()
    scales = counts ** (weight_power - bias_power)
    return weights, scales / math.sqrt(float(np.average(scales**2, weights=counts * weights**2)))


class DPFactors(Recommender):
    """rating = center + item bias + user offset + item factor . user factor; the item side in ``n_iter`` noisy rounds.

    Nothing needs tuning: ``rank`` and ``n_iter`` follow from the noise level (``default_rank``, ``default_rounds``), bounds
    follow the posts, and what a ridge does elsewhere is done by the known noise. ``means_share`` of the budget goes to
    the item means first; ``averaged`` is how many of the last rounds the final model uses, each weighted by its
    precision; ``weight_power`` weighs an item count^-power within a user's row, and ``bias_power`` its bias alone. The
    rest is there to be compared with: ``bound`` follows the posted residuals ("falling") or a posted "quantile" of the
    users' norms, or stays "fixed"; ``gram="items"`` posts a second-moment matrix for every item beside the "shared" one;
    without ``noise_aware`` the items' side takes the posts for exact; ``start`` is "random", or "spectral" or "moments",
    which spend ``start_share`` of the budget on a private start (``methods.factors.start``): by ``default_start`` for a
    small catalogue.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int | None = None,
        means_share: float = 0.1,
        averaged: int = 3,
        weight_power: float = 0.1,
        bias_power: float = 0.35,
        bound: str = "falling",
        gram: str = "shared",
        noise_aware: bool = True,
        start: str | None = None,
        start_share: float | None = None,
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.n_iter = n_iter
        self.means_share = means_share
        self.averaged = averaged
        self.weight_power = weight_power
        self.bias_power = bias_power
        self.bound = bound
        self.gram = gram
        self.noise_aware = noise_aware
        self.start = start
        self.start_share = start_share
        self.init_seed = init_seed

    def plan(self, domain: Domain) -> Plan:
        if domain.rating_range is None:
            refuse("DPFactors", got="binary feedback", needed="ratings", try_="DPMoments")
        n_iter, start = self._n_iter(domain), self._start(domain)
        if n_iter < 1 or self.averaged < 1:
            refuse("n_iter, averaged", got=f"{n_iter}, {self.averaged}", needed="1 or more", try_="leaving them out")
        if self.gram not in GRAMS:
            refuse("gram", got=repr(self.gram), needed=" | ".join(GRAMS), try_="gram='shared'")
        if not 0.0 < self.means_share < 0.9:
            refuse("means_share", got=repr(self.means_share), needed="a share above 0, below 0.9", try_="means_share=0.1")
        check_bound(self.bound)
        rank = self._rank(domain)
        norms_share = NORMS_SHARE if self.bound == "quantile" else 0.0
        growth = GROWTH ** np.arange(n_iter)
        growth *= (1.0 - self.means_share - MOMENTS_SHARE - norms_share) / growth.sum()
        requests = [Request("item_means", 2 * domain.n_items, self.means_share, note="sums and counts, bounded jointly")]
        for t, share in enumerate(growth):
            requests += self._round_requests(t + 1, float(share), domain.n_items, rank)
        requests += start_requests(start, self.start_share, domain)
        requests.append(Request("user_moments", packed_length(rank + EXTRA), MOMENTS_SHARE, n_iter, symmetric=True))
        if norms_share:
            requests.append(Request("update_norms", BINS, norms_share, n_iter, note="a histogram"))
        return self._calibrated(domain, requests, rank=rank)

    def _round_requests(self, number: int, share: float, n_items: int, rank: int) -> list[Request]:
        gram_share = GRAM_SHARE if self.gram == "items" else 0.0
        update = Request(f"item_update_{number}", n_items * (rank + 1), share * (1.0 - gram_share))
        if not gram_share:
            return [update]
        return [
            update,
            Request(f"item_gram_{number}", n_items * packed_length(rank + 1), share * gram_share, symmetric=True),
        ]

    def _rank(self, domain: Domain) -> int:
        if self.rank is not None:
            if not 1 <= self.rank <= domain.n_items:
                refuse("rank", got=repr(self.rank), needed=f"1 to {domain.n_items}", try_="leaving it out")
            return self.rank
        return default_rank(domain, self._mu())

    def _n_iter(self, domain: Domain) -> int:
        return default_rounds(domain, self._mu(), self._start(domain)) if self.n_iter is None else self.n_iter

    def _start(self, domain: Domain) -> str:
        return default_start(domain, self._mu()) if self.start is None else self.start

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain = ratings.domain
        assert domain.rating_range is not None
        low, high = domain.rating_range
        spread, rank = high - low, self._rank(domain)
        public: dict[str, Any] = {"n_items": domain.n_items, "center": (low + high) / 2.0}
        posted = post_item_means(ratings, engine, billboard, public)
        stds = (posted.sum_std, posted.count_std, posted.prior_std, RESIDUAL_STD * spread)
        items = item_means(posted.sums, posted.counts, *stds)
        weights, scales = item_scales(items.counts, self.weight_power, self.bias_power)
        public |= {"item_weights": weights, "bias_scales": scales}
        shares = weights * items.counts / (weights @ items.counts)
        residual, offset = RESIDUAL_STD * spread, PRIOR_STD * spread
        scale = Scale(residual**2, offset**2, residual, math.sqrt(1.0 + rank / 4.0), _activity(domain, posted))
        start = self._start(domain)
        beginning = (start, rank, self.init_seed, scale, (posted, items))
        factors = first_factors(*beginning, ratings, engine, billboard, public)
        coefficients = np.column_stack([items.means, factors])
        rounds: list[Round] = []
        for t in range(self._n_iter(domain)):
            public["item_bias"] = np.ascontiguousarray(coefficients[:, 0])
            public["item_factors"] = np.ascontiguousarray(coefficients[:, 1:])
            sweep = scale.sweep(t + 1, self.gram == "items", self.bound == "quantile")
            sums, stds = post_all(sweep, ratings, engine, billboard, public)
            std = stds["user_moments"]
            seen = Seen.of(clean_moments(unpack(sums["user_moments"]), std, rank), std, sweep)
            noise = (stds[sweep.update] if self.noise_aware else 0.0, seen.sampling)
            update = sums[sweep.update] / np.column_stack([scales, np.ones((len(scales), rank))])
            if self.gram == "items":
                grams = unpack(sums[sweep.gram]), stds[sweep.gram]
                latest = ItemRound.with_grams(shares, update, coefficients, seen.regressors, scales, grams, *noise)
            else:
                targets = shares[:, None] * (coefficients @ seen.regressors) + update
                latest = Round.of(shares, targets, seen.regressors, scales, *noise)
            # A start that knows nothing is forgotten at once; then the last rounds count, by their precision.
            rounds = [latest] if t < 2 and start == "random" else [*rounds, latest][-self.averaged :]
            found = posterior(rounds, items.means, items.variances)
            change = common_scale(found.prior, seen.factors, seen.ratings, seen.variance)
            rounds = [r.turned(change) for r in rounds]
            coefficients = within(np.column_stack([found.means[:, 0], found.means[:, 1:] @ change.T]), spread)
            scale = scale.next(seen, self.bound, sums.get("update_norms"), LEAST * spread)
        settings = {
            "center": public["center"],
            "rating_range": [low, high],
            "offset_reg": scale.variance / scale.offset_variance,
            "reg": scale.variance,
        }
        arrays = {"item_bias": coefficients[:, 0].copy(), "item_factors": coefficients[:, 1:].copy()}
        return Model(type(self).__name__, "factors", arrays, settings, domain, billboard.ledger)


def _activity(domain: Domain, posted: PostedMeans) -> float:
    """A typical user's activity: the root of the number of ratings."""
    if domain.expected_users is None:
        return math.sqrt(USUAL_RATINGS)
    return min(max(1.0, float(posted.counts.sum()) / domain.expected_users), math.sqrt(domain.n_items))
