"""Public room: the non-private ceiling of ``DPBias``: a mean, item effects and offsets, with two ridges chosen by what
ratings say of ratings left out. Its posts are exact, and it has no guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from lowkey.data.domain import Domain
from lowkey.kernels.bias import ItemCounts, ItemMeans
from lowkey.kernels.leave_one_out import LeaveOneOut
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.bias.method import biases, popularity
from lowkey.methods.constraints import not_negative, whole
from lowkey.methods.curator import Curator
from lowkey.privacy.plan import Request

ITEM_REGS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
OFFSET_REGS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
FIRST_REG = 5.0


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(Settings):
    n_iter: int
    offset_reg: float | None  # None: chosen

    @property
    def ridges(self) -> np.ndarray:
        """All pairs that are tried, (k, 2): of items, of offsets."""
        offsets = OFFSET_REGS if self.offset_reg is None else (self.offset_reg,)
        return np.array(list(product(ITEM_REGS, offsets)))


class Bias(Recommender):
    """The non-private baseline: global mean, item effects and user offsets, each with its ridge.

    The ridges are those under which ratings that are left out, one by one, are predicted best.

    Parameters
    ----------
    n_iter : int
        Rounds, in each of which items and users are fitted in turn.
    offset_reg : float, optional
        The ridge of offsets, in place of the best one.

    Examples
    --------
    >>> lk.Bias().fit(ratings).predict({"film 7": 4.5}, ["film 9"])  # doctest: +SKIP
    """

    private = False
    constraints = {"n_iter": whole(), "offset_reg": not_negative()}

    def __init__(self, n_iter: int = 5, offset_reg: float | None = None) -> None:
        self.epsilon = self.delta = None
        self.adjacency = "add-remove"
        self.n_iter = n_iter
        self.offset_reg = offset_reg

    def _settings(self, domain: Domain, budget: Budget) -> BaselineSettings:
        return BaselineSettings(domain=domain, budget=budget, n_iter=self.n_iter, offset_reg=self.offset_reg)

    def _requests(self, settings: BaselineSettings) -> list[Request]:
        if settings.domain.rating_range is None:
            return [Request("item_counts", settings.n_items, 1.0)]
        return [
            Request("item_means", 2 * settings.n_items, 1.0, settings.n_iter + 1),
            Request("left_out", len(settings.ridges), 1.0, settings.n_iter),
        ]

    def _run(self, settings: BaselineSettings, curator: Curator) -> Released:
        if settings.domain.rating_range is None:
            return popularity(curator.ask(ItemCounts(settings.n_items))["item_counts"])
        center, effects, offset_reg = settings.center, np.zeros(settings.n_items), np.inf
        totals, counts = _ask_totals(settings, center, effects, offset_reg, curator)
        center += float(totals.sum()) / max(float(counts.sum()), 1.0)
        offset_reg = FIRST_REG if settings.offset_reg is None else settings.offset_reg
        for _ in range(settings.n_iter):
            prior, cap = center + effects, (2.0 * settings.spread) ** 2
            totals, counts = _ask_totals(settings, center, effects, offset_reg, curator)
            sweep = LeaveOneOut(center, totals, counts, prior, offset_reg, settings.ridges, cap)
            item_reg, offset_reg = map(float, settings.ridges[np.argmin(curator.ask(sweep)["left_out"])])
            effects = totals / (counts + item_reg)
        return biases(effects, center, offset_reg, list(settings.limits))


def _ask_totals(
    settings: Settings, center: float, effects: np.ndarray, offset_reg: float, curator: Curator
) -> tuple[np.ndarray, np.ndarray]:
    """Per item, the sum of ratings less ``center`` and the users' offsets, and the number of ratings: all weigh alike."""
    unit, scale = 2.0 * settings.spread, np.sqrt(settings.n_items)
    sweep = ItemMeans(center + effects, unit, offset_reg, least_ratings=settings.n_items)
    sums, counts = np.asarray(curator.ask(sweep)["item_means"]) * scale
    return unit * sums + counts * effects, counts
