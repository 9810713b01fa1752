"""Public room: private SVD: one noisy Gram matrix, its leading subspace, and every user's own projection on it.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 3; with ``cleansing`` McSherry and Mironov 2009. Deviates: noise is
symmetric and calibrated exactly; the scaling n_users n_items / |Omega| is posted, given, or the user's own, as the
paper's is private; after cleansing, users predict by a ridge regression on the factors, not by nearest neighbours.
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
from lowkey.kernels.frank_wolfe import ResidualGram
from lowkey.kernels.svd import CleansedMoments, RatingDensity
from lowkey.linalg.leading import leading_eigenpairs
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.old_base import Recommender
from lowkey.methods.means import damped_means
from lowkey.methods.published import published_noise, with_published_noise
from lowkey.methods.row_norm import default_row_norm, need_positive, need_ratings, need_word, rating_spread
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

MEANS_SHARE, COVARIANCE_SHARE, CO_RATINGS_SHARE = 0.15, 0.6, 0.25  # of mu^2, when cleansing
DENSITY_SHARE = 0.02  # two numbers against a matrix


class DPSVD(Recommender):
    """The leading ``rank`` right singular directions of the users' rows, private.

    Without cleansing, a user's prediction is the own row projected on them and scaled up for what is missing:
    ``scaling`` "posted" spends 2 % of the budget on the density of the ratings, "user" takes the user's own, and a
    number is a public n_users n_items / |ratings|. ``row_norm`` bounds a centred row, as in ``DPFrankWolfe``.

    With ``cleansing``, item means are posted first; residuals are clamped to ``residual_bound`` (default: a quarter of
    the rating range), and both their covariances and how often two items are rated together are posted. ``reg`` is the
    ridge of the user's side, by default the square of ``residual_bound``.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int = 8,
        cleansing: bool = False,
        row_norm: float | None = None,
        offset_reg: float | None = 5.0,
        scaling: str | float = "posted",
        residual_bound: float | None = None,
        reg: float | None = None,
        calibration: str = "exact",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.cleansing = cleansing
        self.row_norm = row_norm
        self.offset_reg = offset_reg
        self.scaling = scaling
        self.residual_bound = residual_bound
        self.reg = reg
        self.calibration = calibration

    def plan(self, domain: Domain) -> Plan:
        self._check(domain)
        triangle = packed_length(domain.n_items)
        if self.cleansing:
            requests = [
                Request("item_means", 2 * domain.n_items, MEANS_SHARE, note="sums and counts, bounded jointly"),
                Request("cleansed_covariance", triangle, COVARIANCE_SHARE, symmetric=True),
                Request("co_ratings", triangle, CO_RATINGS_SHARE, symmetric=True),
            ]
            return self._calibrated(domain, requests, residual_bound=self._residual_bound(domain))
        requests = [Request("residual_gram_1", triangle, 1.0, symmetric=True, note="of the rows themselves")]
        if self.scaling == "posted":
            requests.append(Request("rating_density", 2, DENSITY_SHARE))
        plan = self._calibrated(domain, requests, row_norm=self._row_norm(domain))
        if self.calibration == "exact":
            return plan
        assert self.epsilon is not None
        gram = self._row_gram(domain).statistics({"n_items": domain.n_items})[0]
        noise = published_noise(self._row_norm(domain), 1, self.epsilon, plan.delta)
        return with_published_noise(plan, [gram], noise, self.epsilon)

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        limits = ratings.domain.rating_range
        assert limits is not None
        public: dict[str, Any] = {"n_items": ratings.domain.n_items, "center": sum(limits) / 2.0}
        settings = {"center": public["center"], "offset_reg": self.offset_reg, "rating_range": list(limits)}
        step = self._cleansed if self.cleansing else self._projected
        rule, arrays, own = step(ratings, engine, billboard, public)
        return Model(type(self).__name__, rule, arrays, {**settings, **own}, ratings.domain, billboard.ledger)

    def _projected(
        self, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
    ) -> tuple[str, dict[str, NDArray[np.float64]], dict[str, Any]]:
        """Algorithm 3."""
        n_items = public["n_items"]
        none = {"directions": np.zeros((0, n_items)), "gains": np.zeros(0), "decays": np.zeros(0), "ridge": None}
        sums, _ = engine.sweep(self._row_gram(ratings.domain), ratings, public={**public, **none})
        _, vectors = leading_eigenpairs(unpack(billboard.post(sums["residual_gram_1"])), min(self.rank, n_items))
        scaling = None if self.scaling == "user" else self.scaling
        if self.scaling == "posted":
            sums, _ = engine.sweep(RatingDensity(), ratings, public=public)
            ratings_share, users = billboard.post(sums["rating_density"])
            # A user has an item at the least; a scaling outside 1..n_items is noise.
            scaling = float(np.clip(users / max(float(ratings_share), 1e-9), 1.0, n_items))
        return "projection", {"item_factors": np.ascontiguousarray(vectors)}, {"scaling": scaling}

    def _cleansed(
        self, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
    ) -> tuple[str, dict[str, NDArray[np.float64]], dict[str, Any]]:
        """McSherry and Mironov: averages, bounded residuals, covariance, low rank."""
        bound, n_items = self._residual_bound(ratings.domain), public["n_items"]
        offset_reg = math.inf if self.offset_reg is None else self.offset_reg
        public["item_bias"] = np.zeros(n_items)
        means = ItemMeans(bound, offset_reg)
        std = billboard.noise_std(means.statistics(public)[0])
        sums, _ = engine.sweep(means, ratings, public=public)
        totals, counts = billboard.post(sums["item_means"])
        everywhere = bound * float(totals.sum()) / max(float(counts.sum()), 3.0 * std * math.sqrt(n_items))
        totals = bound * totals - everywhere * counts
        public["item_bias"] = everywhere + damped_means(totals, counts, bound * std, std, (bound / 2.0) ** 2)

        moments = CleansedMoments(bound, offset_reg)
        sums, _ = engine.sweep(moments, ratings, public=public)
        covariance = unpack(billboard.post(sums["cleansed_covariance"]))
        together = unpack(billboard.post(sums["co_ratings"]))
        # Pairs that are hardly ever rated together are pulled to zero by what their count may owe to the noise.
        together = np.maximum(together, 0.0) + 2.0 * billboard.noise_std(moments.statistics(public)[1]) + 1.0
        values, vectors = leading_eigenpairs(bound**2 * covariance / together, min(self.rank, n_items))
        arrays = {"item_bias": public["item_bias"], "item_factors": vectors * np.sqrt(np.maximum(values, 0.0))}
        return "factors", arrays, {"reg": bound**2 if self.reg is None else self.reg}

    def _row_gram(self, domain: Domain) -> ResidualGram:
        """Before anything is posted, the residual is the row (with its sign changed)."""
        norm = self._row_norm(domain)
        return ResidualGram(1, norm, norm, math.inf if self.offset_reg is None else self.offset_reg)

    def _row_norm(self, domain: Domain) -> float:
        return default_row_norm(domain) if self.row_norm is None else self.row_norm

    def _residual_bound(self, domain: Domain) -> float:
        return rating_spread(domain) if self.residual_bound is None else self.residual_bound

    def _check(self, domain: Domain) -> None:
        need_ratings(type(self).__name__, domain)
        need_word("calibration", self.calibration, "exact", "published")
        need_positive(rank=self.rank, row_norm=self.row_norm, residual_bound=self.residual_bound, reg=self.reg)
        if isinstance(self.scaling, str):
            need_word("scaling", self.scaling, "posted", "user")
        else:
            need_positive(scaling=self.scaling)
        if self.calibration == "published" and (self.cleansing or self.scaling == "posted"):
            refuse(
                "calibration",
                got="'published' with posts that the paper leaves out",
                needed="Algorithm 3 and a scaling that is public or the user's own",
                try_="cleansing=False, scaling='user'",
            )
