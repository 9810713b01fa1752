"""Public room: what every recommender shares: the contract of ``fit``, and nothing of any method."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, Unpack

from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

from lowkey.data.domain import Domain
from lowkey.data.public import Public
from lowkey.data.ratings import Ratings
from lowkey.data.readers import FrameColumns, as_ratings
from lowkey.engines.local import Engine, LocalEngine
from lowkey.errors import AbsentError, InputError, refuse
from lowkey.methods.constraints import Constraint, check
from lowkey.methods.curator import Curator, fingerprint_of
from lowkey.methods.knowledge import NOTHING, Knowledge, knowledge_of
from lowkey.methods.progress import Step, watched
from lowkey.model import Model
from lowkey.model_methods import ModelMethods
from lowkey.origin import Origin
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.gaussian import gaussian_mu
from lowkey.privacy.guarantee import Unit
from lowkey.privacy.plan import Plan, Request, check_epsilon_delta


@dataclass(frozen=True)
class Budget:
    """What a fit may cost. In Gaussian terms it is ``mu``, infinite for a baseline, which adds no noise."""

    epsilon: float
    delta: float
    adjacency: str
    mu: float
    signal: float = field(init=False)  # what one user's contribution of norm 1 is over its noise, about

    def __post_init__(self) -> None:  # replace-one halves what a budget buys
        object.__setattr__(self, "signal", self.mu if self.adjacency == "add-remove" else self.mu / 2.0)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every number of a fit, resolved once from hyper-parameters and public facts. Methods add their own fields."""

    domain: Domain
    budget: Budget
    knowledge: Knowledge = NOTHING  # what is public of the items already
    n_items: int = field(init=False)
    # The rating range, its middle and its width: no numbers where there is none, and no bound can be made of them.
    limits: tuple[float, float] = field(init=False)
    center: float = field(init=False)
    spread: float = field(init=False)

    def __post_init__(self) -> None:
        low, high = self.domain.rating_range or (math.nan, math.nan)
        known = {"n_items": self.domain.n_items, "limits": (low, high), "center": (low + high) / 2.0, "spread": high - low}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    def told(self) -> dict[str, Any]:
        """What the plan says of them, for people."""
        return {}


class Released(NamedTuple):
    """What a method's loop leaves behind: the rule that uses it, its arrays and its numbers. All public."""

    rule: str
    arrays: Mapping[str, Any]
    settings: Mapping[str, Any]


class Unscored:
    """An estimator whose ``score`` is refused, whatever scikit-learn would give it."""

    @property
    def score(self) -> Any:
        """Not offered: a score on private data is a release of its own, and so is the choice among several fits."""
        raise AbsentError(
            what="a search over hyper-parameters with scores on private data",
            got=f"{type(self).__name__}.score, as GridSearchCV and cross_val_score use it",
            needed="a budget for it: every candidate's fit and every score on the same people composes",
            try_="the defaults, which depend on public facts only, or tuning on public data of a similar kind "
            "(lowkey.evaluation), whose result costs nothing",
        )


