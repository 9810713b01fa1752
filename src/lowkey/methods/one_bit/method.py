"""Public room: one-bit completion: likes and dislikes, four kinds of noise, and a release without any user's row.

Paper: Li et al. 2021 (one-bit matrix completion with differential privacy), Algorithms 1 to 4. Deviates: sound
calibrations (docs/one-bit.md); the threshold is public; the item side is released and users fold in.

letter  meaning                              our word
alpha   bound on every score                 entry_bound
tau     radius of the nuclear-norm ball      entry_bound sqrt(n_users n_items rank)
K, C    noisy gradient steps, their clamp    n_iter, gradient_bound
lambda  ridge of output perturbation         ridge
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.engines.local import Engine
from lowkey.errors import InputError, refuse
from lowkey.linalg.norms import leading_svd
from lowkey.methods.base import Budget, Recommender, Released
from lowkey.methods.constraints import check, positive, share, whole, word
from lowkey.methods.curator import Curator
from lowkey.methods.one_bit.perturbations import PERTURBATIONS, NoPerturbation, Perturbation
from lowkey.methods.one_bit.settings import OneBitSettings
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.gaussian import gaussian_epsilon, gaussian_mu
from lowkey.privacy.guarantee import Unit
from lowkey.privacy.plan import Plan, Request, check_epsilon_delta

Array = NDArray[np.float64]
UNITS = {name: Unit(name, "values", "replace-one") for name in ("rating", "user")}


@dataclass(eq=False, repr=False)
class DPOneBit(Recommender):
    """Maximum likelihood of likes and dislikes under a nuclear-norm and an entrywise bound, noised in one of four places.

    **Who rated what is public**, whatever the unit. Without ``delta`` the guarantee is pure. The fitted model holds item
    factors; a user's side is fitted to their own signs, locally. Predictions are probabilities of a like.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost; ``delta=None`` is pure differential privacy.
    adjacency : {"replace-one"}
        Positions are public, so values are exchanged.
    perturbation : {"input", "objective", "gradient", "output"}
        Where the noise goes.
    link : {"logistic", "probit"}
        From a score to the chance of a like.
    unit : {"rating", "user"}
        Protects the value of one rating, or all values of one user.
    max_ratings : int, optional
        With ``unit="user"``: how many of a user's ratings are used.
    threshold : float, optional
        Ratings above it are likes; by default the middle of the range.
    entry_bound, rank : float
        Bounds on the scores, and on the nuclear norm by a rank.
    n_iter : int
        Rounds of gradient perturbation.
    n_factors : int
        Of the item side that is kept.

    Examples
    --------
    >>> model = lk.DPOneBit(epsilon=2.0, delta=1e-6, perturbation="input").fit(ratings)  # doctest: +SKIP
    >>> model.predict({"film 7": 5.0}, ["film 9"])  # doctest: +SKIP
    """

    constraints = {
        "adjacency": word("replace-one"),  # positions are public
        "perturbation": word(*PERTURBATIONS),
        "link": word("logistic", "probit"),
        "unit": word(*UNITS),
        "max_ratings": whole(),
        "entry_bound": positive(),
        "rank": positive(),
        "n_iter": whole(),
        "n_factors": whole(),
        "reg": positive(),
        "tol": positive(),
        "max_iter": whole(),
        "flip_probability": share(zero=True, below=0.5),
    }

    adjacency: str = "replace-one"
    perturbation: str = "input"
    link: str = "logistic"
    unit: str = "rating"
    max_ratings: int | None = None
    threshold: float | None = None
    entry_bound: float = 1.0
    rank: float = 1.0
    n_iter: int = 10
    n_factors: int = 32

    def resolve(self, domain: Domain, positions: Positions | None = None) -> OneBitSettings:
        """Every number of a fit with these public positions: they decide how many numbers are posted."""
        if positions is None:
            refuse(
                "positions", got="none", needed="who rated what, public here", try_="plan(domain, Positions.of(ratings))"
            )
        check(self.get_params(deep=False), self.constraints)
        return self._with_positions(domain, self._budget(), positions)

    def plan(self, domain: Domain, positions: Positions | None = None) -> Plan:
        """The plan for these public positions."""
        return self.plan_of(self.resolve(domain, positions))

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
        settings, curator = self._begin(X, y, domain, engine, billboard)
        scores = self._where(settings).run(settings, curator)
        self._keep(settings, _released(settings, scores), curator)
        return scores

    def _resolved_for(self, ratings: Ratings) -> OneBitSettings:
        return self.resolve(ratings.domain, Positions.of(ratings))

    def _settings(self, domain: Domain, budget: Budget) -> OneBitSettings:
        raise TypeError("one-bit settings need positions")

    def _requests(self, settings: OneBitSettings) -> list[Request]:
        raise TypeError("the lines of a one-bit plan bring their own noise")

    def _run(self, settings: OneBitSettings, curator: Curator) -> Released:
        return _released(settings, self._where(settings).run(settings, curator))

    def _with_positions(self, domain: Domain, budget: Budget, positions: Positions) -> OneBitSettings:
        if domain.rating_range is None:
            refuse(
                "feedback",
                got="binary feedback, where every entry is a like",
                needed="likes and dislikes: ratings with a range, and a threshold",
                try_="DPMoments, or a domain with rating_range=(0, 1) whose zeros are dislikes",
            )
        if self.unit == "user":
            if self.max_ratings is None:
                refuse("max_ratings", got="none", needed="how many ratings of a user count", try_="max_ratings=20")
            positions = positions.capped(self.max_ratings)
        return OneBitSettings(
            domain=domain,
            budget=budget,
            positions=positions,
            perturbation=self.perturbation,
            link_name=self.link,
            threshold=sum(domain.rating_range) / 2.0 if self.threshold is None else self.threshold,
            unit="user" if self.unit == "user" else "rating",
            signs=self.max_ratings if self.unit == "user" and self.max_ratings is not None else 1,
            pure_epsilon=self.delta is None,
            entry_bound=self.entry_bound,
            radius=self.entry_bound * math.sqrt(positions.n_users * positions.n_items * self.rank),
            n_iter=self.n_iter,
            n_factors=self.n_factors,
        )

    def _budget(self) -> Budget:
        if not self.private:
            return Budget(math.inf, 0.0, "replace-one", math.inf)
        if self.epsilon is None:
            raise InputError(what="epsilon", got="none", needed="a number: it has no default", try_="epsilon=…")
        check_epsilon_delta(self.epsilon, 0.5 if self.delta is None else self.delta)
        mu = 0.0 if self.delta is None else gaussian_mu(self.epsilon, self.delta)
        return Budget(self.epsilon, self.delta or 0.0, "replace-one", mu)

    def _where(self, settings: OneBitSettings) -> Perturbation:
        return PERTURBATIONS[settings.perturbation]

    def plan_of(self, settings: OneBitSettings) -> Plan:
        domain, where = settings.domain, self._where(settings)
        public = (
            f"the catalogue of {domain.n_items} items, {domain.scale}",
            f"who rated what ({settings.positions.n_users} users), and the threshold {settings.threshold:g}",
            "all hyper-parameters",
        )
        told = {"perturbation": settings.perturbation, "link": self.link}
        lines, delta = tuple(where.lines(settings)), settings.budget.delta
        plan = Plan(type(self).__name__, lines, delta, UNITS[settings.unit], public, settings=told)
        caveats = (*where.caveats(settings), *(_user_cost(plan, settings) if self.private else ()))
        return replace(plan, caveats=caveats)


class OneBit(DPOneBit):
    """The non-private baseline: the same solver on the signs as they are.

    Parameters
    ----------
    link, threshold, entry_bound, rank, n_factors
        As in ``DPOneBit``.
    reg : float
        Ridge of a user's side.
    tol, max_iter : float, int
        When the solver stops.
    flip_probability : float
        Of signs that were randomised on the users' devices (``randomize_signs``): what was private before it came here
        stays so, though this ledger, which did not see it happen, cannot say it.

    Examples
    --------
    >>> model = lk.OneBit(flip_probability=0.27).fit(randomised)  # doctest: +SKIP
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
        super().__init__(link=link, threshold=threshold, entry_bound=entry_bound, rank=rank, n_factors=n_factors)
        self.reg = reg
        self.tol = tol
        self.max_iter = max_iter
        self.flip_probability = flip_probability

    def _with_positions(self, domain: Domain, budget: Budget, positions: Positions) -> OneBitSettings:
        settings = super()._with_positions(domain, budget, positions)
        own = {"reg": self.reg, "tol": self.tol, "max_iter": self.max_iter, "flipped": self.flip_probability}
        return replace(settings, **own)

    def _where(self, settings: OneBitSettings) -> Perturbation:
        return NoPerturbation()


