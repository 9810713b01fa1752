"""Public room: private alternating least squares: users solve locally, items solve noisy normal equations.

Paper: DPALS (Chien et al. 2021), Algorithm 1; weights of Krichene et al. 2023. Deviates: item biases first; the item's
ridge follows the known noise; the scale of the items follows the posted Gram matrices; ``docs/dpals.md``, (a) to (h).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.als import ItemEquations
from lowkey.kernels.bias import ItemMeans
from lowkey.linalg.packed import packed_length, unpack
from lowkey.linalg.psd import positive_part
from lowkey.methods.als.items import head_size, item_weights, orthogonal_columns, random_start, user_gram_scale
from lowkey.methods.als.noisy_ridge import Equations, noise_aware_ridge
from lowkey.methods.als.ridges import MOST_MISFIT, noise_reg, user_regs, usual_misfit
from lowkey.methods.als.settings import Settings, default_settings
from lowkey.methods.als_published import PublishedNoise, with_published_noise
from lowkey.methods.old_base import Recommender
from lowkey.methods.posts import post_all, post_item_means
from lowkey.methods.power_start import power_requests, power_start
from lowkey.methods.spectral_start import binary_start_factors, binary_start_request, start_factors, start_requests
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

Array = NDArray[np.float64]
ROW_BOUND = 0.2  # of the rating range: a user's weighted root mean square residual
MISFIT_SHARE = 0.004  # of the budget, per round: two numbers
START_SCALE = 1e3  # random factors this small: every user is clipped, and counts with a unit vector


class DPALS(Recommender):
    """Factors by alternating least squares; ratings and binary feedback.

    Each round posts every item's Gram matrix and right-hand side; ``gram_share`` of the round's budget goes to the
    former and ``growth`` is the ratio of a round's budget to that of the round before. A user's ratings are weighted by
    posted item count to the power -``weight_exponent``, scaled to norm 1; with ``max_ratings`` instead only the rarest
    so many of them count, equally. ``residual_bound`` bounds a user's weighted root mean square residual.
    ``bias_share`` of the budget goes to item means (binary: counts) first; 0 leaves them out. For binary feedback
    ``unobserved_weight`` pulls the scores of all pairs towards zero, and ``head`` is the share of the catalogue, by
    posted count, that gets factors. ``reg`` and ``user_reg`` are ridges (left out, those for ratings follow the posts);
    with ``item_reg_exponent`` and ``user_reg_exponent`` they grow with the (posted, own) count to that power.
    ``start="spectral"``, the default for binary feedback, spends ``start_share`` of the budget on a private start;
    ``"power"`` (ratings) does so by noisy power iteration, for catalogues whose square does not fit.
    ``calibration="published"`` takes the paper's noise, ``published_noise`` = (sigma_G, sigma_g, sigma_p) with
    ``max_ratings`` = k as in its Table 4, and reports the guarantee that holds for it.
    """

    reg_per_noise: ClassVar[float] = 1.6
    reg_is_capped: ClassVar[bool] = True  # by the default

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int | None = None,
        reg: float | None = None,
        user_reg: float | None = None,
        serving_reg: float | None = None,
        item_reg_exponent: float = 0.0,
        user_reg_exponent: float = 0.0,
        unobserved_weight: float = 0.1,
        max_ratings: int | None = None,
        weight_exponent: float | None = None,
        residual_bound: float | None = None,
        offset_reg: float | None = 5.0,
        head: float | None = None,
        bias_share: float | None = None,
        gram_share: float | None = None,
        growth: float | None = None,
        start: str | None = None,
        start_share: float | None = None,
        calibration: str = "exact",
        published_noise: tuple[float, ...] | None = None,
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rank = rank
        self.n_iter = n_iter
        self.reg = reg
        self.user_reg = user_reg
        self.serving_reg = serving_reg
        self.item_reg_exponent = item_reg_exponent
        self.user_reg_exponent = user_reg_exponent
        self.unobserved_weight = unobserved_weight
        self.max_ratings = max_ratings
        self.weight_exponent = weight_exponent
        self.residual_bound = residual_bound
        self.offset_reg = offset_reg
        self.head = head
        self.bias_share = bias_share
        self.gram_share = gram_share
        self.growth = growth
        self.start = start
        self.start_share = start_share
        self.calibration = calibration
        self.published_noise = published_noise
        self.init_seed = init_seed

    # The plan ---------------------------------------------------------------------------------------------------------
    def _settings(self, domain: Domain) -> Settings:
        """The defaults with what was given put over them, checked. Public facts only."""
        start = "random" if self.calibration == "published" and self.start is None else self.start
        settings = default_settings(domain, self._mu(), start)
        given = {name: value for name in vars(settings) if (value := getattr(self, name, None)) is not None}
        if "user_reg" in given and "serving_reg" not in given:
            given["serving_reg"] = settings.serving_reg / settings.user_reg * given["user_reg"]
        chosen = Settings(**{**vars(settings), **given})
        if self.rank is None:
            chosen = Settings(**{**vars(chosen), "rank": min(chosen.rank, domain.n_items)})
        _check("rank", chosen.rank, 1 <= chosen.rank <= domain.n_items, f"1 to {domain.n_items}, the size of the catalogue")
        _check("n_iter", chosen.n_iter, chosen.n_iter >= 1, "at least 1")
        for name in ("reg", "user_reg", "serving_reg", "growth", "fill"):
            value = getattr(chosen, name)
            _check(name, value, 0.0 < value < math.inf, "a finite number above 0")
        for name in ("gram_share", "head"):
            value = getattr(chosen, name)
            _check(name, value, 0.0 < value <= 1.0 and (name == "head" or value < 1.0), "a share between 0 and 1")
        _check("start", chosen.start, chosen.start in ("random", "spectral", "power"), "'random', 'spectral' or 'power'")
        _check("bias_share", chosen.bias_share, 0.0 <= chosen.bias_share < 1.0, "a share from 0 to below 1")
        _check("max_ratings", self.max_ratings, self.max_ratings is None or self.max_ratings >= 1, "at least 1")
        self._check_published()
        bound = self._row_bound(domain)
        _check("residual_bound", bound, 0.0 < bound < math.inf, "a finite number above 0")
        return chosen

    def _check_published(self) -> None:
        known = self.calibration in ("exact", "published")
        _check("calibration", self.calibration, known, "'exact' or 'published'")
        if self.calibration == "published":
            noise = self.published_noise or ()
            fine = len(noise) in (3, 4) and all(0.0 < sigma < math.inf for sigma in noise)
            _check("published_noise", self.published_noise, fine, "sigma_G, sigma_g, sigma_p and maybe sigma_K, above 0")
            _check("max_ratings", self.max_ratings, self.max_ratings is not None, "the k that the noise was published for")
            _check("start", self.start, self.start in (None, "random"), "'random' with calibration='published'")

    def _row_bound(self, domain: Domain) -> float:
        if domain.rating_range is None:
            return 1.0  # targets are 1, and weights have norm 1
        low, high = domain.rating_range
        return self.residual_bound if self.residual_bound is not None else ROW_BOUND * (high - low)

    def _learns_user_reg(self, domain: Domain) -> bool:
        """Whether users also say how well they are fitted, so that their ridge follows the noise of the ratings."""
        given = self.user_reg is not None or self.serving_reg is not None
        return domain.rating_range is not None and not given and self.calibration == "exact"

    def _max_ratings(self, domain: Domain) -> int | None:
        return self.max_ratings

    def _unobserved_weight(self, domain: Domain) -> float:
        return self.unobserved_weight if domain.rating_range is None else 0.0

    def plan(self, domain: Domain) -> Plan:
        settings, n_items = self._settings(domain), domain.n_items
        rank, triangle = settings.rank, packed_length(settings.rank)
        requests: list[Request] = []
        if settings.bias_share > 0.0:
            name, size = ("item_counts", n_items) if domain.rating_range is None else ("item_means", 2 * n_items)
            requests.append(Request(name, size, settings.bias_share))
        requests += _start_requests(domain, settings)
        if self._learns_user_reg(domain):
            requests += [Request(f"misfit_{t}", 2, MISFIT_SHARE) for t in range(1, settings.n_iter)]
        growth = settings.growth ** np.arange(settings.n_iter)
        users_share = 0.02 if self._unobserved_weight(domain) > 0.0 else 0.0
        for t, share in enumerate((1.0 - settings.bias_share) * growth / growth.sum()):
            of_items = float(share) * (1.0 - users_share)
            note = "" if t else "packed triangles, one per item"
            gram_share = of_items * settings.gram_share
            requests.append(Request(f"item_gram_{t}", n_items * triangle, gram_share, symmetric=True, note=note))
            requests.append(Request(f"item_rhs_{t}", n_items * rank, of_items - gram_share))
            if users_share:
                requests.append(Request(f"user_gram_{t}", triangle, float(share) * users_share, symmetric=True))
        facts = {"rank": rank, "n_iter": settings.n_iter, "row_bound": self._row_bound(domain)}
        plan = self._calibrated(domain, requests, **facts)
        if self.calibration == "exact":
            return plan
        assert self.epsilon is not None
        assert self.max_ratings is not None
        return with_published_noise(plan, self.max_ratings, PublishedNoise(*(self.published_noise or ())), self.epsilon)

    # The loop ---------------------------------------------------------------------------------------------------------
    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain = ratings.domain
        usual = settings = self._settings(domain)
        public, counts = self._bias(ratings, engine, billboard, settings)
        public |= item_weights(domain.n_items, counts, settings, equal=self._max_ratings(domain) is not None)
        active = public["item_weights"] > 0.0
        factors, scale, mass = self._start(ratings, engine, billboard, public, settings, counts), START_SCALE, 1.0
        for t in range(settings.n_iter):
            # An orthogonal change of basis, free: the columns become orthogonal.
            public["item_factors"] = orthogonal_columns(factors / scale)
            factors, trace, noise = self._round(t, scale, ratings, engine, billboard, public, settings, counts)
            factors *= active[:, None]
            if t == 0:  # every user had norm 1, so the traces add up to the weights
                scale, mass = 1.0, max(trace, 1e-9)
                settings = self._knowing(mass, domain, settings)
            else:  # users' norms should fill the ball: their mean square is what the trace has become
                size = min(max(math.sqrt(max(trace, 0.0) / mass), 0.05), 1.0)
                if noise is not None:
                    settings = replace(settings, **user_regs(domain, usual, noise, scale / size))
                factors *= scale
                scale *= settings.fill / size
        return self._model(domain, billboard, public, factors, settings)

    def _start(
        self,
        ratings: Ratings,
        engine: Engine,
        billboard: Billboard,
        public: dict[str, Any],
        settings: Settings,
        counts: Array | None,
    ) -> Array:
        domain, active = ratings.domain, public["item_weights"] > 0.0
        if settings.start == "random":
            return random_start(domain, counts, settings.rank, self.init_seed) * active[:, None]
        if domain.rating_range is None:
            return binary_start_factors(settings.rank, active, counts, ratings, engine, billboard)
        bounds = (self._row_bound(domain), self.offset_reg, settings.rank, counts)
        if settings.start == "power":
            return power_start(*bounds, self.init_seed, ratings, engine, billboard, public)
        return start_factors(*bounds, ratings, engine, billboard, public)

    def _round(
        self,
        t: int,
        scale: float,
        ratings: Ratings,
        engine: Engine,
        billboard: Billboard,
        public: dict[str, Any],
        settings: Settings,
        counts: Array | None,
    ) -> tuple[Array, float, float | None]:
        """One pass, its posts, and the items' solve; also the trace of all Gram matrices, and the users' misfit."""
        domain = ratings.domain
        # A random start says nothing of the pairs that were not observed.
        unobserved = self._unobserved_weight(domain) * (1e-6 if t == 0 and settings.start == "random" else 1.0)
        sweep = ItemEquations(
            round=t,
            row_bound=self._row_bound(domain),
            offset_reg=self.offset_reg if domain.rating_range is not None else None,
            user_reg=(settings.user_reg if t else settings.first_user_reg) / scale**2,
            user_reg_exponent=self.user_reg_exponent,
            unobserved_weight=unobserved,
            user_gram_scale=user_gram_scale(public["item_weights"], counts),
            max_ratings=self._max_ratings(domain),
            misfit_bound=MOST_MISFIT * usual_misfit(domain) if t and self._learns_user_reg(domain) else 0.0,
        )
        sums, _ = engine.sweep(sweep, ratings, public=public)
        stds = [billboard.noise_std(s) for s in sweep.statistics(public)]
        gram, rhs = (billboard.post(sums[name]) for name in sweep.names[:2])
        shared, shared_weights = None, None
        if unobserved > 0.0:
            shared = positive_part(unpack(billboard.post(sums[sweep.names[2]])))
            shared *= settings.item_reg_share * self.unobserved_weight
            # In the sum of s_u c_j ((1 - u.v)^2 if observed + weight (u.v)^2) the posted matrix is that of c_ref s_u.
            shared_weights = public["item_weights"] / sweep.user_gram_scale
        equations = Equations(gram, rhs, stds[0], stds[1], shared, shared_weights, public["item_weights"] > 0.0)
        reg = settings.reg * (scale**2 if t else 1.0) * self._item_reg_weights(counts)
        ridge = noise_aware_ridge(equations, reg, settings.noise_ridge)
        noise = None
        if sweep.misfit_bound > 0.0:
            misfit, users = billboard.post(sums[sweep.names[3]])
            noise = MOST_MISFIT * min(max(misfit / max(users, 1.0), 2.5e-5), 1.0)
        return equations.solve(ridge), float(equations.traces().sum()), noise

    def _knowing(self, mass: float, domain: Domain, settings: Settings) -> Settings:
        """The settings from the first round on, when the total weight of all ratings is known."""
        if self.reg is not None or domain.rating_range is None or self.calibration == "published":
            return settings
        reg = self.reg_per_noise * noise_reg(domain, mass, settings.user_reg)
        return replace(settings, reg=min(reg, settings.reg) if self.reg_is_capped else reg)

    def _bias(
        self, ratings: Ratings, engine: Engine, billboard: Billboard, settings: Settings
    ) -> tuple[dict[str, Any], Array | None]:
        """Center, item biases, and the posted (weighted) counts, at least 1; None where nothing was posted."""
        domain = ratings.domain
        public: dict[str, Any] = {"n_items": domain.n_items, "center": 0.0, "item_bias": np.zeros(domain.n_items)}
        if domain.rating_range is not None:
            public["center"] = sum(domain.rating_range) / 2.0
        if settings.bias_share == 0.0:
            return public, None
        if domain.rating_range is None:
            posted, _ = post_all(ItemMeans(None, 0.0), ratings, engine, billboard, public)
            return public, np.maximum(posted["item_counts"], 1.0)
        means = post_item_means(ratings, engine, billboard, public)
        public["item_bias"] = means.effects(least=1.0)
        return public, np.maximum(means.counts, 1.0)

    def _item_reg_weights(self, counts: Array | None) -> Array | float:
        if counts is None or self.item_reg_exponent == 0.0:
            return 1.0
        powers = counts**self.item_reg_exponent
        return powers / powers.mean()

    def _model(
        self, domain: Domain, billboard: Billboard, public: dict[str, Any], factors: Array, settings: Settings
    ) -> Model:
        arrays = {"item_bias": public["item_bias"], "item_factors": factors}
        limits = None if domain.rating_range is None else list(domain.rating_range)
        rule_settings: dict[str, Any] = {
            "center": public["center"],
            "offset_reg": self.offset_reg if limits else None,
            "reg": settings.serving_reg,
            "rating_range": limits,
        }
        if limits is None:
            rule_settings["unobserved_weight"] = settings.serving_weight
        return Model(type(self).__name__, "factors", arrays, rule_settings, domain, billboard.ledger)


class ALS(DPALS):
    """The non-private baseline of ``DPALS``: the same code without noise.

    Ratings: every one at equal weight, and users so well inside the ball that hardly one is clipped.
    """

    private = False
    reg_per_noise = 0.54
    reg_is_capped = False

    def __init__(
        self,
        rank: int | None = None,
        n_iter: int = 10,
        reg: float | None = None,
        user_reg: float | None = None,
        unobserved_weight: float = 0.1,
        offset_reg: float | None = 1.0,
        init_seed: int = 0,
    ) -> None:
        super().__init__(
            rank=rank,
            n_iter=n_iter,
            reg=reg,
            user_reg=user_reg,
            unobserved_weight=unobserved_weight,
            offset_reg=offset_reg,
            init_seed=init_seed,
        )

    def _settings(self, domain: Domain) -> Settings:
        settings = replace(super()._settings(domain), head=1.0)
        return settings if domain.rating_range is None else replace(settings, fill=0.3)

    def _max_ratings(self, domain: Domain) -> int | None:
        return None if domain.rating_range is None else domain.n_items  # all of them, equally

    def _row_bound(self, domain: Domain) -> float:
        return 1.0 if domain.rating_range is None else 2.0 * (domain.rating_range[1] - domain.rating_range[0])


def _start_requests(domain: Domain, settings: Settings) -> list[Request]:
    if settings.start == "random":
        return []
    if domain.rating_range is None:
        _check("start", settings.start, settings.start == "spectral", "'random' or 'spectral' for binary feedback")
        head = head_size(domain.n_items, settings) if settings.bias_share > 0.0 else domain.n_items  # by posted count
        return [binary_start_request(head, settings.start_share)]
    if settings.start == "power":
        return power_requests(domain.n_items, settings.rank, settings.start_share)
    return start_requests(settings.start, settings.start_share, domain)


def _check(name: str, value: Any, holds: bool, needed: str) -> None:
    if not holds:
        refuse(name, got=repr(value), needed=needed, try_="leaving it out: the default follows from public facts")
