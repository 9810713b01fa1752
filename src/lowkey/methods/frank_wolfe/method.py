"""Public room: private Frank-Wolfe: matrix completion under a nuclear-norm bound, one posted direction per round.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 1 lines 1-12 (global component). Deviates: noise is symmetric and
calibrated exactly to what is posted (T - 1 matrices: the paper's first update is void and its last round posts
nothing); residuals are clipped to ``residual_norm``; the upward bias of the eigenvalue follows the noise that is added;
for large catalogues a noisy power iteration in place of the Gram matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.kernels.frank_wolfe import ResidualEnergy, ResidualGram, ResidualProduct
from lowkey.kernels.walk import Walk
from lowkey.linalg.leading import direction_ridge, energy_margin, leading_eigenpairs
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.base import Budget, Recommender, Released
from lowkey.methods.constraints import not_negative, positive, whole, word
from lowkey.methods.curator import Curator
from lowkey.methods.frank_wolfe.settings import GRAM_ITEMS, FrankWolfeSettings, default_nuclear_norm
from lowkey.methods.rows import TYPICAL_RATINGS, default_row_norm, largest_row_norm, need_ratings
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

ENERGY_SHARE = 0.1  # of a round's budget, in the power form: one number needs less than a vector
POWER_STEPS = 3


class Found(NamedTuple):
    """What a round posted: a direction, the residuals' energy along it and their mean eigenvalue, and the noise on them."""

    direction: NDArray[np.float64]
    energy: float
    bulk: float
    noise_std: float
    edge: float  # energies that noise alone can show