@dataclass(eq=False, repr=False)
class Recommender(Unscored, ModelMethods, BaseEstimator, ABC):
    """A method is settings resolved from public facts, a plan made from them, and a loop that posts exactly that plan.

    A method is a dataclass: its fields are its hyper-parameters, and ``__init__`` only stores them. Every fit has a fresh
    billboard and starts anew; pass a billboard to compose several fits on the same people. Non-private baselines run the
    same code with ``private = False``: the sums are posted exactly.
    """

    private: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {}  # of the method's own hyper-parameters
    uses_public: ClassVar[bool] = False  # whether a fit can use what is public already
    epsilon: float | None = None
    delta: float | None = None
    adjacency: str = "add-remove"

    def _html_repr(self) -> str:
        """In a notebook: what was fitted and what it promises; before that, the parameters, as scikit-learn shows them."""
        return self.model_._repr_html_() if hasattr(self, "model_") else estimator_html_repr(self)

    @abstractmethod
    def _settings(self, domain: Domain, budget: Budget) -> Settings:
        """Hyper-parameters with their defaults filled in from public facts; they are checked already."""

    @abstractmethod
    def _requests(self, settings: Any) -> list[Request]:
        """Every release of a fit, with its share of the budget."""

    @abstractmethod
    def _run(self, settings: Any, curator: Curator) -> Released:
        """The method's loop. Everything it knows of the ratings comes back from ``curator.ask``."""

    def resolve(self, domain: Domain, public: Public | None = None) -> Settings:
        """Every number that a fit on this domain would use, from hyper-parameters and public facts alone."""
        budget = self._budget()
        check(self.get_params(deep=False), self.constraints)
        settings = self._settings(domain, budget)
        if public is None:
            return settings
        if not self.uses_public:
            refuse(
                f"public= of {type(self).__name__}",
                got="a method that has no use for it",
                needed="DPFactors, DPBias or DPMoments for ratings, DPLists for lists",
                try_="one of these, or leaving it out",
            )
        return self._informed(replace(settings, knowledge=knowledge_of(public, domain)))

    def _informed(self, settings: Any) -> Settings:
        """The settings, where what is public changes more of them than what it says."""
        return settings

    def plan(self, domain: Domain, public: Public | None = None) -> Plan:
        """Every release of a fit, its noise and its price, from hyper-parameters and public facts alone."""
        return self.plan_of(self.resolve(domain, public))

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        domain: Domain | None = None,
        public: Public | None = None,
        engine: Engine | None = None,
        billboard: Billboard | None = None,
        settings: Settings | None = None,
        progress: bool | Callable[[Step], Any] = False,
        **columns: Unpack[FrameColumns],
    ) -> Self:
        """Fit on ``Ratings``; or, with an explicit ``domain``, on scipy CSR rows of users, or on a frame of pandas, polars,
        Arrow or DuckDB whose columns are named: ``fit(frame, domain=domain, user="user", item="film", rating="stars")``,
        and what else ``from_frame`` takes.

        ``public`` is what is public already: others' ratings, item features. It costs nothing and protects nobody in it.
        ``settings`` are what ``resolve`` returned for this domain, if that was called before.
        ``progress=True`` shows on a terminal how many of the planned releases are made and the time left; a function
        in its place is told each ``Step``.
        """
        resolved, curator = self._begin(X, y, domain, engine, billboard, settings, columns, public)
        with watched(curator.billboard, type(self).__name__, progress) if progress else nullcontext():
            self._keep(resolved, self._run(resolved, curator), curator)
        return self

    def _begin(
        self,
        X: Any,
        y: None,
        domain: Domain | None,
        engine: Engine | None,
        billboard: Billboard | None,
        settings: Settings | None = None,
        columns: FrameColumns | None = None,
        public: Public | None = None,
    ) -> tuple[Any, Curator]:
        """The arguments of ``fit`` checked, everything resolved, and the plan announced on the billboard."""
        if y is not None:
            raise InputError(what="y", got="a target", needed="none: the ratings are in X", try_="fit(ratings)")
        ratings = as_ratings(X, domain, **(columns or {}))
        same, named = ratings.domain, ratings.columns
        if settings is None or (settings.domain is not same and settings.domain != same):
            settings = self._resolved_for(ratings) if public is None else self.resolve(ratings.domain, public)
        billboard = billboard if billboard is not None else Billboard()
        plan = self.plan_of(settings)
        if named is not None:
            user, item = named
            plan = replace(plan, public=(*plan.public, f"the columns: one {user!r} is protected, {item!r} is recommended"))
        domain = settings.domain
        said = (type(self).__name__, self.get_params(), domain.to_json(), [*domain.item_ids.buffers()], plan.public)
        curator = Curator(ratings, engine if engine is not None else LocalEngine(), billboard)
        billboard.begin(plan, settings=fingerprint_of(said))
        return settings, curator

    def _keep(self, settings: Settings, released: Released, curator: Curator) -> None:
        billboard = curator.billboard
        posted = billboard.posted if settings.knowledge is NOTHING else None  # what is public elsewhere is not at hand
        origin = Origin.of(self.get_params(), posted)
        self.model_ = Model(type(self).__name__, *released, settings.domain, billboard.ledger, origin)

    def _resolved_for(self, ratings: Ratings) -> Settings:
        return self.resolve(ratings.domain)

    def plan_of(self, settings: Settings) -> Plan:
        """The plan of a fit with these settings, as ``resolve`` returns them."""
        domain, budget = settings.domain, settings.budget
        public = (f"the catalogue of {domain.n_items} items, {domain.scale}", "all hyper-parameters")
        if budget.adjacency == "replace-one":
            public = (*public, "the number of users")
        public = (*public, *settings.knowledge.facts)
        return Plan.calibrated(
            type(self).__name__,
            self._requests(settings),
            epsilon=budget.epsilon,
            delta=budget.delta,
            mu=budget.mu,
            unit=Unit(neighbours=budget.adjacency),  # pyright: ignore[reportArgumentType]  # it checks
            public=public,
            settings=settings.told(),
        )

    def _budget(self) -> Budget:
        if not self.private:
            return Budget(1.0, 0.5, "add-remove", math.inf)
        for name in ("epsilon", "delta"):
            if getattr(self, name) is None:
                raise InputError(what=name, got="none", needed="a number: it has no default", try_=f"{name}=…")
        assert self.epsilon is not None
        assert self.delta is not None
        check_epsilon_delta(self.epsilon, self.delta)
        return Budget(self.epsilon, self.delta, self.adjacency, gaussian_mu(self.epsilon, self.delta))
