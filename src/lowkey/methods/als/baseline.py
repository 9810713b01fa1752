"""Public room: the non-private ceiling of ``DPALS``: its ridges are those under which left-out ratings are predicted best.

Its posts are exact, and it has no guarantee. For ratings it begins where ``Bias`` ends, and a fifth of the users tries
what the others have fitted: without factors, where these do not help.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.kernels.left_out import LeftOutRows, OfSome
from lowkey.kernels.sweep import Sweep
from lowkey.methods.als.items import Items
from lowkey.methods.als.method import DPALS, released
from lowkey.methods.als.settings import ALSSettings
from lowkey.methods.base import Budget, Released
from lowkey.methods.bias.baseline import Effects, exact_effects, pairs_of_ridges
from lowkey.methods.curator import Curator, Posts
from lowkey.methods.leanings import ranked
from lowkey.privacy.plan import Request

PARTS = 5  # of the users: one of them tries
TURNS = 3  # of items and users, before the rounds
TRIED_ROUNDS = 5
STEP, TRIES = 4.0, 6  # between ridges of items, and how many of them are tried at most
MARGIN = 2.0  # over the root of the ratings left out: factors must make squared errors smaller by this share of them
SERVING = tuple(2.0**power for power in range(-10, 5))  # times the ridge in training

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class CeilingSettings(ALSSettings):
    tries: int  # ridges of items; 0: all ridges are given

    @property
    def serving_regs(self) -> Array:
        return np.array([self.user_reg * times for times in SERVING] if self.learns_user_reg else [self.serving_reg])

    @property
    def pairs(self) -> Array:
        """Ridges of item effects and of offsets."""
        return pairs_of_ridges(self.offset_reg)


class ALS(DPALS):
    """The non-private baseline of ``DPALS``: the same code without noise.

    Ratings: every one at equal weight, and users so well inside the ball that hardly one is clipped. Ridges that are not
    given are chosen by ratings that are left out, of users who were not trained on.

    Parameters
    ----------
    rank, n_iter, reg, user_reg, init_seed
        As in ``DPALS``.
    unobserved_weight : float
        What a binary cell without an entry counts.
    offset_reg : float, optional
        The ridge of a user's own offset, in place of the best one.

    Examples
    --------
    >>> lk.ALS(rank=16).fit(ratings).predict({"film 7": 4.5}, ["film 9"])  # doctest: +SKIP
    """

    private = False

    def __init__(
        self,
        rank: int | None = None,
        n_iter: int = 10,
        reg: float | None = None,
        user_reg: float | None = None,
        unobserved_weight: float = 0.1,
        offset_reg: float | None = None,
        init_seed: int = 0,
    ) -> None:
        super().__init__(rank=rank, n_iter=n_iter, reg=reg, user_reg=user_reg, init_seed=init_seed)
        self.unobserved_weight = unobserved_weight
        self.offset_reg = offset_reg

    def _settings(self, domain: Domain, budget: Budget) -> ALSSettings:
        settings = replace(super()._settings(domain, budget), head=1.0)
        if domain.rating_range is None:
            return replace(settings, unobserved_weight=self.unobserved_weight)
        settings = replace(
            settings,
            fill=0.3,
            max_ratings=domain.n_items,  # all of them, equally
            row_bound=2.0 * settings.spread,
            offset_reg=self.offset_reg,
        )
        tries = TRIES if settings.learns_reg else int(settings.learns_user_reg)
        return CeilingSettings(**{f.name: getattr(settings, f.name) for f in fields(settings) if f.init}, tries=tries)

    def _requests(self, settings: ALSSettings) -> list[Request]:
        if not isinstance(settings, CeilingSettings):
            return super()._requests(settings)
        alone, tries = _rounds_alone(settings), settings.tries
        tried = min(settings.n_iter, TRIED_ROUNDS)
        found = [Request("item_means", 2 * settings.n_items, 1.0, (TURNS + 1) * (2 if tries else 1))]
        found.append(Request("left_out", len(settings.pairs), 1.0, TURNS * (2 if tries else 1)))
        if tries:
            found.append(Request("left_out_rows", len(settings.serving_regs), 1.0, 1 + tries))
        for request in super()._requests(alone):
            t = int(request.name.rsplit("_", 1)[1])
            found.append(replace(request, times=1 + tries * (t < tried)))
        return found

    def _run(self, settings: ALSSettings, curator: Curator) -> Released:
        if not isinstance(settings, CeilingSettings):
            return super()._run(settings, curator)
        found = exact_effects(settings, curator, TURNS, settings.pairs)
        alone = replace(_rounds_alone(settings), offset_reg=found.offset_reg)
        helps = True
        if settings.tries:
            alone, helps = self._chosen(alone, settings, found, curator)
        factors = self._rounds(alone, _items(found), curator).factors
        return ranked(released(alone, _items(found), factors * helps), found.counts, found.error)

    def _chosen(
        self, alone: ALSSettings, settings: CeilingSettings, found: Effects, curator: Curator
    ) -> tuple[ALSSettings, bool]:
        """Settings with the best ridges, and whether factors help at all. Ridges of items are walked along."""
        trained = _OfSome(curator, tuple(range(1, PARTS)))
        others = _OfSome(curator, (0,))
        effects = exact_effects(settings, trained, TURNS, np.array([[found.item_reg, found.offset_reg]]))
        n_trained, n_ratings = float(effects.counts.sum()), max(float(found.counts.sum()), 1.0)
        share, margin = n_trained / n_ratings, MARGIN / math.sqrt(max(n_ratings - n_trained, 1.0))
        prior, cap = effects.center + effects.effects, (2.0 * settings.spread) ** 2

        def errors(reg: float) -> Array:
            tried = replace(alone, reg=share * reg, n_iter=min(alone.n_iter, TRIED_ROUNDS))
            factors = self._rounds(tried, _items(effects), trained).factors
            return others.ask(LeftOutRows(prior, factors, found.offset_reg, settings.serving_regs, cap))["left_out_rows"]

        nothing = np.zeros((settings.n_items, 0))
        without = LeftOutRows(prior, nothing, found.offset_reg, np.ones(1), cap)
        least = float(others.ask(without)["left_out_rows"][0])
        # Two ridges are a penalty on singular values (``noise_reg``), and ratings' own noise has singular values, too.
        noise = found.error * n_ratings / settings.n_items
        usual = max(noise / settings.user_reg / math.sqrt(settings.n_items), 1e-9)
        reg_at = lambda power: usual * STEP**power if settings.learns_reg else settings.reg
        power, tried = _downhill(lambda power: errors(reg_at(power)), settings.tries)
        serving_reg = float(settings.serving_regs[np.argmin(tried)])
        return replace(alone, reg=reg_at(power), serving_reg=serving_reg), bool(tried.min() < (1.0 - margin) * least)


def _downhill(errors: Callable[[int], Array], tries: int) -> tuple[int, Array]:
    """From 0 or 1 on as far as the least error falls: where that is, and the errors there."""
    tried = {power: errors(power) for power in range(min(tries, 2))}
    lowest = lambda: min(tried, key=lambda power: tried[power].min())
    step = 1 if lowest() == 1 else -1
    while len(tried) < tries and (power := lowest() + step) not in tried:
        tried[power] = errors(power)
    return lowest(), tried[lowest()]


class _OfSome(Curator):
    """Of a part of the users."""

    def __init__(self, curator: Curator, shares: tuple[int, ...]) -> None:
        self._of_all, self._shares = curator, shares
        self.billboard = curator.billboard

    def ask(self, sweep: Sweep, local: None = None) -> Posts:
        return self._of_all.ask(OfSome(sweep, self._shares, PARTS), local)


def _rounds_alone(settings: CeilingSettings) -> ALSSettings:
    """What the rounds of ``DPALS`` are told: nothing follows the posts."""
    return replace(settings, bias_share=0.0, learns_reg=False, learns_user_reg=False)


def _items(found: Effects) -> Items:
    everywhere = np.ones(len(found.effects))
    return Items(found.center, found.effects, found.counts, everywhere, np.arange(len(everywhere)))
