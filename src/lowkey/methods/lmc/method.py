"""Public room: DPLMC: private projected gradient descent on users' and items' rows, from a private or random start.

Paper: Wang, Zhao and Kolar 2023, Algorithms 1 and 2, section 6. Deviates: ``docs/dplmc.md``; noise is calibrated exactly
and jointly for start and descent; p is public or posted; the start is projected; the step follows the posted matrices.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.lmc import GradientRound
from lowkey.kernels.spectral_start import StartGram
from lowkey.kernels.svd import RatingDensity
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.old_base import Recommender
from lowkey.methods.factors.method import default_rank
from lowkey.methods.lmc_published import published_plan
from lowkey.methods.posts import post_item_means
from lowkey.methods.row_norm import need_positive, need_ratings, need_word
from lowkey.methods.spectral_start import observed_shares, spectral_start, start_request
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

Array = NDArray[np.float64]
DENSITY_SHARE = 0.02  # of mu^2: two numbers against matrices
SIGNAL_STD = 0.1  # of the rating range: how far users' tastes move a rating
RESIDUAL_STD = 0.17  # of the rating range: a rating around the model
LENGTHS = 2.0  # bounds on rows, in units of a typical row's length
SPECTRAL_ITEMS = 1000  # "auto" takes the private start up to here: its noise grows with the catalogue
RANDOM_LENGTH = 0.25  # of a random start's rows, in units of their bound


class Crowd(NamedTuple):
    """Public or posted: how many users there are, what they show of the catalogue, and what items weigh."""

    n_users: float
    density: float  # p: the share of all cells that is rated
    shares: Array  # how often each item is rated, in units of the average item; 1 in the paper
    item_weights: Array  # w_j; 1 in the paper

    @property
    def observed(self) -> Array:
        """w_j times the share of users who show item j: what the sum over users is divided by; p in the paper."""
        return self.density * observed_shares(self.item_weights, self.shares)

    @property
    def weighted_ratings(self) -> float:
        """Of a typical user; p n_items in the paper."""
        return self.density * float((self.item_weights * self.shares).sum())

    @property
    def row_scale(self) -> float:
        """The norm of a typical user's weighted row of ones."""
        return math.sqrt(self.density * float((self.item_weights**2 * self.shares).sum()))


