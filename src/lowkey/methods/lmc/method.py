"""Public room: DPLMC: private projected gradient descent on users' and items' rows, from a private or random start.

Paper: Wang, Zhao and Kolar 2023, Algorithms 1 and 2, section 6. Deviates: ``docs/dplmc.md``; noise is calibrated exactly
and jointly for start and descent; p is public or posted; the start is projected; the step follows the posted matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.lmc import GradientRound, RowStart, RowStep
from lowkey.kernels.spectral_start import StartGram
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.base import Budget, Recommender, Released
from lowkey.methods.constraints import positive, share, whole, within_catalogue, word
from lowkey.methods.curator import Curator
from lowkey.methods.factors.settings import default_rank
from lowkey.methods.leanings import ranked
from lowkey.methods.lmc.settings import LENGTHS, SPECTRAL_ITEMS, USUAL_RANK, Crowd, LMCSettings, ask_crowd, usual_norm
from lowkey.methods.means import ask_means, means_requests
from lowkey.methods.rows import need_ratings
from lowkey.methods.starts import spectral_start, start_request
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Plan, Request

Array = NDArray[np.float64]
DENSITY_SHARE = 0.02  # of mu^2: two numbers against matrices
RESIDUAL_STD = 0.17  # of the rating range: a rating around the model
RANDOM_LENGTH = 0.25  # of a random start's rows, in units of their bound


@dataclass(eq=False, repr=False)
class DPLMC(Recommender):
    """Low-rank factors by ``n_iter`` noisy gradient steps; users keep their own row, items' rows are posted.

    Every round posts the users' Gram matrix (for the balance of the two sides) and the items' gradient. Bounds are
    public, in units in which both sides' rows are alike in length. All other numbers are in ``resolve(domain)``.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    rank : int, optional
        Factors; by default from the noise level, as in ``DPFactors``.
    n_iter : int
        Rounds.
    step : float
        In units of 1/(largest eigenvalue of either side).
    user_norm, residual_norm : float, optional
        Bounds on a user's row and on a user's row of residuals (the paper's alpha_1 and G); by default from the rating
        range, the latter also from the posted density.
    start : {"auto", "private", "random"}
        "private" spends a part of the budget on a spectral start; "auto" does so up to 1,000 items.
    density : float, optional
        The share of all cells that is rated, if public; by default it is posted, with the number of users.
    reg : float, optional
        The ridge of a user's side when the model is used: the variance of a rating around the model.
    init_seed : int
        Of the public random start; the noise has no seed.

    Examples
    --------
    >>> model = lk.DPLMC(epsilon=4.0, delta=1e-6, rank=8).fit(ratings)  # doctest: +SKIP
    >>> model.predict({"film 7": 4.5}, ["film 9"])  # doctest: +SKIP
    """

    constraints = {
        "rank": whole(),
        "n_iter": whole(),
        "step": positive(),
        "user_norm": positive(),
        "residual_norm": positive(),
        "start": word("auto", "private", "random"),
        "density": share(one=True),
        "reg": positive(),
    }

    rank: int | None = None
    n_iter: int = 15
    step: float = 0.5
    user_norm: float | None = None
    residual_norm: float | None = None
    start: str = "auto"
    density: float | None = None
    reg: float | None = None
    init_seed: int = 0

    def _settings(self, domain: Domain, budget: Budget) -> LMCSettings:
        low, high = need_ratings(type(self).__name__, domain)
        if self.rank is not None:
            within_catalogue("rank", self.rank, domain.n_items)
        if self.density is not None and domain.expected_users is None:
            refuse(
                "density",
                got=f"{self.density!r} and no expected_users",
                needed="a share of all cells, and how many users to expect: both public, or neither",
                try_="leaving density out: it is posted, with the number of users",
            )
        rank = self.rank
        if rank is None:
            most = USUAL_RANK if domain.expected_users is None else domain.n_items
            rank = min(default_rank(domain, budget.signal), most)
        usual = usual_norm(high - low, rank)
        return LMCSettings(
            domain=domain,
            budget=budget,
            rank=rank,
            n_iter=self.n_iter,
            step=self.step,
            user_norm=usual if self.user_norm is None else self.user_norm,
            item_norm=usual,
            residual_norm=self.residual_norm,
            private_start=self.start == "private" or (self.start == "auto" and domain.n_items <= SPECTRAL_ITEMS),
            density=self.density,
            reg=(RESIDUAL_STD * (high - low)) ** 2 if self.reg is None else self.reg,
        )

    def _requests(self, settings: LMCSettings) -> list[Request]:
        n_items, rank, n_iter = settings.n_items, settings.rank, settings.n_iter
        before = settings.bias_share + (0.0 if settings.density is not None else DENSITY_SHARE)
        requests: list[Request] = []
        if settings.bias_share > 0.0:
            requests += means_requests(settings, settings.bias_share, 1)
        if settings.density is None:
            requests.append(Request("rating_density", 2, DENSITY_SHARE))
        if settings.private_start:
            requests.append(start_request(n_items, settings.start_share))
        of_balance = (1.0 - before) * settings.balance_share
        requests.append(Request("user_gram", packed_length(rank), of_balance, n_iter, mechanism=SymmetricGaussian))
        requests.append(Request("item_gradient", n_items * rank, 1.0 - before - of_balance, n_iter))
        return requests

    def plan_of(self, settings: LMCSettings) -> Plan:
        plan = super().plan_of(settings)
        if settings.density is None:
            return plan
        return replace(plan, public=(*plan.public, "the density of the ratings and the expected number of users"))

    def _run(self, settings: LMCSettings, curator: Curator) -> Released:
        center, item_bias, counts, known = settings.center, np.zeros(settings.n_items), None, None
        if settings.bias_share > 0.0:
            means = ask_means(settings, curator, 1)
            center, item_bias, counts = means.center, means.effects, np.maximum(means.posted_counts, 1.0)
            known = means.counts.means, means.residual_variance
        crowd = ask_crowd(settings, counts, curator)
        prior = center + item_bias
        residual_norm = settings.residual_norm
        if residual_norm is None:
            residual_norm = RESIDUAL_STD * settings.spread * crowd.row_scale
        factors, move = self._start(settings, prior, crowd, residual_norm, curator)
        factors, gram = self._descend(settings, prior, crowd, residual_norm, factors, move, curator)
        released = _released(settings, center, item_bias, factors, gram)
        return released if known is None else ranked(released, *known)

    def _start(
        self, settings: LMCSettings, prior: Array, crowd: Crowd, residual_norm: float, curator: Curator
    ) -> tuple[Array, RowStart]:
        """Item factors, and what users start from."""
        rank = settings.rank
        if not settings.private_start:
            user_std, item_std = (RANDOM_LENGTH * n / math.sqrt(rank) for n in (settings.user_norm, settings.item_norm))
            draws = np.random.default_rng(self.init_seed).standard_normal((settings.n_items, rank))
            return item_std * draws, RowStart(None, user_std, self.init_seed)
        weights, observed = crowd.item_weights, crowd.observed
        sweep = StartGram(prior, weights, residual_norm, settings.damping)
        if settings.weighting == "counts":  # one bound does not fit rows of five and of five hundred ratings
            root = math.sqrt(crowd.density * settings.n_items)
            sweep = StartGram(prior, weights, residual_norm / root, settings.damping, per_rating=True)
            observed = crowd.observed / root
        start = spectral_start(sweep, rank, crowd.n_users, observed, curator)
        return start.item_factors, RowStart(start.user_map)

    def _descend(
        self,
        settings: LMCSettings,
        prior: Array,
        crowd: Crowd,
        residual_norm: float,
        factors: Array,
        move: RowStart | RowStep,
        curator: Curator,
    ) -> tuple[Array, Array]:
        """Algorithm 1: the items' factors and the users' mean u u^T, each the mean over the last rounds."""
        factors, local, decay = _onto_ball(factors, settings.item_norm), None, None
        observed = crowd.n_users * crowd.observed
        found: list[tuple[Array, Array]] = []
        kept = max(1, round(settings.averaged * settings.n_iter))
        for _ in range(settings.n_iter):
            bounds = (settings.user_norm, residual_norm, settings.damping)
            posts = curator.ask(GradientRound(prior, crowd.item_weights, factors, move, *bounds), local)
            local = posts.local
            if decay is None:  # the noise is the same in every round
                decay = _decay(settings, posts.stds["item_gradient"] / observed)
            gram = unpack(posts["user_gram"]) / crowd.n_users
            gradient = posts["item_gradient"] / observed[:, None]
            imbalance = gram - factors.T @ factors / settings.n_items
            step = settings.step / _steepness(gram, factors, settings.user_norm * settings.item_norm)
            own_counts = settings.weighting == "counts"
            move = RowStep(factors, step / 2.0 * imbalance, step, crowd.weighted_ratings, own_counts)
            moved = factors - step * gradient + step / 2.0 * (factors @ imbalance)
            factors = _onto_ball(moved / (1.0 + step * decay[:, None]), settings.item_norm)
            found = [*found, (factors, gram)][-kept:]
        factors, gram = (np.mean(part, axis=0) for part in zip(*found, strict=True))
        return factors, gram


def _decay(settings: LMCSettings, noise_std: Array) -> Array:
    """A ridge on the items' side, by what is known of the noise.

    All rounds together tell H v, H being the users' mean u u^T, up to noise of variance n^2 = noise_std^2/n_iter. With
    v of variance t^2 the posterior mean is (H + n^2/t^2 H^-1)^-1 times that: a ridge of n^2/(h t^2), h a typical
    eigenvalue of H. Typical rows have 1/``LENGTHS`` of the length of their bounds.
    """
    h, variance = ((norm / LENGTHS) ** 2 / settings.rank for norm in (settings.user_norm, settings.item_norm))
    return settings.item_reg * noise_std**2 / settings.n_iter / (h * variance)


def _steepness(gram: Array, factors: Array, least: float) -> float:
    """The curvature of either side along its steepest direction: what a step is divided by."""
    of_items = np.linalg.eigvalsh(factors.T @ factors / len(factors))[-1]
    floor = RANDOM_LENGTH**2 * least / factors.shape[1]
    return max(float(np.linalg.eigvalsh(gram)[-1]), float(of_items), floor)


def _onto_ball(factors: Array, bound: float) -> Array:
    """Every item's row to norm at most ``bound``; one that is not finite becomes zero."""
    kept = np.nan_to_num(factors, nan=0.0, posinf=0.0, neginf=0.0)
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    return kept * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def _released(settings: LMCSettings, center: float, item_bias: Array, factors: Array, gram: Array) -> Released:
    """Item factors in the basis in which users' rows have the unit matrix for their covariance.

    A user's part of the objective is then the sum of squared residuals plus ``reg`` |u|^2: at its end the balance
    term pulls no user anywhere, and what is left of it is the prior that users' rows look like those in the data.
    """
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0.05 * max(float(values.mean()), 0.0)))) @ vectors.T
    fitted = {
        "center": center,
        "offset_reg": settings.offset_reg,
        "reg": settings.reg,
        "rating_range": list(settings.limits),
    }
    return Released("factors", {"item_bias": item_bias, "item_factors": factors @ root}, fitted)
