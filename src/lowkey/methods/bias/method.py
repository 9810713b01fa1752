"""Public room: private item means, with a user's own offset computed locally; for binary feedback, private popularity.

Paper: McSherry and Mironov 2009, section 4 (item averages). Deviates: noise-aware damping instead of a fixed one; user
offsets are never posted.
"""

from __future__ import annotations

import math

import numpy as np

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.kernels.bias import ItemMeans
from lowkey.methods.old_base import Recommender
from lowkey.methods.means import damped_means
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request


class DPBias(Recommender):
    """rating = center + item bias + user offset; the item biases are private, the offset is the user's own.

    ``n_iter`` posts: each takes the item means of what the ones before leave over. ``residual_bound`` bounds the root
    mean square of one user's residuals; by default a quarter of the rating range, as stars are rarely spread wider.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        n_iter: int = 2,
        residual_bound: float | None = None,
        offset_reg: float = 5.0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_iter = n_iter
        self.residual_bound = residual_bound
        self.offset_reg = offset_reg

    def plan(self, domain: Domain) -> Plan:
        if domain.rating_range is None:
            return self._calibrated(domain, [Request("item_counts", domain.n_items, 1.0)])
        return self._calibrated(
            domain,
            [Request("item_means", 2 * domain.n_items, 1.0, times=self.n_iter, note="sums and counts, bounded jointly")],
            residual_bound=self._residual_bound(domain),
        )

    def _residual_bound(self, domain: Domain) -> float:
        assert domain.rating_range is not None
        low, high = domain.rating_range
        return self.residual_bound if self.residual_bound is not None else (high - low) / 4.0

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain = ratings.domain
        public = {"n_items": domain.n_items, "center": 0.0, "item_bias": np.zeros(domain.n_items)}
        if domain.rating_range is None:
            sums, _ = engine.sweep(ItemMeans(None, self.offset_reg), ratings, public=public)
            return self._model(domain, billboard, np.array(billboard.post(sums["item_counts"])), 0.0, None)
        public["center"] = sum(domain.rating_range) / 2.0
        bound = self._residual_bound(domain)
        # Stars spread about a quarter of their range around what is expected; a weighted count of c (weights below 1)
        # stands for more than c ratings, so half of that.
        spread = (domain.rating_range[1] - domain.rating_range[0]) / 4.0
        sweep = ItemMeans(bound, self.offset_reg)
        std = billboard.noise_std(sweep.statistics(public)[0])
        for _ in range(self.n_iter):
            sums, _ = engine.sweep(sweep, ratings, public=public)
            totals, counts = billboard.post(sums["item_means"])
            means = damped_means(bound * totals, counts, bound * std, std, residual_variance=(spread / 2.0) ** 2)
            public["item_bias"] = public["item_bias"] + means
        return self._model(domain, billboard, public["item_bias"], public["center"], self.offset_reg)

    def _model(
        self, domain: Domain, billboard: Billboard, item_bias: np.ndarray, center: float, offset_reg: float | None
    ) -> Model:
        arrays = {"item_bias": item_bias, "item_factors": np.zeros((domain.n_items, 0))}
        limits = None if domain.rating_range is None else list(domain.rating_range)
        settings = {"center": center, "offset_reg": offset_reg, "reg": 1.0, "rating_range": limits}
        return Model(type(self).__name__, "factors", arrays, settings, domain, billboard.ledger)


class Bias(DPBias):
    """The non-private baseline of ``DPBias``: the same code, without noise and without a guarantee."""

    private = False

    def __init__(self, n_iter: int = 4, offset_reg: float = 5.0) -> None:
        super().__init__(n_iter=n_iter, residual_bound=None, offset_reg=offset_reg)

    def _residual_bound(self, domain: Domain) -> float:
        return math.inf if domain.rating_range is None else domain.rating_range[1] - domain.rating_range[0]


class Popularity(Recommender):
    """The non-private baseline that recommends what most users have, whatever the feedback."""

    private = False

    def __init__(self) -> None:
        self.epsilon = self.delta = None
        self.adjacency = "add-remove"

    def plan(self, domain: Domain) -> Plan:
        return self._calibrated(domain, [Request("item_counts", domain.n_items, 1.0)])

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain = ratings.domain
        sums, _ = engine.sweep(ItemMeans(None, 0.0), ratings, public={"n_items": domain.n_items})
        arrays = {
            "item_bias": np.array(billboard.post(sums["item_counts"])),
            "item_factors": np.zeros((domain.n_items, 0)),
        }
        settings = {"center": 0.0, "offset_reg": None, "reg": 1.0, "rating_range": None}
        return Model("Popularity", "factors", arrays, settings, domain, billboard.ledger)
