"""Public room: what every recommender shares: the contract of ``fit``, and nothing of any method."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings, as_ratings
from lowkey.engines.base import Engine
from lowkey.engines.local import LocalEngine
from lowkey.errors import AbsentError, InputError
from lowkey.methods.progress import Step, watched
from lowkey.model import Model, ModelMethods
from lowkey.privacy.accounting import gaussian_mu
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan, Request, check_epsilon_delta
from lowkey.privacy.unit import Unit


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


class Recommender(Unscored, ModelMethods, BaseEstimator, ABC):
    """A method is a plan made from public facts, and a loop that posts exactly that plan.

    ``__init__`` only stores. Every fit has a fresh billboard and starts anew; pass a billboard to compose several fits on
    the same people. Non-private baselines run the same code with ``private = False``: the sums are posted exactly.
    """

    private: ClassVar[bool] = True
    epsilon: float | None
    delta: float | None
    adjacency: str

    @abstractmethod
    def plan(self, domain: Domain) -> Plan:
        """Every release of a fit, its noise and its price, from hyper-parameters and public facts alone."""

    @abstractmethod
    def _run(self, ratings: Ratings, engine: Engine, billboard: Billboard) -> Model:
        """The method's loop. Everything it knows of the ratings comes back from ``billboard.post``."""

    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        domain: Domain | None = None,
        engine: Engine | None = None,
        billboard: Billboard | None = None,
        progress: bool | Callable[[Step], Any] = False,
    ) -> Self:
        """Fit on ``Ratings``, or on scipy CSR rows of users with an explicit ``domain``.

        ``progress=True`` shows on a terminal how many of the planned releases are made and the time left; a function
        in its place is told each ``Step``.
        """
        begun = self._begin(X, y, domain, engine, billboard)
        with watched(begun[-1], type(self).__name__, progress):
            self.model_ = self._run(*begun)
        return self

    def _begin(
        self, X: Any, y: None, domain: Domain | None, engine: Engine | None, billboard: Billboard | None
    ) -> tuple[Ratings, Engine, Billboard]:
        """The arguments of ``fit`` checked and filled in, and the plan announced on the billboard."""
        if y is not None:
            raise InputError(what="y", got="a target", needed="none: the ratings are in X", try_="fit(ratings)")
        ratings = as_ratings(X, domain)
        billboard = billboard if billboard is not None else Billboard()
        billboard.begin(self._plan_for(ratings))
        return ratings, engine if engine is not None else LocalEngine(), billboard

    def _plan_for(self, ratings: Ratings) -> Plan:
        return self.plan(ratings.domain)

    def _calibrated(self, domain: Domain, requests: list[Request], **settings: Any) -> Plan:
        """The plan of these requests at the estimator's epsilon, delta and adjacency."""
        public = (f"the catalogue of {domain.n_items} items, {domain.scale}", "all hyper-parameters")
        if self.adjacency == "replace-one":
            public = (*public, "the number of users")
        if not self.private:
            plan = Plan.calibrated(type(self).__name__, requests, epsilon=1.0, delta=0.5, public=public, settings=settings)
            return plan.without_noise()
        for name in ("epsilon", "delta"):
            if getattr(self, name) is None:
                raise InputError(what=name, got="none", needed="a number: it has no default", try_=f"{name}=…")
        assert self.epsilon is not None
        assert self.delta is not None
        return Plan.calibrated(
            type(self).__name__,
            requests,
            epsilon=self.epsilon,
            delta=self.delta,
            unit=Unit(neighbours=self.adjacency),  # pyright: ignore[reportArgumentType]  # it checks
            public=public,
            settings=settings,
        )

    def _mu(self) -> float:
        """The budget in Gaussian terms, infinite where none was given; replace-one halves what it buys."""
        if self.epsilon is None or self.delta is None:
            return math.inf
        check_epsilon_delta(self.epsilon, self.delta)
        return gaussian_mu(self.epsilon, self.delta) / (1.0 if self.adjacency == "add-remove" else 2.0)
