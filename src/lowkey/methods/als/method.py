"""Public room: private alternating least squares: users solve locally, items solve noisy normal equations.

Paper: DPALS (Chien et al. 2021), Algorithm 1; weights of Krichene et al. 2023. Deviates: item biases first; the item's
ridge follows the known noise; the scale of the items follows the posted Gram matrices; ``docs/dpals.md``, (a) to (h).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.kernels.als import ItemEquations
from lowkey.linalg.packed import packed_length, unpack
from lowkey.linalg.psd import positive_part
from lowkey.methods.als.items import Items, ask_items, orthogonal_columns, random_start
from lowkey.methods.als.noisy_ridge import Equations, noise_aware_ridge
from lowkey.methods.als.settings import MOST_MISFIT, ALSSettings, default_settings, noise_reg, user_regs, usual_misfit
from lowkey.methods.base import Budget, Recommender, Released
from lowkey.methods.constraints import not_negative, positive, share, whole, within_catalogue, word
from lowkey.methods.curator import Curator
from lowkey.methods.leanings import ranked
from lowkey.methods.means import means_requests
from lowkey.methods.starts import binary_start_factors, binary_start_request, start_factors, start_request
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

Array = NDArray[np.float64]
MISFIT_SHARE = 0.004  # of the budget, per round: two numbers
USERS_SHARE = 0.02  # of a round's budget, for the users' one Gram matrix
START_SCALE = 1e3  # random factors this small: every user is clipped, and counts with a unit vector


class Round(NamedTuple):
    """What a round found: the items' factors, the trace of all Gram matrices, and the users' misfit if it was posted."""

    factors: Array
    trace: float
    misfit: float | None


class Fitted(NamedTuple):
    """What the rounds leave: settings with what they have learnt, and the factors."""

    settings: ALSSettings
    factors: Array


@dataclass(eq=False, repr=False)
class DPALS(Recommender):
    """Factors by alternating least squares; ratings and binary feedback.

    Each round posts every item's Gram matrix and right-hand side. A user's ratings are weighted by a negative power of the
    posted item counts, scaled to norm 1. All other numbers of a fit are in ``resolve(domain)``.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    rank, n_iter : int, optional
        Factors and rounds.
    reg, user_reg : float, optional
        Ridges of the items' and of the users' solves; left out, those for ratings follow the posts.
    max_ratings : int, optional
        Only the rarest so many of a user's ratings count, equally.
    residual_bound : float, optional
        On a user's weighted root mean square residual, in stars.
    head : float, optional
        Binary feedback: the share of the catalogue, by posted count, that gets factors.
    start : {"random", "spectral"}, optional
        Where the item factors begin; "spectral", the default for binary feedback, spends a part of the budget.
    init_seed : int
        Of the public random start; the noise has no seed.

    Examples
    --------
    >>> model = lk.DPALS(epsilon=1.0, delta=1e-6, rank=32, max_ratings=50).fit(ratings)  # doctest: +SKIP
    >>> print(model.guarantee_)  # doctest: +SKIP
    """

    constraints = {
        "rank": whole(),
        "n_iter": whole(),
        "reg": positive(),
        "user_reg": positive(),
        "max_ratings": whole(),
        "residual_bound": positive(),
        "head": share(one=True),
        "start": word("random", "spectral"),
        "unobserved_weight": not_negative(),
        "offset_reg": not_negative(),
    }

    rank: int | None = None
    n_iter: int | None = None
    reg: float | None = None
    user_reg: float | None = None
    max_ratings: int | None = None
    residual_bound: float | None = None
    head: float | None = None
    start: str | None = None
    init_seed: int = 0

    def _settings(self, domain: Domain, budget: Budget) -> ALSSettings:
        if self.rank is not None:
            within_catalogue("rank", self.rank, domain.n_items)
        usual = default_settings(domain, budget, self.start)
        names = ("rank", "n_iter", "reg", "user_reg", "max_ratings", "head")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.residual_bound is not None and domain.rating_range is not None:
            given["row_bound"] = self.residual_bound
        if "reg" in given:
            given["learns_reg"] = False
        if "user_reg" in given:
            given |= {"serving_reg": usual.serving_reg / usual.user_reg * given["user_reg"], "learns_user_reg": False}
        return replace(usual, **given)

    def _requests(self, settings: ALSSettings) -> list[Request]:
        n_items, rank, triangle = settings.n_items, settings.rank, packed_length(settings.rank)
        requests: list[Request] = []
        if settings.bias_share > 0.0:
            if settings.domain.rating_range is None:
                requests.append(Request("item_counts", n_items, settings.bias_share))
            else:
                requests += means_requests(settings, settings.bias_share, 1)
        requests += _start_requests(settings)
        if settings.learns_user_reg:
            requests += [Request(f"misfit_{t}", 2, MISFIT_SHARE) for t in range(1, settings.n_iter)]
        growth = settings.growth ** np.arange(settings.n_iter)
        users_share = USERS_SHARE if settings.unobserved_weight > 0.0 else 0.0
        for t, share_of_round in enumerate((1.0 - settings.bias_share) * growth / growth.sum()):
            of_items = float(share_of_round) * (1.0 - users_share)
            note = "" if t else "packed triangles, one per item"
            gram_share = of_items * settings.gram_share
            requests.append(Request(f"item_gram_{t}", n_items * triangle, gram_share, 1, SymmetricGaussian, note))
            requests.append(Request(f"item_rhs_{t}", n_items * rank, of_items - gram_share))
            if users_share:
                of_users = float(share_of_round) * users_share
                requests.append(Request(f"user_gram_{t}", triangle, of_users, mechanism=SymmetricGaussian))
        return requests

    def _run(self, settings: ALSSettings, curator: Curator) -> Released:
        items = ask_items(settings, curator)
        found = self._rounds(settings, items, curator)
        return released(found.settings, items, found.factors)

    def _rounds(self, settings: ALSSettings, items: Items, curator: Curator) -> Fitted:
        usual, factors = settings, self._start(settings, items, curator)
        scale, mass = START_SCALE, 1.0
        for t in range(settings.n_iter):
            found = self._round(t, scale, factors, settings, items, curator)
            factors = found.factors * items.active[:, None]
            if t == 0:  # every user had norm 1, so the traces add up to the weights
                scale, mass = 1.0, max(found.trace, 1e-9)
                settings = _knowing(mass, settings)
            else:  # users' norms should fill the ball: their mean square is what the trace has become
                size = min(max(math.sqrt(max(found.trace, 0.0) / mass), 0.05), 1.0)
                if found.misfit is not None:
                    settings = replace(settings, **user_regs(settings.domain, usual, found.misfit, scale / size))
                factors *= scale
                scale *= settings.fill / size
        return Fitted(settings, factors)

    def _start(self, settings: ALSSettings, items: Items, curator: Curator) -> Array:
        if settings.start == "random":
            return random_start(settings, items, self.init_seed)
        if settings.domain.rating_range is None:
            return binary_start_factors(settings.rank, items.active, items.counts, curator)
        bounds = (settings.row_bound, settings.offset_reg, settings.rank)
        return start_factors(items.center + items.bias, items.weights, items.counts, *bounds, curator)

    def _round(self, t: int, scale: float, factors: Array, settings: ALSSettings, items: Items, curator: Curator) -> Round:
        """One pass, its posts, and the items' solve."""
        # A random start says nothing of the pairs that were not observed.
        unobserved = settings.unobserved_weight * (1e-6 if t == 0 and settings.start == "random" else 1.0)
        sweep = ItemEquations(
            round=t,
            prior=items.center + items.bias,
            item_weights=items.weights,
            rarity=items.rarity,
            # An orthogonal change of basis, free: the columns become orthogonal.
            item_factors=orthogonal_columns(factors / scale),
            row_bound=settings.row_bound,
            offset_reg=settings.offset_reg,
            user_reg=(settings.user_reg if t else settings.first_user_reg) / scale**2,
            unobserved_weight=unobserved,
            user_gram_scale=items.user_gram_scale,
            max_ratings=settings.max_ratings,
            misfit_bound=MOST_MISFIT * usual_misfit(settings.domain) if t and settings.learns_user_reg else 0.0,
        )
        posts = curator.ask(sweep)
        gram, rhs, users, misfit = sweep.names
        shared, shared_weights = None, None
        if unobserved > 0.0:
            shared = positive_part(unpack(posts[users]))
            shared *= settings.item_reg_share * settings.unobserved_weight
            # In the sum of s_u c_j ((1 - u.v)^2 if observed + weight (u.v)^2) the posted matrix is that of c_ref s_u.
            shared_weights = items.weights / sweep.user_gram_scale
        noise = (posts.stds[gram], posts.stds[rhs])
        equations = Equations(posts[gram], posts[rhs], *noise, shared, shared_weights, items.active)
        reg = settings.reg * (scale**2 if t else 1.0)
        ridge = noise_aware_ridge(equations, reg, settings.noise_ridge)
        said = None
        if sweep.misfit_bound > 0.0:
            total, count = posts[misfit]
            said = MOST_MISFIT * min(max(total / max(count, 1.0), 2.5e-5), 1.0)
        return Round(equations.solve(ridge), float(equations.traces().sum()), said)


def _start_requests(settings: ALSSettings) -> list[Request]:
    if settings.start == "random":
        return []
    if settings.domain.rating_range is None:
        head = settings.head_size if settings.bias_share > 0.0 else settings.n_items  # by posted count
        return [binary_start_request(head, settings.start_share)]
    return [start_request(settings.n_items, settings.start_share)]


def _knowing(mass: float, settings: ALSSettings) -> ALSSettings:
    """The settings from the first round on, when the total weight of all ratings is known."""
    if not settings.learns_reg:
        return settings
    reg = settings.reg_per_noise * noise_reg(settings.domain, mass, settings.user_reg)
    return replace(settings, reg=min(reg, settings.reg))


def released(settings: ALSSettings, items: Items, factors: Array) -> Released:
    limits = settings.domain.rating_range
    fitted = {
        "center": items.center,
        "offset_reg": settings.offset_reg,
        "reg": settings.serving_reg,
        "rating_range": None if limits is None else list(limits),
    }
    if limits is None:
        fitted["unobserved_weight"] = settings.serving_weight
    released = Released("factors", {"item_bias": items.bias, "item_factors": factors}, fitted)
    if items.means is None:
        return released
    return ranked(released, items.means.counts.means, items.means.residual_variance)
