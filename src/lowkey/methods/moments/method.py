"""Public room: release the moments of the users' rows once; every model after that is post-processing.

Paper: ours (docs/moments.md), after McSherry and Mironov 2009 (ratings) and Steck 2019 (binary feedback).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.moments import RatingMoments, RowMoments
from lowkey.linalg.packed import packed_length
from lowkey.methods.old_base import Recommender
from lowkey.methods.moments.head import LARGEST_HEAD, WEIGHT_POWER, clear_size, most_counted, places
from lowkey.methods.moments.models import best_rank, model_of
from lowkey.methods.moments.posted import Moments
from lowkey.methods.posts import post_all, post_item_means
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

RESIDUAL_BOUND = 0.17  # of the rating range: a user's root mean square residual
SHARES = {
    "ratings": {"item_means": 0.05, "residual_gram": 0.85, "rated_gram": 0.10},
    "binary": {"item_counts": 0.05, "row_gram": 0.95},
}
OFFSET_REG = 4.0  # damps a user's own offset in training, so that few ratings do not pass for a bias


class DPMoments(Recommender):
    """Item means and the second moments of the users' rows, posted once.

    Ratings: a Gaussian model of the rows; the prediction is its conditional mean, which in factor form is a ridge
    fold-in. Binary feedback: EASE, or with ``rank`` its low-rank form. ``head`` is how many items get second moments
    (default: those whose posted count stands clear of its noise); the others get their mean. ``refit`` and ``tune``
    work on the posted moments and cost nothing. Defaults depend on public facts and posted numbers only.
    """

    moments_: Moments

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        head: int | None = None,
        reg: float = 1.0,
        residual_bound: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.head = head
        self.reg = reg
        self.residual_bound = residual_bound

    def plan(self, domain: Domain) -> Plan:
        order = self._largest_head(domain)
        sizes = {"item_means": 2 * domain.n_items, "item_counts": domain.n_items}
        requests = [
            Request(name, sizes.get(name, packed_length(order)), share, symmetric=name.endswith("gram"))
            for name, share in SHARES[domain.feedback].items()
        ]
        return self._calibrated(domain, requests, largest_head=order)

    def _largest_head(self, domain: Domain) -> int:
        if self.head is not None and not 1 <= self.head <= domain.n_items:
            refuse("head", got=repr(self.head), needed=f"1 to {domain.n_items} items", try_="leaving it out")
        return min(domain.n_items, LARGEST_HEAD) if self.head is None else self.head

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        post = self._post_binary if ratings.domain.feedback == "binary" else self._post_ratings
        self.moments_ = post(ratings, engine, billboard)
        return self._model(ratings.domain, billboard)

    def _post_ratings(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Moments:
        domain = ratings.domain
        assert domain.rating_range is not None
        low, high = domain.rating_range
        public: dict[str, Any] = {"n_items": domain.n_items, "center": (low + high) / 2}
        means = post_item_means(ratings, engine, billboard, public)
        public["item_bias"] = means.effects()
        public |= self._head(domain, means.counts, means.count_std)
        bound = self.residual_bound if self.residual_bound is not None else RESIDUAL_BOUND * (high - low)
        posted, std = post_all(RatingMoments(bound, OFFSET_REG), ratings, engine, billboard, public)
        stds = {"item_sums": means.sum_std, "item_counts": means.count_std}
        arrays = {
            "item_sums": means.sums,
            "item_counts": means.counts,
            "item_bias": public["item_bias"],
            "head": public["head"],
            **posted,
        }
        settings = {"center": public["center"], "rating_range": [low, high]}
        return Moments("ratings", arrays, {**stds, **std}, settings)

    def _post_binary(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Moments:
        domain = ratings.domain
        public: dict[str, Any] = {"n_items": domain.n_items}
        counts, stds = post_all(ItemMeans(None, 0.0), ratings, engine, billboard, public)
        public |= self._head(domain, counts["item_counts"], stds["item_counts"])
        public["head_weights"] = np.maximum(counts["item_counts"][public["head"]], 1.0) ** -WEIGHT_POWER
        posted, std = post_all(RowMoments(), ratings, engine, billboard, public)
        arrays = {**counts, "head": public["head"], "head_weights": public["head_weights"], **posted}
        return Moments("binary", arrays, {**stds, **std}, {})

    def _head(self, domain: Domain, counts: NDArray[np.float64], std: float) -> dict[str, Any]:
        """The items with the highest posted counts: ``head`` of them, or those clear of the noise."""
        size = clear_size(domain, counts, std) if self.head is None else self.head
        return places(most_counted(counts, size), domain.n_items)

    # Free of charge --------------------------------------------------------------------------------------------------
    def _model(self, domain: Domain, billboard: Billboard) -> Model:
        rule, arrays, settings = model_of(self.moments_, domain.n_items, self.rank, self.reg)
        return Model(type(self).__name__, rule, arrays, settings, domain, billboard.ledger)

    def tune(self, ranks: Sequence[int] = (5, 10, 20, 40)) -> DPMoments:
        """Choose the rank on the posted moments themselves (ratings), and refit: no data is touched, nothing is spent."""
        self._fitted()
        if self.moments_.feedback != "ratings":
            refuse("tune", got="binary feedback, whose model has no rank to choose", needed="ratings", try_="refit(reg=…)")
        return self.refit(rank=best_rank(self.moments_, ranks)[0])

    def refit(self, *, rank: int | None = None, reg: float | None = None) -> DPMoments:
        """Another model on the posted moments: no data is touched and nothing is spent."""
        model = self._fitted()
        self.rank = self.rank if rank is None else rank
        self.reg = self.reg if reg is None else reg
        rule, arrays, settings = model_of(self.moments_, model.domain.n_items, self.rank, self.reg)
        self.model_ = Model(model.method, rule, arrays, settings, model.domain, model.ledger)
        return self