class DPLMC(Recommender):
    """Low-rank factors by ``n_iter`` noisy gradient steps; users keep their own row, items' rows are posted.

    Every round posts the users' Gram matrix (for the balance of the two sides; ``balance_share`` of the rounds' budget)
    and the items' gradient. ``step`` is the step in units of 1/(largest eigenvalue of either side); the model is the mean
    of the last ``averaged`` share of the rounds, which is free (0: the last one alone, as in the paper). ``item_reg`` is a
    ridge on the items' side in units of what the known noise calls for (0: none, as in the paper). Bounds are public:
    ``user_norm``, ``item_norm`` and ``residual_norm`` (the paper's alpha_1, alpha_2 and G) on a user's row, an item's row
    and a user's row of residuals, in units in which both sides' rows are alike in length; by default they follow from the
    rating range, and the last also from the posted density. ``rank`` follows from the noise level, as in ``DPFactors``.
    ``start="private"`` spends ``start_share`` of the budget on a spectral start; "auto" does so up to 1,000 items.
    ``density`` is the share of all cells that is rated, if public; by default it is posted, with the number of users.
    ``bias_share`` of what the start leaves goes to item means and counts: ``weighting="counts"`` takes items and users by
    how often they occur, "uniform" assumes, like the paper, that all cells are seen alike. ``reg`` is the ridge of a
    user's side when the model is used: the variance of a rating around the model.
    ``calibration="published"`` takes the paper's noise and reports the guarantee that holds for it.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int = 15,
        step: float = 0.5,
        averaged: float = 0.3,
        item_reg: float = 4.0,
        user_norm: float | None = None,
        item_norm: float | None = None,
        residual_norm: float | None = None,
        start: str = "auto",
        start_share: float = 0.3,
        start_epsilon: float = 1.0,
        balance_share: float = 0.05,
        density: float | None = None,
        bias_share: float = 0.2,
        weighting: str = "counts",
        weight_exponent: float = 0.25,
        offset_reg: float | None = 5.0,
        reg: float | None = None,
        calibration: str = "exact",
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.n_iter = n_iter
        self.step = step
        self.averaged = averaged
        self.item_reg = item_reg
        self.user_norm = user_norm
        self.item_norm = item_norm
        self.residual_norm = residual_norm
        self.start = start
        self.start_share = start_share
        self.start_epsilon = start_epsilon
        self.balance_share = balance_share
        self.density = density
        self.bias_share = bias_share
        self.weighting = weighting
        self.weight_exponent = weight_exponent
        self.offset_reg = offset_reg
        self.reg = reg
        self.calibration = calibration
        self.init_seed = init_seed

    # The plan ---------------------------------------------------------------------------------------------------------
    def plan(self, domain: Domain) -> Plan:
        self._check(domain)
        n_items, rank = domain.n_items, self._rank(domain)
        before = self.bias_share + (0.0 if self.density is not None else DENSITY_SHARE)
        requests: list[Request] = []
        if self.bias_share > 0.0:
            requests.append(Request("item_means", 2 * n_items, self.bias_share, note="sums and counts, bounded jointly"))
        if self.density is None:
            requests.append(Request("rating_density", 2, DENSITY_SHARE))
        if self._private_start(domain):
            requests.append(start_request(n_items, self.start_share))
        of_balance = (1.0 - before) * self.balance_share
        requests.append(Request("user_gram", packed_length(rank), of_balance, self.n_iter, symmetric=True))
        requests.append(Request("item_gradient", n_items * rank, 1.0 - before - of_balance, self.n_iter))
        settings = {"rank": rank, "n_iter": self.n_iter, "user_norm": self._norms(domain)[0]}
        plan = self._calibrated(domain, requests, **settings)
        if self.density is not None:
            plan = replace(plan, public=(*plan.public, "the density of the ratings and the expected number of users"))
        if self.calibration == "exact":
            return plan
        assert self.epsilon is not None
        start_epsilon = self.start_epsilon if self._private_start(domain) else None
        return published_plan(plan, self.epsilon, self.balance_share, start_epsilon)

    def _rank(self, domain: Domain) -> int:
        if self.rank is not None:
            return self.rank
        mu = self._mu()
        return default_rank(domain, mu) if mu < math.inf else 1  # without a budget no plan will come of it

    def _private_start(self, domain: Domain) -> bool:
        return self.start == "private" or (self.start == "auto" and domain.n_items <= SPECTRAL_ITEMS)

    def _norms(self, domain: Domain) -> tuple[float, float]:
        """Bounds on users' and items' rows: ratings that tastes move by s need rows of length sqrt(s sqrt(rank))."""
        assert domain.rating_range is not None
        spread = domain.rating_range[1] - domain.rating_range[0]
        usual = LENGTHS * math.sqrt(SIGNAL_STD * spread * math.sqrt(self._rank(domain)))
        return (
            usual if self.user_norm is None else self.user_norm,
            usual if self.item_norm is None else self.item_norm,
        )

    # The loop ---------------------------------------------------------------------------------------------------------
    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain = ratings.domain
        assert domain.rating_range is not None
        low, high = domain.rating_range
        public: dict[str, Any] = {"n_items": domain.n_items, "center": (low + high) / 2.0}
        counts = self._post_means(ratings, engine, billboard, public)
        crowd = self._post_crowd(ratings, engine, billboard, counts)
        public |= {"item_weights": crowd.item_weights, "observed": crowd.observed, "n_users": crowd.n_users}
        offset_reg = math.inf if self.offset_reg is None else self.offset_reg
        user_norm, item_norm = self._norms(domain)
        residual_norm = self.residual_norm
        if residual_norm is None:
            residual_norm = RESIDUAL_STD * (high - low) * crowd.row_scale
        start = StartGram(residual_norm, offset_reg)
        if self.weighting == "counts":  # one bound does not fit rows of five and of five hundred ratings
            root = math.sqrt(crowd.density * domain.n_items)
            start = StartGram(residual_norm / root, offset_reg, per_rating=True)
            public["observed"] = crowd.observed / root
        public |= self._start(start, ratings, engine, billboard, public)
        sweep = GradientRound(user_norm, residual_norm, offset_reg)
        public["own_counts"], public["least_ratings"] = self.weighting == "counts", crowd.weighted_ratings
        factors, local = _onto_ball(public["item_factors"], item_norm), None
        std = billboard.noise_std(sweep.statistics(public)[1]) / (crowd.n_users * crowd.observed)
        decay = self._decay(std, factors.shape[1], user_norm, item_norm)
        found: list[tuple[Array, Array]] = []
        kept = max(1, round(self.averaged * self.n_iter))
        for _ in range(self.n_iter):
            public["item_factors"] = factors
            sums, local = engine.sweep(sweep, ratings, local, public)
            gram = unpack(billboard.post(sums["user_gram"])) / crowd.n_users
            gradient = billboard.post(sums["item_gradient"]) / (crowd.n_users * crowd.observed[:, None])
            imbalance = gram - factors.T @ factors / domain.n_items
            step = self.step / self._steepness(gram, factors, user_norm * item_norm)
            public |= {"last_factors": factors, "user_step": step, "pull": step / 2.0 * imbalance}
            moved = factors - step * gradient + step / 2.0 * (factors @ imbalance)
            factors = _onto_ball(moved / (1.0 + step * decay[:, None]), item_norm)
            found = [*found, (factors, gram)][-kept:]
        factors, gram = (np.mean(part, axis=0) for part in zip(*found, strict=True))
        return self._model(domain, billboard, public, factors, gram)

    def _decay(self, noise_std: Array, rank: int, user_norm: float, item_norm: float) -> Array:
        """A ridge on the items' side, by what is known of the noise.

        All rounds together tell H v, H being the users' mean u u^T, up to noise of variance n^2 = noise_std^2/n_iter. With
        v of variance t^2 the posterior mean is (H + n^2/t^2 H^-1)^-1 times that: a ridge of n^2/(h t^2), h a typical
        eigenvalue of H. Typical rows have 1/``LENGTHS`` of the length of their bounds.
        """
        h, variance = ((norm / LENGTHS) ** 2 / rank for norm in (user_norm, item_norm))
        return self.item_reg * noise_std**2 / self.n_iter / (h * variance)

    def _steepness(self, gram: Array, factors: Array, least: float) -> float:
        """The curvature of either side along its steepest direction: what a step is divided by."""
        of_items = np.linalg.eigvalsh(factors.T @ factors / len(factors))[-1]
        floor = RANDOM_LENGTH**2 * least / factors.shape[1]
        return max(float(np.linalg.eigvalsh(gram)[-1]), float(of_items), floor)

    def _start(
        self, sweep: StartGram, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
    ) -> dict[str, Any]:
        """Item factors, and what users start from: a public map of their own rows, or a draw by their own key."""
        rank = self._rank(ratings.domain)
        if self._private_start(ratings.domain):
            start = spectral_start(sweep, rank, ratings, engine, billboard, public)
            return {"item_factors": start.item_factors, "user_map": start.user_map}
        user_std, item_std = (RANDOM_LENGTH * norm / math.sqrt(rank) for norm in self._norms(ratings.domain))
        draws = np.random.default_rng(self.init_seed).standard_normal((public["n_items"], rank))
        return {"item_factors": item_std * draws, "user_map": None, "start_std": user_std, "init_seed": self.init_seed}

    def _post_means(self, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]) -> Array | None:
        """Item biases into ``public``; the posted (weighted) counts, at least 1, if they were posted."""
        public["item_bias"] = np.zeros(public["n_items"])
        if self.bias_share == 0.0:
            return None
        means = post_item_means(ratings, engine, billboard, public)
        public["item_bias"] = means.effects(least=1.0)
        return np.maximum(means.counts, 1.0)

    def _post_crowd(self, ratings: Ratings, engine: Engine, billboard: Billboard, counts: Array | None) -> Crowd:
        n_items = ratings.domain.n_items
        if self.density is None:
            sums, _ = engine.sweep(RatingDensity(), ratings, public={"n_items": n_items})
            cells, users = billboard.post(sums["rating_density"])
            n_users = max(float(users), 1.0)
            # A user has one rating at the least; a density outside 1/n_items..1 is noise.
            density = float(np.clip(cells / n_users, 1.0 / n_items, 1.0))
        else:
            assert ratings.domain.expected_users is not None
            n_users, density = float(ratings.domain.expected_users), self.density
        if self.weighting == "uniform" or counts is None:
            return Crowd(n_users, density, np.ones(n_items), np.ones(n_items))
        shares = counts / counts.mean()
        return Crowd(n_users, density, shares, shares**-self.weight_exponent)

    def _model(self, domain: Domain, billboard: Billboard, public: dict[str, Any], factors: Array, gram: Array) -> Model:
        """Item factors in the basis in which users' rows have the unit matrix for their covariance.

        A user's part of the objective is then the sum of squared residuals plus ``reg`` |u|^2: at its end the balance
        term pulls no user anywhere, and what is left of it is the prior that users' rows look like those in the data.
        """
        assert domain.rating_range is not None
        low, high = domain.rating_range
        values, vectors = np.linalg.eigh(gram)
        root = (vectors * np.sqrt(np.maximum(values, 0.05 * max(float(values.mean()), 0.0)))) @ vectors.T
        settings = {
            "center": public["center"],
            "offset_reg": self.offset_reg,
            "reg": (RESIDUAL_STD * (high - low)) ** 2 if self.reg is None else self.reg,
            "rating_range": [low, high],
        }
        arrays = {"item_bias": public["item_bias"], "item_factors": factors @ root}
        return Model(type(self).__name__, "factors", arrays, settings, domain, billboard.ledger)

    def _check(self, domain: Domain) -> None:
        need_ratings(type(self).__name__, domain)
        need_word("start", self.start, "auto", "private", "random")
        need_word("weighting", self.weighting, "counts", "uniform")
        need_word("calibration", self.calibration, "exact", "published")
        need_positive(user_norm=self.user_norm, item_norm=self.item_norm, residual_norm=self.residual_norm)
        need_positive(n_iter=self.n_iter, step=self.step, reg=self.reg, start_epsilon=self.start_epsilon)
        if self.rank is not None and not 1 <= self.rank <= domain.n_items:
            refuse("rank", got=repr(self.rank), needed=f"1 to {domain.n_items}", try_="leaving it out")
        if not 0.0 < self.balance_share < 1.0:
            refuse("balance_share", got=repr(self.balance_share), needed="between 0 and 1", try_="balance_share=0.05")
        if not 0.0 <= self.item_reg < math.inf:
            refuse("item_reg", got=repr(self.item_reg), needed="0 or a finite number above it", try_="item_reg=1")
        if not 0.0 <= self.averaged <= 1.0:
            refuse("averaged", got=repr(self.averaged), needed="a share from 0 to 1", try_="averaged=0.3")
        spent = self.bias_share + (self.start_share if self._private_start(domain) else 0.0)
        if self.bias_share < 0.0 or self.start_share <= 0.0 or spent > 0.9:
            refuse(
                "bias_share and start_share",
                got=f"{self.bias_share} and {self.start_share}",
                needed="shares that leave a tenth to the rounds",
                try_="leaving them out",
            )
        if self.density is not None and (domain.expected_users is None or not 0.0 < self.density <= 1.0):
            refuse(
                "density",
                got=f"{self.density!r} and expected_users {domain.expected_users!r}",
                needed="a share of all cells, and how many users to expect: both public, or neither",
                try_="leaving density out: it is posted, with the number of users",
            )
        if self.weighting == "counts" and self.bias_share == 0.0:
            refuse(
                "weighting", got="'counts' without a post of them", needed="bias_share above 0", try_="weighting='uniform'"
            )
        if self.calibration == "published" and (self.bias_share > 0.0 or self.density is None):
            refuse(
                "calibration",
                got="'published' with posts that the paper leaves out",
                needed="no item means, and a public density",
                try_="bias_share=0, weighting='uniform', density=0.4",
            )


def _onto_ball(factors: Array, bound: float) -> Array:
    """Every item's row to norm at most ``bound``; one that is not finite becomes zero."""
    kept = np.nan_to_num(factors, nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    return kept * np.minimum(1.0, bound / np.maximum(norms, 1e-300))