def _released(settings: OneBitSettings, scores: Array) -> Released:
    """The item side of X = U S V^T: factors V S/sqrt(n_users), for which the users' rows sqrt(n_users) U have
    second moment 1 each, which is what the prior of the fold-in (``reg`` = 1) says."""
    most = min(settings.n_factors, *scores.shape)
    if most < 1 or not scores.any():
        factors = np.zeros((settings.n_items, 0))
    else:
        _, values, right = leading_svd(scores, most, None, 1e-6, max_sweeps=30)
        kept = values > 1e-6 * values[0]
        factors = right[kept].T * (values[kept] / math.sqrt(scores.shape[0]))
    fitted = {
        "link": settings.link_name,
        "reg": settings.reg,
        "threshold": settings.threshold,
        "entry_bound": settings.entry_bound,
    }
    return Released("signs", {"item_factors": factors}, fitted)


def _user_cost(plan: Plan, settings: OneBitSettings) -> tuple[str, ...]:
    """What one rating's epsilon means for a whole user: known exactly, as the counts are public here."""
    if settings.unit == "user":
        return (f"of a user with more than {settings.signs} ratings, {settings.signs} are used",)
    counts = settings.positions.counts
    if not len(counts):
        return ()
    price, texts = plan.price, []
    for name, count in (("typical", int(np.median(counts))), ("heaviest", int(counts.max()))):
        total = gaussian_epsilon(price.mu * math.sqrt(count), plan.delta) if price.mu else count * price.epsilon
        texts.append(f"{total:.4g} for the {name} user's {count} ratings together")
    return (f"the unit is one rating's value; epsilon is {' and '.join(texts)}",)
