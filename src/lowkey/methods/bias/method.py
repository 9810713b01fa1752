"""Public room: private item means, with a user's own offset computed locally; for binary feedback, private popularity.

Paper: McSherry and Mironov 2009, section 4 (item averages). Deviates: noise-aware damping instead of a fixed one; user
offsets are never posted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowkey.data.domain import Domain
from lowkey.kernels.bias import ItemCounts, ItemMeans
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import not_negative, positive, whole
from lowkey.methods.curator import Curator
from lowkey.methods.means import damped_means
from lowkey.privacy.plan import Request


@dataclass(frozen=True, kw_only=True)
class BiasSettings(Settings):
    n_iter: int
    residual_bound: float | None  # None: binary feedback
    offset_reg: float

    def told(self) -> dict[str, Any]:
        return {} if self.residual_bound is None else {"residual_bound": self.residual_bound}


class DPBias(Recommender):
    """rating = center + item bias + user offset; the item biases are private, the offset is the user's own.

    ``n_iter`` posts: each takes the item means of what the ones before leave over. ``residual_bound`` bounds the root
    mean square of one user's residuals; by default a quarter of the rating range, as stars are rarely spread wider.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    n_iter : int
        How many posts share the budget.
    residual_bound : float, optional
        On the root mean square of one user's residuals, in stars.
    offset_reg : float
        Ridge of a user's own offset: as many ratings of the average user.

    Examples
    --------
    >>> model = lk.DPBias(epsilon=1.0, delta=1e-6).fit(ratings)  # doctest: +SKIP
    >>> model.predict({"film 7": 4.5}, ["film 9"])  # doctest: +SKIP
    """

    constraints = {"n_iter": whole(), "residual_bound": positive(), "offset_reg": not_negative()}

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

    def _settings(self, domain: Domain, budget: Budget) -> BiasSettings:
        bound = self._residual_bound(*domain.rating_range) if domain.rating_range is not None else None
        return BiasSettings(
            domain=domain, budget=budget, n_iter=self.n_iter, residual_bound=bound, offset_reg=self.offset_reg
        )

    def _residual_bound(self, low: float, high: float) -> float:
        return self.residual_bound if self.residual_bound is not None else (high - low) / 4.0

    def _requests(self, settings: BiasSettings) -> list[Request]:
        if settings.residual_bound is None:
            return [Request("item_counts", settings.n_items, 1.0)]
        note = "sums and counts, bounded jointly"
        return [Request("item_means", 2 * settings.n_items, 1.0, times=settings.n_iter, note=note)]

    def _run(self, settings: BiasSettings, curator: Curator) -> Released:
        if settings.residual_bound is None:
            return popularity(curator.ask(ItemCounts(settings.n_items))["item_counts"])
        bound, item_bias = settings.residual_bound, np.zeros(settings.n_items)
        # Stars spread about a quarter of their range around what is expected; a weighted count of c (weights below 1)
        # stands for more than c ratings, so half of that.
        variance = (settings.spread / 4.0 / 2.0) ** 2
        for _ in range(settings.n_iter):
            posts = curator.ask(ItemMeans(settings.center + item_bias, bound, settings.offset_reg))
            (totals, counts), std = posts["item_means"], posts.stds["item_means"]
            item_bias = item_bias + damped_means(bound * totals, counts, bound * std, std, variance)
        return _biases(item_bias, settings.center, settings.offset_reg, list(settings.limits))


class Bias(DPBias):
    """The non-private baseline of ``DPBias``: the same code, without noise and without a guarantee."""

    private = False

    def __init__(self, n_iter: int = 4, offset_reg: float = 5.0) -> None:
        super().__init__(n_iter=n_iter, residual_bound=None, offset_reg=offset_reg)

    def _residual_bound(self, low: float, high: float) -> float:
        return high - low


class Popularity(Recommender):
    """The non-private baseline that recommends what most users have, whatever the feedback."""

    private = False

    def __init__(self) -> None:
        self.epsilon = self.delta = None
        self.adjacency = "add-remove"

    def _settings(self, domain: Domain, budget: Budget) -> Settings:
        return Settings(domain=domain, budget=budget)

    def _requests(self, settings: Settings) -> list[Request]:
        return [Request("item_counts", settings.n_items, 1.0)]

    def _run(self, settings: Settings, curator: Curator) -> Released:
        return popularity(curator.ask(ItemCounts(settings.n_items))["item_counts"])


def popularity(counts: np.ndarray) -> Released:
    """Items ranked by how many users have them, whatever the history."""
    return _biases(np.array(counts), 0.0, None, None)


def _biases(item_bias: np.ndarray, center: float, offset_reg: float | None, limits: list[float] | None) -> Released:
    arrays = {"item_bias": item_bias, "item_factors": np.zeros((len(item_bias), 0))}
    return Released("factors", arrays, {"center": center, "offset_reg": offset_reg, "reg": 1.0, "rating_range": limits})
