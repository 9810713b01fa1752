"""Public room: ``DPMoments`` where n_items^2 numbers do not fit: the Gram matrix is posted through a basis, twice.

First through a random basis, to find where the rows vary; then through what was found. Memory is n_items * width.
Paper: ours (docs/moments.md), after Hardt and Price 2014 (noisy power iteration) and Nystrom's method.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.moments import RatingMoments
from lowkey.kernels.sketch import GramView
from lowkey.methods.old_base import Recommender
from lowkey.methods.moments.method import RESIDUAL_BOUND
from lowkey.methods.moments.nystrom import factors_from_view, random_basis, rescaled
from lowkey.methods.posts import post_all, post_item_means
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

SHARES = {"first_view": 0.3, "second_view": 0.6}
SEEN = 0.3  # of a row's square: what a basis that fits sees, without the diagonal


class DPSketch(Recommender):
    """The moments of ratings seen through a basis of ``width`` columns; for catalogues of any size.

    ``expected_users`` must be in the domain: it sets the scale of co-counts, which are not posted here.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        width: int = 16,
        reg: float = 1.0,
        residual_bound: float | None = None,
        offset_reg: float = 1.0,
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.width = width
        self.reg = reg
        self.residual_bound = residual_bound
        self.offset_reg = offset_reg
        self.init_seed = init_seed

    def plan(self, domain: Domain) -> Plan:
        if domain.rating_range is None:
            refuse("DPSketch", got="binary feedback", needed="ratings", try_="DPMoments, whose head bounds the memory")
        if not 1 <= self.width <= domain.n_items:
            refuse("width", got=repr(self.width), needed=f"1 to {domain.n_items} columns", try_="width=16")
        if domain.expected_users is None:
            refuse("domain", got="no expected_users", needed="a public guess", try_="Domain(..., expected_users=100_000)")
        requests = [Request("item_means", 2 * domain.n_items, 0.1)]
        requests += [Request(name, domain.n_items * self.width, share) for name, share in SHARES.items()]
        return self._calibrated(domain, requests, width=self.width)

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain, n_items = ratings.domain, ratings.domain.n_items
        assert domain.rating_range is not None
        assert domain.expected_users is not None
        low, high = domain.rating_range
        everything = np.arange(n_items, dtype=np.int32)
        public: dict[str, Any] = {"n_items": n_items, "head": everything, "slots": everything, "center": (low + high) / 2.0}
        means = post_item_means(ratings, engine, billboard, public)
        public["item_bias"] = means.effects()
        bound = self.residual_bound if self.residual_bound is not None else RESIDUAL_BOUND * (high - low)
        rows = RatingMoments(bound, self.offset_reg)
        public["basis"] = random_basis(n_items, self.width, self.init_seed)
        guess = min(1.0, 1.5 * math.sqrt(self.width / n_items))  # what a random basis sees, and half as much again
        posted, _ = post_all(GramView(rows, guess * bound**2, "first_view"), ratings, engine, billboard, public)
        public["basis"] = np.linalg.qr(posted["first_view"])[0]
        posted, stds = post_all(GramView(rows, SEEN * bound**2, "second_view"), ratings, engine, billboard, public)
        view, std = posted["second_view"], stds["second_view"]
        sizes = np.maximum(means.counts, 1.0) / math.sqrt(domain.expected_users)  # C_ij is about sizes_i sizes_j
        factors = rescaled(*factors_from_view(view, public["basis"], std), sizes)
        settings = {
            "center": public["center"],
            "rating_range": [low, high],
            "offset_reg": self.offset_reg,
            "reg": self.reg * bound**2,
        }
        arrays = {"item_factors": factors, "item_bias": public["item_bias"]}
        return Model(type(self).__name__, "factors", arrays, settings, domain, billboard.ledger)
