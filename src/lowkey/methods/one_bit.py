"""Public room: one-bit completion: likes and dislikes, four kinds of noise, and a release without any user's row.

Paper: Li et al. 2021 (one-bit matrix completion with differential privacy), Algorithms 1 to 4. Deviates: sound
calibrations by default (docs/one-bit.md); the threshold is public; the item side is released and users fold in.

letter  meaning                              our word
alpha   bound on every score                 entry_bound
tau     radius of the nuclear-norm ball      entry_bound sqrt(n_users n_items rank)
K, C    noisy gradient steps, their clamp    n_iter, gradient_bound
lambda  ridge of output perturbation         output_ridge
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.engines.local import LocalEngine
from lowkey.errors import InputError, refuse
from lowkey.kernels.sweep import Sweep
from lowkey.linalg.links import link_of
from lowkey.linalg.norms import leading_svd
from lowkey.methods.base import Recommender
from lowkey.methods.perturbations import PERTURBATIONS, NoPerturbation, Perturbation, Setting
from lowkey.model import Model
from lowkey.privacy.accounting import gaussian_epsilon
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, check_epsilon_delta
from lowkey.privacy.unit import Unit

Array = NDArray[np.float64]
UNITS = {name: Unit(name, "values", "replace-one") for name in ("rating", "user")}


class DPOneBit(Recommender):
    """Maximum likelihood of likes and dislikes under a nuclear-norm and an entrywise bound, noised in one of four places.

    ``unit="rating"`` protects the value of one rating; ``unit="user"`` all values of one user, of whom ``max_ratings``
    are used. **Who rated what is public in both.** Without ``delta`` the guarantee is pure. The fitted model holds item
    factors; a user's side is fitted to their own signs, locally. Predictions are probabilities of a like.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "replace-one",
        perturbation: str = "input",
        link: str = "logistic",
        calibration: str = "sound",
        unit: str = "rating",
        max_ratings: int | None = None,
        threshold: float | None = None,
        entry_bound: float = 1.0,
        rank: float = 1.0,
        n_iter: int = 10,
        gradient_bound: float = 0.5,
        output_ridge: float = 1.0,
        n_factors: int = 32,
        reg: float = 1.0,
        tol: float = 5e-3,
        max_iter: int = 60,
        init_seed: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.perturbation = perturbation
        self.link = link
        self.calibration = calibration
        self.unit = unit
        self.max_ratings = max_ratings
        self.threshold = threshold
        self.entry_bound = entry_bound
        self.rank = rank
        self.n_iter = n_iter
        self.gradient_bound = gradient_bound
        self.output_ridge = output_ridge
        self.n_factors = n_factors
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.init_seed = init_seed

    def plan(self, domain: Domain, positions: Positions | None = None) -> Plan:
        """The plan for these public positions: they decide how many numbers are posted."""
        if positions is None:
            refuse(
                "positions", got="none", needed="who rated what, public here", try_="plan(domain, Positions.of(ratings))"
            )
        return self._plan(domain, self._setting(domain, positions))

    def complete(
        self,
        X: Any,
        y: None = None,
        *,
        domain: Domain | None = None,
        engine: Engine | None = None,
        billboard: Billboard | None = None,
    ) -> Array:
        """Fit, and return the completed scores (n_users, n_items) as well: covered by the same guarantee, kept nowhere."""
        ratings, engine, billboard = self._begin(X, y, domain, engine, billboard)
        scores = self._scores(ratings, engine, billboard)
        self.model_ = self._model(ratings.domain, scores, billboard)
        return scores

    def _plan_for(self, ratings: Ratings) -> Plan:
        return self.plan(ratings.domain, Positions.of(ratings))

    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        return self._model(ratings.domain, self._scores(ratings, engine, billboard), billboard)

    def _scores(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Array:
        setting = self._setting(ratings.domain, Positions.of(ratings))
        if self.perturbation == "output":
            # The minimiser is no sum over users: it needs them all at once. Their number is public here.
            engine = LocalEngine(getattr(engine, "n_jobs", None), block_size=max(1, setting.positions.n_users))

        def post(sweep: Sweep, public: dict[str, Any]) -> tuple[Array, float]:
            public = {"positions": setting.positions, **public}
            (statistic,) = sweep.statistics(public)
            sums, _ = engine.sweep(sweep, ratings, public=public)
            posted = billboard.post(sums[statistic.name])
            return posted, 0.0 if statistic.name == "signs" else billboard.noise_std(statistic)

        return self._where().run(setting, post)

    def _model(self, domain: Domain, scores: Array, billboard: Billboard) -> Model:
        """The item side of X = U S V^T: factors V S/sqrt(n_users), for which the users' rows sqrt(n_users) U have
        second moment 1 each, which is what the prior of the fold-in (``reg`` = 1) says."""
        most = min(self.n_factors, *scores.shape)
        if most < 1 or not scores.any():
            factors = np.zeros((domain.n_items, 0))
        else:
            _, values, right = leading_svd(scores, most, None, 1e-6, max_sweeps=30)
            kept = values > 1e-6 * values[0]
            factors = right[kept].T * (values[kept] / math.sqrt(scores.shape[0]))
        settings = {
            "link": self.link,
            "reg": self.reg,
            "threshold": self._threshold(domain),
            "entry_bound": self.entry_bound,
        }
        return Model(type(self).__name__, "signs", {"item_factors": factors}, settings, domain, billboard.ledger)

    # Public facts ------------------------------------------------------------------------------------------------------
    def _where(self) -> Perturbation:
        if self.perturbation not in PERTURBATIONS:
            known = ", ".join(map(repr, PERTURBATIONS))
            refuse("perturbation", got=repr(self.perturbation), needed=known, try_="perturbation='input'")
        return PERTURBATIONS[self.perturbation]

    def _threshold(self, domain: Domain) -> float:
        if domain.rating_range is None:
            refuse(
                "feedback",
                got="binary feedback, where every entry is a like",
                needed="likes and dislikes: ratings with a range, and a threshold",
                try_="DPMoments, or a domain with rating_range=(0, 1) whose zeros are dislikes",
            )
        low, high = domain.rating_range
        return (low + high) / 2.0 if self.threshold is None else self.threshold

    def _setting(self, domain: Domain, positions: Positions) -> Setting:
        self._check()
        if self.unit == "user":
            assert self.max_ratings is not None
            positions = positions.capped(self.max_ratings)
        return Setting(
            positions=positions,
            link=link_of(self.link),
            threshold=self._threshold(domain),
            unit="user" if self.unit == "user" else "rating",
            signs=self.max_ratings if self.unit == "user" and self.max_ratings is not None else 1,
            epsilon=self.epsilon if self.epsilon is not None else math.inf,
            delta=self.delta,
            published=self.calibration == "published",
            entry_bound=self.entry_bound,
            radius=self.entry_bound * math.sqrt(positions.n_users * positions.n_items * self.rank),
            n_iter=self.n_iter,
            gradient_bound=self.gradient_bound,
            ridge=self.output_ridge,
            tol=self.tol,
            max_iter=self.max_iter,
            flipped=getattr(self, "flip_probability", 0.0),
            init_seed=self.init_seed,
        )

    def _check(self) -> None:
        if self.adjacency != "replace-one":
            refuse(
                "adjacency", got=repr(self.adjacency), needed="'replace-one': positions are public", try_="leaving it out"
            )
        if self.unit not in ("rating", "user"):
            refuse("unit", got=repr(self.unit), needed="'rating' or 'user'", try_="unit='rating'")
        if self.unit == "user" and (self.max_ratings is None or self.max_ratings < 1):
            refuse(
                "max_ratings", got=repr(self.max_ratings), needed="how many ratings of a user count", try_="max_ratings=20"
            )
        if self.calibration not in ("sound", "published"):
            refuse("calibration", got=repr(self.calibration), needed="'sound' or 'published'", try_="calibration='sound'")
        if self.calibration == "published" and (self.unit == "user" or self.delta is not None):
            refuse(
                "calibration", got="'published' with a user or a delta", needed="one rating, pure epsilon", try_="'sound'"
            )
        for name in ("entry_bound", "gradient_bound", "output_ridge", "rank", "n_iter"):
            if not 0 < getattr(self, name) < math.inf:
                refuse(name, got=repr(getattr(self, name)), needed="a finite number above 0", try_="its default")
        if self.private:
            if self.epsilon is None:
                raise InputError(what="epsilon", got="none", needed="a number: it has no default", try_="epsilon=…")
            check_epsilon_delta(self.epsilon, 0.5 if self.delta is None else self.delta)

    def _plan(self, domain: Domain, setting: Setting) -> Plan:
        public = (
            f"the catalogue of {domain.n_items} items, {domain.scale}",
            f"who rated what ({setting.positions.n_users} users), and the threshold {setting.threshold:g}",
            "all hyper-parameters",
        )
        where = self._where()
        plan = Plan(
            type(self).__name__,
            tuple(where.lines(setting)),
            0.0 if self.delta is None else self.delta,
            UNITS[setting.unit],
            public,
            (),
            settings={
                "perturbation": self.perturbation,
                "link": self.link,
                "calibration": self.calibration,
                **({"asked_epsilon": self.epsilon} if self.private else {}),
            },
        )
        caveats = (*where.caveats(setting), *self._user_cost(plan, setting))
        return replace(plan, caveats=caveats)

    def _user_cost(self, plan: Plan, setting: Setting) -> tuple[str, ...]:
        """What one rating's epsilon means for a whole user: known exactly, as the counts are public here."""
        if setting.unit == "user":
            return (f"of a user with more than {setting.signs} ratings, {setting.signs} are used",)
        counts = setting.positions.counts
        if not self.private or not len(counts):
            return ()
        price, texts = plan.price, []
        for word, count in (("typical", int(np.median(counts))), ("heaviest", int(counts.max()))):
            whole = gaussian_epsilon(price.mu * math.sqrt(count), plan.delta) if price.mu else count * price.epsilon
            texts.append(f"{whole:.4g} for the {word} user's {count} ratings together")
        return (f"the unit is {UNITS['rating'].protected}; epsilon is {' and '.join(texts)}",)


class OneBit(DPOneBit):
    """The non-private baseline: the same solver on the signs as they are.

    ``flip_probability`` is for signs that were already randomised on the users' devices (``randomize_signs``): what
    was private before it came here stays so, though this ledger, which did not see it happen, cannot say it.
    """

    private = False

    def __init__(
        self,
        link: str = "logistic",
        threshold: float | None = None,
        entry_bound: float = 1.0,
        rank: float = 1.0,
        n_factors: int = 32,
        reg: float = 1.0,
        tol: float = 5e-3,
        max_iter: int = 60,
        flip_probability: float = 0.0,
    ) -> None:
        super().__init__(
            link=link,
            threshold=threshold,
            entry_bound=entry_bound,
            rank=rank,
            n_factors=n_factors,
            reg=reg,
            tol=tol,
            max_iter=max_iter,
        )
        self.flip_probability = flip_probability

    def _where(self) -> Perturbation:
        return NoPerturbation()

    def _check(self) -> None:
        super()._check()
        if not 0.0 <= self.flip_probability < 0.5:
            refuse("flip_probability", got=repr(self.flip_probability), needed="0 to below 0.5", try_="1/(1 + e^epsilon)")