@dataclass(eq=False, repr=False)
class DPFrankWolfe(Recommender):
    """Matrix completion by one noisy leading direction per round.

    A round posts the noisy Gram matrix of the users' residuals, or a few noisy products and one noisy eigenvalue; every
    user then moves along the leading direction on their own device. The model is the list of posted directions: who has
    a history replays them. All bounds are public.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    n_iter : int
        Rounds.
    nuclear_norm : float, optional
        Of the matrix towards which "constant" and "decreasing" steps go.
    row_norm : float, optional
        Bounds a user's centred row (the paper's L); by default a quarter of the rating range times the root of 80
        ratings, or of the catalogue, if smaller.
    residual_norm : float, optional
        Bounds what a user shows in a round; by default ``row_norm``.
    offset_reg : float, optional
        Damps the user's own mean, which is subtracted locally; None leaves it in.
    step : {"corrective", "decreasing", "constant"}
        "constant" is the paper's 1/T, T = n_iter + 1; "decreasing" 2/(t + 1); "corrective" refits a user's coefficients on
        all directions so far, with a ridge from what the rounds posted (``linalg.leading.direction_ridge``).
    form : {"auto", "gram", "power"}
        Whether a round posts a Gram matrix, or products and an eigenvalue.
    reg : float, optional
        The ridge of a corrective step, in place of its default.
    init_seed : int
        Of the public random start; the noise has no seed.

    Examples
    --------
    >>> model = lk.DPFrankWolfe(epsilon=4.0, delta=1e-6, n_iter=8).fit(ratings)  # doctest: +SKIP
    >>> model.recommend({"film 7": 4.5}, n=10)  # doctest: +SKIP
    """

    constraints = {
        "n_iter": whole(),
        "nuclear_norm": positive(),
        "row_norm": positive(),
        "residual_norm": positive(),
        "offset_reg": not_negative(),
        "step": word("corrective", "decreasing", "constant"),
        "form": word("auto", "gram", "power"),
        "power_steps": whole(),
        "reg": positive(),
    }

    n_iter: int = 6
    nuclear_norm: float | None = None
    row_norm: float | None = None
    residual_norm: float | None = None
    offset_reg: float | None = 5.0
    step: str = "corrective"
    form: str = "auto"
    reg: float | None = None
    init_seed: int = 0

    def _settings(self, domain: Domain, budget: Budget) -> FrankWolfeSettings:
        need_ratings(type(self).__name__, domain)
        row_norm = default_row_norm(domain) if self.row_norm is None else self.row_norm
        nuclear_norm = self.nuclear_norm
        if nuclear_norm is None and self.step != "corrective":
            nuclear_norm = default_nuclear_norm(domain)
        auto = "gram" if domain.n_items <= GRAM_ITEMS else "power"
        return FrankWolfeSettings(
            domain=domain,
            budget=budget,
            n_iter=self.n_iter,
            form=auto if self.form == "auto" else self.form,
            power_steps=POWER_STEPS,
            step=self.step,
            row_norm=row_norm,
            residual_norm=row_norm if self.residual_norm is None else self.residual_norm,
            nuclear_norm=nuclear_norm,
            offset_reg=self.offset_reg,
            reg=self.reg,
        )

    def _requests(self, settings: FrankWolfeSettings) -> list[Request]:
        requests: list[Request] = []
        for t in range(1, settings.n_iter + 1):
            if settings.form == "gram":
                size = packed_length(settings.n_items)
                requests.append(Request(f"residual_gram_{t}", size, 1.0, mechanism=SymmetricGaussian))
                continue
            step_share = (1.0 - ENERGY_SHARE) / settings.power_steps
            for s in range(1, settings.power_steps + 1):
                requests.append(Request(f"residual_product_{t}_{s}", settings.n_items, step_share))
            requests.append(Request(f"residual_energy_{t}", 2, ENERGY_SHARE))
        return requests

    def _run(self, settings: FrankWolfeSettings, curator: Curator) -> Released:
        found: list[Found] = []
        walk = self._walk(settings, found)
        find = self._from_gram if settings.form == "gram" else self._from_products
        for t in range(1, settings.n_iter + 1):
            found.append(find(t, settings, walk, curator))
            walk = self._walk(settings, found)
        fitted = {
            "center": settings.center,
            "offset_reg": settings.offset_reg,
            "rating_range": list(settings.limits),
            "row_norm": settings.row_norm,
        }
        arrays = {"item_factors": np.ascontiguousarray(walk.directions.T)}
        arrays |= {n: getattr(walk, n) for n in ("ridge", "gains", "decays") if getattr(walk, n) is not None}
        return Released("replay", arrays, fitted)

    def _bounds(self, settings: FrankWolfeSettings) -> tuple[float, float, float, float]:
        return settings.center, settings.row_norm, settings.residual_norm, settings.damping

    def _from_gram(self, t: int, settings: FrankWolfeSettings, walk: Walk, curator: Curator) -> Found:
        name, order = f"residual_gram_{t}", settings.n_items
        posts = curator.ask(ResidualGram(t, walk, *self._bounds(settings)))
        gram, std = unpack(posts[name]), posts.stds[name]
        values, vectors = leading_eigenpairs(gram, 1)
        # Symmetric noise alone has eigenvalues up to 2 std sqrt(n): Wigner's semicircle.
        return Found(vectors[:, 0], float(values[0]), float(np.trace(gram)) / order, std, 2.0 * std * math.sqrt(order))

    def _from_products(self, t: int, settings: FrankWolfeSettings, walk: Walk, curator: Curator) -> Found:
        bounds = self._bounds(settings)
        direction = np.random.default_rng([self.init_seed, t]).standard_normal(settings.n_items)
        for s in range(1, settings.power_steps + 1):
            sweep = ResidualProduct(t, walk, *bounds, s, direction / np.linalg.norm(direction))
            direction = np.asarray(curator.ask(sweep)[sweep.name])
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
        sweep = ResidualEnergy(t, walk, *bounds, direction)
        posts = curator.ask(sweep)
        (energy, bulk), std = posts[sweep.name], posts.stds[sweep.name]
        return Found(direction, float(energy), float(bulk), std, 3.0 * std)

    def _walk(self, settings: FrankWolfeSettings, found: list[Found]) -> Walk:
        """The directions, and what users need beside them: a ridge for each; or gains and decays, two numbers per round."""
        n_items = settings.n_items
        constant = np.full((int(settings.refits_offset), n_items), 1.0 / math.sqrt(n_items))
        directions = np.vstack([constant, *(one.direction for one in found)])
        if settings.step == "corrective":
            ridge = np.full(len(found), settings.reg or 0.0)
            if settings.reg is None and found:
                energy, bulk, edge = np.array([(one.energy, one.bulk, one.edge) for one in found]).T
                ridge = direction_ridge(energy, bulk, edge, min(TYPICAL_RATINGS, n_items) / n_items)
            if settings.refits_offset:  # a ridge r on the offset is r/n on its coefficient along the unit vector
                ridge = np.append(((settings.offset_reg or 0.0) + 1e-9) / n_items, ridge)
            return Walk(directions, ridge)
        gains, decays = np.zeros(len(found)), np.ones(len(found))
        assert settings.nuclear_norm is not None
        for t, one in enumerate(found):
            energy = self._upper_energy(settings, one)
            if energy > 0.0:  # else nothing stands out of the noise, not even by chance: the round is void
                step = 2.0 / (t + 2.0) if settings.step == "decreasing" else 1.0 / (settings.n_iter + 1.0)
                gains[t], decays[t] = step * settings.nuclear_norm / math.sqrt(energy), 1.0 - step
        return Walk(directions, None, gains, decays)

    def _upper_energy(self, settings: FrankWolfeSettings, found: Found) -> float:
        """The eigenvalue that steps are divided by, raised so that they stay within the nuclear norm."""
        if found.energy <= 0.0:
            return 0.0
        margin = energy_margin(found.noise_std)
        # One grid unit's worth at least: gains stay finite.
        return max(found.energy + margin, (settings.row_norm * 2.0**-20) ** 2)


class FrankWolfe(DPFrankWolfe):
    """The non-private baseline of ``DPFrankWolfe``: the same code, without noise and without a guarantee.

    Parameters
    ----------
    n_iter, nuclear_norm, offset_reg, step, form, reg, init_seed
        As in ``DPFrankWolfe``.
    power_steps : int
        Products of a round, where ``form`` is "power".

    Examples
    --------
    >>> lk.FrankWolfe(n_iter=10).fit(ratings).recommend({"film 7": 4.5}, n=10)  # doctest: +SKIP
    """

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
            reg=reg,
            init_seed=init_seed,
        )
        self.power_steps = power_steps

    def _settings(self, domain: Domain, budget: Budget) -> FrankWolfeSettings:
        settings, norm = super()._settings(domain, budget), largest_row_norm(domain)
        return replace(settings, row_norm=norm, residual_norm=norm, power_steps=self.power_steps)
