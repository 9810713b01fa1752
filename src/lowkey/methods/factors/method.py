"""Public room: factors for ratings in rounds: bias first, then residual updates solved with the noise in mind.

Paper: ours (docs/factors.md), after Chien et al. 2021 (DPALS). Deviates: one second-moment matrix is shared by all items,
a user's whole contribution is clipped at once, and the items' side is a posterior mean in place of a ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.factors import EXTRA
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.base import Budget, Recommender, Released
from lowkey.methods.constraints import whole, within_catalogue, word
from lowkey.methods.curator import Curator
from lowkey.methods.factors.blup import Round, clean_moments, common_scale, posterior
from lowkey.methods.factors.bounds import Known, Scale, Seen
from lowkey.methods.factors.settings import (
    FactorsSettings,
    default_means_share,
    default_rank,
    default_rounds,
    default_start,
    worthwhile_rank,
)
from lowkey.methods.factors.side import Side
from lowkey.methods.factors.start import SHARES, STARTS, first_factors, start_requests
from lowkey.methods.factors.taken import TAKEN_SHARE, taken_map
from lowkey.methods.leanings import BESIDE_FACTORS, leaning, leanings, posted_leanings, ranked
from lowkey.methods.means import Means, ask_means, means_requests, refined
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

MOMENTS_SHARE = 0.05  # of mu^2
GROWTH = 1.5  # of a round's share over the one before: late rounds make the model, early ones only find the way
QUALITY = 0.7  # of an item's effect is expected in its bias: factors, which share it, find the rest with less noise
FAR = 2.0  # times the residuals' variance: a round that saw so much more saw other factors
LEAST = 3e-5  # of the rating range: no residual is looked at more closely

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class DPFactors(Recommender):
    """rating = center + item bias + user offset + item factor . user factor; the item side in ``n_iter`` noisy rounds.

    The last columns of ``item_factors_`` are what users lean to: what is liked, what is taken often, and public features.

    Nothing needs tuning: ``rank`` and ``n_iter`` follow from the noise level, bounds follow the posts, and what a ridge
    does elsewhere is done by the known noise. By default the rank also follows the posted crowd: where factors would cost
    more than they bring, everything goes into the item effects. ``start`` is "random", or "spectral" or "moments", which
    spend a part of the budget on a private start: by default for a small catalogue. All other numbers are in
    ``resolve(domain)``.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    rank, n_iter : int, optional
        Factors and rounds.
    start : {"random", "spectral", "moments"}, optional
        Where the item factors begin.
    init_seed : int
        Of the public random start; the noise has no seed.

    Examples
    --------
    >>> model = lk.DPFactors(epsilon=1.0, delta=1e-6).fit(ratings)  # doctest: +SKIP
    >>> model.item_factors_.shape  # doctest: +SKIP
    """

    uses_public = True
    constraints = {"rank": whole(), "n_iter": whole(), "start": word(*STARTS)}

    rank: int | None = None
    n_iter: int | None = None
    start: str | None = None
    init_seed: int = 0

    def _settings(self, domain: Domain, budget: Budget) -> FactorsSettings:
        if domain.rating_range is None:
            refuse("DPFactors", got="binary feedback", needed="ratings", try_="DPMoments")
        if self.rank is not None:
            within_catalogue("rank", self.rank, domain.n_items)
        start = default_start(domain, budget.signal) if self.start is None else self.start
        return FactorsSettings(
            domain=domain,
            budget=budget,
            rank=default_rank(domain, budget.signal) if self.rank is None else self.rank,
            follows=self.rank is None,
            n_iter=default_rounds(domain, budget.signal, start) if self.n_iter is None else self.n_iter,
            means_share=default_means_share(domain, budget.signal),
            start=start,
            start_share=SHARES[start],
        )

    def _informed(self, settings: FactorsSettings) -> FactorsSettings:
        """Directions that public people know need not be found: there is room for all of them."""
        most = min(max(settings.rank, settings.knowledge.rank), settings.n_items)
        return replace(settings, rank=most) if settings.follows else settings

    def _requests(self, settings: FactorsSettings) -> list[Request]:
        n_items, rank, n_iter = settings.n_items, settings.rank, settings.n_iter
        growth = GROWTH ** np.arange(n_iter)
        growth *= (1.0 - settings.means_share - MOMENTS_SHARE - TAKEN_SHARE) / growth.sum()
        return [
            *means_requests(settings, settings.means_share),
            *(Request(f"item_update_{t}", n_items * (rank + 1), float(share)) for t, share in enumerate(growth, 1)),
            *start_requests(settings),
            Request("user_moments", packed_length(rank + EXTRA), MOMENTS_SHARE, n_iter, mechanism=SymmetricGaussian),
            Request("taken", 2 * rank * rank, TAKEN_SHARE, note="how tastes go with what was taken"),
        ]

    def _run(self, settings: FactorsSettings, curator: Curator) -> Released:
        means = ask_means(settings, curator)
        rank = settings.rank
        if settings.follows:
            rank = worthwhile_rank(settings, means)
            if rank > 0 and means.public_trusted:
                rank = max(rank, min(settings.knowledge.rank, settings.rank))
        if rank == 0:
            return self._means_alone(settings, means, curator)
        return self._factors(replace(settings, rank=rank), means, curator)

    def _means_alone(self, settings: FactorsSettings, means: Means, curator: Curator) -> Released:
        """What was planned for factors, spent on item effects: the model has no factors."""
        for t in range(1, settings.n_iter + 1):
            means = refined(means, settings, curator, f"item_update_{t}")
        return leaning(settings, means, means.offset_reg)

    def _factors(self, settings: FactorsSettings, means: Means, curator: Curator) -> Released:
        spread, rank = settings.spread, settings.rank
        known = Known.of(means, settings.weight_power, settings.bias_weight)
        scale = Scale.of(means, rank, known.bias_square)
        shares, scales = known.shares, known.scales
        factors = first_factors(settings, self.init_seed, scale, known, means, curator)
        knowledge = settings.knowledge if means.public_trusted else replace(settings.knowledge, fit=None)
        lean = posted_leanings(means.effects, means.counts, means.residual_variance)
        side = Side.of(knowledge, factors, known.counts, lean)
        # Public people's factors are those of users around the average one, so all of an effect is in their biases.
        bias = means.effects if knowledge.fit is not None else QUALITY * means.effects
        coefficients, middle, size = np.column_stack([bias, side.start]), np.zeros(rank), 1.0
        rounds: list[tuple[float, Round]] = []  # with the residuals' variance that each saw
        # Early rounds only look for directions. Public people know them from the start: there, all count.
        last = settings.averaged if knowledge.fit is None else settings.n_iter
        for t in range(settings.n_iter):
            sweep = scale.sweep(t + 1, known, coefficients)
            posts = curator.ask(sweep)
            std = posts.stds["user_moments"]
            seen = Seen.of(clean_moments(unpack(posts["user_moments"]), std, rank), std, sweep, known.bias_square)
            noise = (posts.stds[sweep.update] if settings.noise_aware else 0.0, seen.sampling)
            update = posts[sweep.update] / np.column_stack([scales, np.ones((len(scales), rank))])
            targets = shares[:, None] * (coefficients @ seen.regressors) + update
            latest = Round.of(shares, targets, seen.regressors, scales, *noise)
            near = [r for r in rounds if t > settings.n_iter - last and r[0] < FAR * seen.variance]
            rounds = [*near, (seen.variance, latest)]
            found = posterior([r for _, r in rounds], bias, means.variances, side)
            change = side.gentle(common_scale(found.spread, seen.factors, seen.ratings, seen.variance))
            rounds, side = [(saw, r.turned(change)) for saw, r in rounds], side.turned(change)
            coefficients = within(np.column_stack([found.means[:, 0], found.means[:, 1:] @ change.T]), spread)
            size = seen.norm**2 - seen.bias_square
            middle = np.linalg.solve(change.T, seen.regressors[0, 1:] / seen.regressors[0, 0])
            clear = seen.clear(shares, posts.stds[sweep.update])
            scale = scale.next(seen, clear, LEAST * spread, falling_bound=settings.falling_bound)
        # The average user is who says nothing.
        coefficients[:, 0] = means.leveled(coefficients[:, 0] + coefficients[:, 1:] @ middle, scale.variance)
        coefficients = np.hstack([coefficients, leanings(means, settings.knowledge, BESIDE_FACTORS)])
        fitted = {
            "center": means.center,
            "rating_range": list(settings.limits),
            "offset_reg": scale.variance / scale.offset_variance,
            "reg": scale.variance,
            **settings.knowledge.item_map(coefficients, known.counts),
        }
        arrays = {"item_bias": coefficients[:, 0].copy(), "item_factors": coefficients[:, 1:].copy()}
        arrays |= taken_map(arrays, fitted, (rank, size), shares, curator)
        return ranked(Released("factors", arrays, fitted), means.counts.means, scale.variance)


def within(coefficients: Array, spread: float) -> Array:
    """No bias and no factor is larger than the rating range, however wild a post was: the next round starts from here."""
    kept = np.nan_to_num(coefficients, posinf=0.0, neginf=0.0)
    kept[:, 0] = np.clip(kept[:, 0], -spread, spread)
    kept[:, 1:] *= np.minimum(1.0, spread / np.maximum(np.linalg.norm(kept[:, 1:], axis=1), 1e-30))[:, None]
    return kept
