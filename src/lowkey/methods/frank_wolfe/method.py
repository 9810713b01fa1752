"""Public room: private Frank-Wolfe: matrix completion under a nuclear-norm bound, one posted direction per round.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 lines 1-12 (global component). Deviates: noise is symmetric and
calibrated exactly to what is posted (T - 1 matrices: the paper's first update is void and its last round posts
nothing); residuals are clipped to ``residual_norm``; the upward bias of the eigenvalue follows the noise that is added;
for large catalogues a noisy power iteration in place of the Gram matrix.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import refuse
from lowkey.kernels.frank_wolfe import ResidualEnergy, ResidualGram, ResidualProduct
from lowkey.linalg.leading import direction_ridge, energy_margin, leading_eigenpairs, published_energy
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.old_base import Recommender
from lowkey.methods.published import published_noise, with_published_noise
from lowkey.methods.row_norm import (
    TYPICAL_RATINGS,
    default_row_norm,
    largest_row_norm,
    need_positive,
    need_ratings,
    need_word,
    rating_spread,
)
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request

GRAM_ITEMS = 2048  # above, the n_items^2 numbers of a Gram matrix are left alone
ENERGY_SHARE = 0.1  # of a round's budget, in the power form: one number needs less than a vector


class Found(NamedTuple):
    """What a round posted: a direction, the residuals' energy along it and their mean eigenvalue, and the noise on them."""

    direction: NDArray[np.float64]
    energy: float
    bulk: float
    noise_std: float
    edge: float  # energies that noise alone can show


