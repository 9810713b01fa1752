"""Public room: the estimator that chooses a method by the public rule, as the command line does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lowkey.data.domain import Domain
from lowkey.data.public import Public
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.choice import GOALS, default_method
from lowkey.methods.constraints import word
from lowkey.methods.curator import Curator
from lowkey.methods.registry import estimator
from lowkey.privacy.plan import Plan, Request


@dataclass(eq=False, repr=False)
class DPRecommender(Recommender):
    """A private recommender for ``goal="lists"`` (what to take next) or ``goal="ratings"`` (what a rating would be).

    Which method that is follows from public facts alone (``methods.choice.default_method``); ``method_`` is the fitted
    estimator of it.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    goal : {"lists", "ratings"}
        What to be good at.

    Examples
    --------
    >>> model = lk.DPRecommender(epsilon=1.0, delta=1e-6).fit(ratings)  # doctest: +SKIP
    >>> type(model.method_).__name__  # doctest: +SKIP
    'DPLists'
    """

    constraints = {"goal": word(*GOALS)}
    method_: Recommender = field(init=False)

    goal: str = "lists"

    def choose(self, domain: Domain) -> Recommender:
        """The estimator for this domain, not fitted."""
        budget = self._budget()
        kind: Any = estimator(default_method(domain, budget.epsilon, budget.delta, self.goal))
        return kind(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency)

    def _settings(self, domain: Domain, budget: Budget) -> Settings:
        return self.choose(domain).resolve(domain)

    def resolve(self, domain: Domain, public: Public | None = None) -> Settings:
        return self.choose(domain).resolve(domain, public)

    def plan_of(self, settings: Settings) -> Plan:
        return self.choose(settings.domain).plan_of(settings)

    def _requests(self, settings: Settings) -> list[Request]:
        return self.choose(settings.domain)._requests(settings)

    def _run(self, settings: Settings, curator: Curator) -> Released:
        self.method_ = self.choose(settings.domain)
        return self.method_._run(settings, curator)

    def _keep(self, settings: Settings, released: Released, curator: Curator) -> None:
        self.method_._keep(settings, released, curator)
        self.model_ = self.method_.model_
