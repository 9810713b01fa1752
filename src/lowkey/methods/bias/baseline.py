"""Public room: the non-private ceiling of ``DPBias``: a mean, item effects and offsets, with two ridges chosen by what
ratings say of ratings left out. Its posts are exact, and it has no guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from lowkey.data.domain import Domain
from lowkey.kernels.bias import ItemCounts, ItemMeans
from lowkey.kernels.left_out import LeaveOneOut
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
        return pairs_of_ridges(self.offset_reg)


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
        found = exact_effects(settings, curator, settings.n_iter, settings.ridges)
        return biases(found.effects, found.center, found.offset_reg, list(settings.limits))


def pairs_of_ridges(offset_reg: float | None) -> np.ndarray:
    """All that are tried, (k, 2): of items, of offsets."""
    return np.array(list(product(ITEM_REGS, OFFSET_REGS if offset_reg is None else (offset_reg,))))


class Effects(NamedTuple):
    """A mean, item effects and the damping of offsets; ``error`` is the mean square of left-out ratings around them."""

    center: float
    effects: np.ndarray
    counts: np.ndarray
    item_reg: float
    offset_reg: float
    error: float


def exact_effects(settings: Settings, curator: Curator, n_iter: int, ridges: np.ndarray) -> Effects:
    """Items and users in turn, ``n_iter`` times, each time with the best pair of ``ridges``. Posts must be exact."""
    center, effects, offset_reg = settings.center, np.zeros(settings.n_items), np.inf
    totals, counts = _ask_totals(settings, center, effects, offset_reg, curator)
    center += float(totals.sum()) / max(float(counts.sum()), 1.0)
    item_reg, offset_reg, error = 0.0, min(ridges[:, 1], key=lambda reg: abs(reg - FIRST_REG)), 0.0
    for _ in range(n_iter):
        prior, cap = center + effects, (2.0 * settings.spread) ** 2
        totals, counts = _ask_totals(settings, center, effects, offset_reg, curator)
        sweep = LeaveOneOut(center, totals, counts, prior, offset_reg, ridges, cap)
        errors = curator.ask(sweep)["left_out"]
        best = int(np.argmin(errors))
        item_reg, offset_reg = map(float, ridges[best])
        error = cap * settings.n_items * float(errors[best]) / max(float(counts.sum()), 1.0)
        effects = totals / (counts + item_reg)
    return Effects(center, effects, counts, item_reg, offset_reg, error)


def _ask_totals(
    settings: Settings, center: float, effects: np.ndarray, offset_reg: float, curator: Curator
) -> tuple[np.ndarray, np.ndarray]:
    """Per item, the sum of ratings less ``center`` and the users' offsets, and the number of ratings: all weigh alike."""
    unit, scale = 2.0 * settings.spread, np.sqrt(settings.n_items)
    sweep = ItemMeans(center + effects, unit, offset_reg, least_ratings=settings.n_items)
    sums, counts = np.asarray(curator.ask(sweep)["item_means"]) * scale
    return unit * sums + counts * effects, counts