class DPFrankWolfe(Recommender):
    """Matrix completion by one noisy leading direction per round, in ``n_iter`` rounds.

    A round posts the noisy Gram matrix of the users' residuals (``form="gram"``), or ``power_steps`` noisy products and
    one noisy eigenvalue (``form="power"``); every user then moves along the leading direction on their own device. The
    model is the list of posted directions: who has a history replays them.

    ``step`` says how users move. "constant" is the paper's step 1/T, T = n_iter + 1, towards a matrix of nuclear norm
    ``nuclear_norm``; "decreasing" takes 2/(t + 1) instead. "corrective" (default) refits a user's coefficients on all
    directions so far, by a ridge regression; by default the ridge of a direction follows from what its round posted
    (``linalg.leading.direction_ridge``), so that neither ``nuclear_norm`` nor ``reg`` has to be chosen.

    All bounds are public. ``row_norm`` (L) bounds a user's centred row; by default a quarter of the rating range times
    the root of 80 ratings (or of the catalogue, if smaller). ``residual_norm`` bounds what a user shows in a round; by
    default L. ``nuclear_norm`` is by default what a matrix of that spread has, ``expected_users`` x n_items, when
    ``TYPICAL_RANK`` equal directions make it up. ``offset_reg`` damps the user's own mean, which is subtracted locally;
    None leaves it in. ``noise_schedule`` s gives round t a share of the budget in proportion to t^s.
    ``eigenvalue_bias`` raises the eigenvalue that steps are divided by: with the noise, as published, or not at all.
    ``calibration="published"`` takes the paper's noise and reports the guarantee that holds for it.
    """

    TYPICAL_RANK = 4.0

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        n_iter: int = 6,
        nuclear_norm: float | None = None,
        row_norm: float | None = None,
        residual_norm: float | None = None,
        offset_reg: float | None = 5.0,
        step: str = "corrective",
        eigenvalue_bias: str = "noise",
        noise_schedule: float = 0.0,
        form: str = "auto",
        power_steps: int = 3,
        calibration: str = "exact",
        reg: float | None = None,
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.n_iter = n_iter
        self.nuclear_norm = nuclear_norm
        self.row_norm = row_norm
        self.residual_norm = residual_norm
        self.offset_reg = offset_reg
        self.step = step
        self.eigenvalue_bias = eigenvalue_bias
        self.noise_schedule = noise_schedule
        self.form = form
        self.power_steps = power_steps
        self.calibration = calibration
        self.reg = reg
        self.init_seed = init_seed

    def plan(self, domain: Domain) -> Plan:
        self._check(domain)
        requests: list[Request] = []
        for t in range(1, self.n_iter + 1):
            share = float(t) ** self.noise_schedule
            if self._form(domain) == "gram":
                size = packed_length(domain.n_items)
                requests.append(Request(f"residual_gram_{t}", size, share, symmetric=True))
                continue
            step_share = share * (1.0 - ENERGY_SHARE) / self.power_steps
            for s in range(1, self.power_steps + 1):
                requests.append(Request(f"residual_product_{t}_{s}", domain.n_items, step_share))
            requests.append(Request(f"residual_energy_{t}", 2, share * ENERGY_SHARE))
        settings: dict[str, Any] = {"row_norm": self._row_norm(domain)}
        if self.step != "corrective":
            settings["nuclear_norm"] = self._nuclear_norm(domain)
        plan = self._calibrated(domain, requests, **settings)
        if self.calibration == "exact":
            return plan
        assert self.epsilon is not None
        facts = {"n_items": domain.n_items}
        grams = [ResidualGram(*self._bounds(t, domain)).statistics(facts)[0] for t in range(1, self.n_iter + 1)]
        noise = published_noise(self._row_norm(domain), self.n_iter + 1, self.epsilon, plan.delta)
        return with_published_noise(plan, grams, noise, self.epsilon)

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        domain, n_items = ratings.domain, ratings.domain.n_items
        limits = domain.rating_range
        assert limits is not None
        public: dict[str, Any] = {"n_items": n_items, "center": sum(limits) / 2.0}
        # A refit takes the user's offset along, as a direction that is public from the start.
        constant = np.full((self._refits_offset(), n_items), 1.0 / math.sqrt(n_items))
        public |= {"directions": constant, **self._local_rule([], domain)}
        found: list[Found] = []
        for t in range(1, self.n_iter + 1):
            find = self._from_gram if self._form(domain) == "gram" else self._from_products
            found.append(find(t, ratings, engine, billboard, public))
            public["directions"] = np.vstack([constant, *(one.direction for one in found)])
            public |= self._local_rule(found, domain)
        settings: dict[str, Any] = {"center": public["center"], "offset_reg": self.offset_reg, "rating_range": list(limits)}
        settings["row_norm"] = self._row_norm(domain)
        arrays = {"item_factors": np.ascontiguousarray(public["directions"].T)}
        arrays |= {name: public[name] for name in ("ridge", "gains", "decays") if public[name] is not None}
        return Model(type(self).__name__, "replay", arrays, settings, domain, billboard.ledger)

    def _from_gram(self, t: int, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]) -> Found:
        sweep = ResidualGram(*self._bounds(t, ratings.domain))
        statistic = sweep.statistics(public)[0]
        sums, _ = engine.sweep(sweep, ratings, public=public)
        gram = unpack(billboard.post(sums[statistic.name]))
        values, vectors = leading_eigenpairs(gram, 1)
        std, order = billboard.noise_std(statistic), public["n_items"]
        # Symmetric noise alone has eigenvalues up to 2 std sqrt(n): Wigner's semicircle.
        return Found(vectors[:, 0], float(values[0]), float(np.trace(gram)) / order, std, 2.0 * std * math.sqrt(order))

    def _from_products(
        self, t: int, ratings: Ratings, engine: Engine, billboard: Billboard, public: dict[str, Any]
    ) -> Found:
        bounds = self._bounds(t, ratings.domain)
        direction = np.random.default_rng([self.init_seed, t]).standard_normal(public["n_items"])
        for s in range(1, self.power_steps + 1):
            direction = direction / np.linalg.norm(direction)
            sums, _ = engine.sweep(ResidualProduct(*bounds, s), ratings, public={**public, "direction": direction})
            direction = np.asarray(billboard.post(sums[f"residual_product_{t}_{s}"]))
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
        sweep = ResidualEnergy(*bounds)
        sums, _ = engine.sweep(sweep, ratings, public={**public, "direction": direction})
        energy, bulk = billboard.post(sums[sweep.name])
        std = billboard.noise_std(sweep.statistics(public)[0])
        return Found(direction, float(energy), float(bulk), std, 3.0 * std)

    def _local_rule(self, found: list[Found], domain: Domain) -> dict[str, Any]:
        """What users need beside the directions: a ridge for each; or gains and decays, two numbers per round."""
        if self.step == "corrective":
            ridge = np.full(len(found), self.reg or 0.0)
            if self.reg is None and found:
                energy, bulk, edge = np.array([(one.energy, one.bulk, one.edge) for one in found]).T
                density = min(TYPICAL_RATINGS, domain.n_items) / domain.n_items
                ridge = direction_ridge(energy, bulk, edge, density)
            if self._refits_offset():  # a ridge r on the offset is r/n on its coefficient along the unit vector
                ridge = np.append(((self.offset_reg or 0.0) + 1e-9) / domain.n_items, ridge)
            return {"ridge": ridge, "gains": None, "decays": None}
        gains, decays = np.zeros(len(found)), np.ones(len(found))
        for t, one in enumerate(found):
            energy = self._upper_energy(one, domain)
            if energy > 0.0:  # else nothing stands out of the noise, not even by chance: the round is void
                step = 2.0 / (t + 2.0) if self.step == "decreasing" else 1.0 / (self.n_iter + 1.0)
                gains[t], decays[t] = step * self._nuclear_norm(domain) / math.sqrt(energy), 1.0 - step
        return {"ridge": None, "gains": gains, "decays": decays}

    def _refits_offset(self) -> int:
        return int(self.step == "corrective" and self.offset_reg is not None)

    def _upper_energy(self, found: Found, domain: Domain) -> float:
        """The eigenvalue that steps are divided by, raised so that they stay within the nuclear norm."""
        if found.energy <= 0.0:
            return 0.0
        if self.eigenvalue_bias == "published":
            return published_energy(found.energy, found.noise_std, domain.n_items)
        margin = energy_margin(found.noise_std) if self.eigenvalue_bias == "noise" else 0.0
        # One grid unit's worth at least: gains stay finite.
        return max(found.energy + margin, (self._row_norm(domain) * 2.0**-20) ** 2)

    def _bounds(self, t: int, domain: Domain) -> tuple[int, float, float, float]:
        """The fields of a ``ResidualSweep``."""
        row_norm = self._row_norm(domain)
        residual_norm = row_norm if self.residual_norm is None else self.residual_norm
        if self.calibration == "published":
            residual_norm = math.inf  # the paper does not clip residuals: 2L, by the triangle inequality
        return t, row_norm, residual_norm, math.inf if self.offset_reg is None else self.offset_reg

    def _form(self, domain: Domain) -> str:
        if self.form == "auto":
            return "gram" if domain.n_items <= GRAM_ITEMS else "power"
        return self.form

    def _nuclear_norm(self, domain: Domain) -> float:
        if self.nuclear_norm is not None:
            return self.nuclear_norm
        if domain.expected_users is None:
            refuse(
                "nuclear_norm",
                got="none, and a domain that does not say how many users to expect",
                needed="one of the two, as a public number",
                try_="Domain(..., expected_users=...)",
            )
        return rating_spread(domain) * math.sqrt(self.TYPICAL_RANK * domain.expected_users * domain.n_items)

    def _row_norm(self, domain: Domain) -> float:
        return default_row_norm(domain) if self.row_norm is None else self.row_norm

    def _check(self, domain: Domain) -> None:
        need_ratings(type(self).__name__, domain)
        need_word("step", self.step, "corrective", "decreasing", "constant")
        need_word("eigenvalue_bias", self.eigenvalue_bias, "noise", "published", "none")
        need_word("form", self.form, "auto", "gram", "power")
        need_word("calibration", self.calibration, "exact", "published")
        need_positive(nuclear_norm=self.nuclear_norm, row_norm=self.row_norm, residual_norm=self.residual_norm)
        need_positive(n_iter=self.n_iter, power_steps=self.power_steps, reg=self.reg)
        if self.calibration == "published" and self._form(domain) == "power":
            refuse("calibration", got="'published' with a power iteration", needed="form='gram'", try_="form='gram'")


class FrankWolfe(DPFrankWolfe):
    """The non-private baseline of ``DPFrankWolfe``: the same code, without noise and without a guarantee."""

    private = False

    def __init__(
        self,
        n_iter: int = 10,
        nuclear_norm: float | None = None,
        offset_reg: float | None = 5.0,
        step: str = "corrective",
        form: str = "auto",
        power_steps: int = 10,
        reg: float | None = None,
        init_seed: int = 0,
    ) -> None:
        super().__init__(
            n_iter=n_iter,
            nuclear_norm=nuclear_norm,
            offset_reg=offset_reg,
            step=step,
            form=form,
            power_steps=power_steps,
            reg=reg,
            init_seed=init_seed,
        )

    def _row_norm(self, domain: Domain) -> float:
        return largest_row_norm(domain)
