"""Public room: private item effects; a user's own offset and leanings are computed locally. Binary: private popularity.

Paper: McSherry and Mironov 2009, section 4 (a global mean, then item averages). Deviates: the damping follows from the
known noise and from posted variances; user offsets are never posted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowkey.data.domain import Domain
from lowkey.kernels.bias import ItemCounts
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import not_negative, positive, whole
from lowkey.methods.curator import Curator
from lowkey.methods.leanings import leaning
from lowkey.methods.means import ROUNDS, ask_means, means_requests
from lowkey.privacy.plan import Request


@dataclass(frozen=True, kw_only=True)
class BiasSettings(Settings):
    n_iter: int
    residual_bound: float | None  # None: the posted spread of ratings around their user's mean
    offset_reg: float | None  # None: the ratio of the posted variances

    def told(self) -> dict[str, Any]:
        return {} if self.residual_bound is None else {"residual_bound": self.residual_bound}


@dataclass(eq=False, repr=False)
class DPBias(Recommender):
    """rating = level + item effect + user offset + leanings; level and effects are private, the rest is the user's own.

    A user may lean to what is liked and to what is taken often, more or less than others do: both are known of the items.
    ``n_iter`` posts of item means, the later ones around what the earlier ones found. ``residual_bound`` bounds the root
    mean square of one user's residuals and ``offset_reg`` damps offsets; by default both follow from the posted spread.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    n_iter : int
        How many posts of item means share the budget.
    residual_bound : float, optional
        On the root mean square of one user's residuals, in stars.
    offset_reg : float, optional
        Ridge of a user's own offset: as many ratings of the average user.

    Examples
    --------
    >>> model = lk.DPBias(epsilon=1.0, delta=1e-6).fit(ratings)  # doctest: +SKIP
    >>> model.predict({"film 7": 4.5}, ["film 9"])  # doctest: +SKIP
    """

    uses_public = True
    constraints = {"n_iter": whole(), "residual_bound": positive(), "offset_reg": not_negative()}

    n_iter: int = ROUNDS
    residual_bound: float | None = None
    offset_reg: float | None = None

    def _settings(self, domain: Domain, budget: Budget) -> BiasSettings:
        return BiasSettings(
            domain=domain,
            budget=budget,
            n_iter=self.n_iter,
            residual_bound=None if domain.rating_range is None else self.residual_bound,
            offset_reg=self.offset_reg,
        )

    def _requests(self, settings: BiasSettings) -> list[Request]:
        if settings.domain.rating_range is None:
            return [Request("item_counts", settings.n_items, 1.0)]
        return means_requests(settings, 1.0, settings.n_iter)

    def _run(self, settings: BiasSettings, curator: Curator) -> Released:
        if settings.domain.rating_range is None:
            return popularity(curator.ask(ItemCounts(settings.n_items))["item_counts"])
        means = ask_means(settings, curator, settings.n_iter, settings.residual_bound, settings.offset_reg)
        damping = means.offset_reg if settings.offset_reg is None else settings.offset_reg
        return leaning(settings, means, damping)


class Popularity(Recommender):
    """The non-private baseline that recommends what most users have, whatever the feedback.

    Examples
    --------
    >>> lk.Popularity().fit(ratings).recommend({}, n=10)  # doctest: +SKIP
    """

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
    return biases(np.array(counts), 0.0, None, None)


def biases(item_bias: np.ndarray, center: float, offset_reg: float | None, limits: list[float] | None) -> Released:
    arrays = {"item_bias": item_bias, "item_factors": np.zeros((len(item_bias), 0))}
    settings = {"center": center, "offset_reg": offset_reg, "reg": 1.0, "rating_range": limits}
    return Released("factors", arrays, settings)
