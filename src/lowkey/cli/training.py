"""Public room: from the options of a command to a fitted model: the plan is shown and priced before data are touched."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lowkey.cli.screen import Screen
from lowkey.cli.spark import Cluster
from lowkey.cli.table import Table
from lowkey.data.domain import Domain
from lowkey.data.public import Public
from lowkey.data.ratings import Ratings
from lowkey.engines.local import Engine
from lowkey.errors import InputError, LowkeyError, refuse
from lowkey.methods.base import Recommender, Settings
from lowkey.methods.catalogue import PrivateCatalogue
from lowkey.methods.choice import GOALS, default_method
from lowkey.methods.registry import estimator
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.chain import LEDGER
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Plan, check_epsilon_delta
from lowkey.privacy.price import at_most

LARGEST_EPSILON = 1e4
NOMINAL_ITEMS = 1000  # of a private catalogue, whose size nobody knows before


@dataclass(frozen=True)
class Order:
    """What is to be fitted: all of it public, all of it fixed before the data are read."""

    table: Table
    epsilon: float
    delta: float
    adjacency: str
    method: str | None
    parameters: dict[str, Any]
    items: Any  # ids, or None for a private catalogue
    expected_users: int | None
    ledger: Path | None = None
    total_epsilon: float | None = None
    expect_head: str | None = None
    anchor: Path | None = None
    cluster: Cluster | None = None  # None: the passes run in this process
    goal: str = "lists"
    public_ratings: Path | None = None
    item_features: Path | None = None

    def __post_init__(self) -> None:
        check_epsilon_delta(self.epsilon, self.delta)
        if self.goal not in GOALS:
            refuse("--for", got=repr(self.goal), needed=" or ".join(GOALS), try_="--for lists")
        if self.epsilon > LARGEST_EPSILON:
            refuse(
                "--epsilon",
                got=f"{self.epsilon:g}, which promises nothing",
                needed=f"at most {LARGEST_EPSILON:g}, where two accountants can still compare",
                try_="--epsilon 1, or a baseline in Python if nothing is to be promised",
            )
        if self.adjacency not in ("add-remove", "replace-one"):
            refuse("--adjacency", got=repr(self.adjacency), needed="add-remove or replace-one", try_="leaving it out")
        about = {"--total-epsilon": self.total_epsilon, "--expect-head": self.expect_head, "--anchor": self.anchor}
        for name, value in about.items():
            if value is not None and self.ledger is None:
                refuse(name, got="no --ledger", needed="the ledger of these people", try_="--ledger people.jsonl")
        if self.total_epsilon is not None and not 0.0 < self.total_epsilon < math.inf:
            refuse(
                "--total-epsilon", got=f"{self.total_epsilon:g}", needed="a finite number above 0", try_="--total-epsilon 4"
            )

    @cached_property
    def selection(self) -> PrivateCatalogue | None:
        return PrivateCatalogue(self.epsilon, self.delta, self.adjacency) if self.items is None else None

    @cached_property
    def domain(self) -> Domain:
        """With a nominal number of items where the catalogue is private, and nobody knows yet."""
        ids = range(NOMINAL_ITEMS) if self.items is None else self.items
        return Domain(ids, self.table.scale, self.table.feedback, self.expected_users)

    def build(self) -> Recommender:
        """The estimator, with the part of the budget that is its own."""
        epsilon, delta = self.selection.rest() if self.selection else (self.epsilon, self.delta)
        # The method is fixed in the plan that was shown, so it does not follow the number of items that are selected.
        kind = estimator(self.method or default_method(self.domain, epsilon, delta, self.goal))
        names = kind._get_param_names()
        own = [name for name in names if name not in ("epsilon", "delta", "adjacency")]  # these have options of their own
        for name in self.parameters:
            if name not in own:
                refuse(
                    "--set",
                    got=f"{name!r}",
                    needed=f"a parameter of {kind.__name__}: {', '.join(own)}",
                    try_="one of those",
                )
        if not kind.private:
            refuse("--method", got="a non-private baseline", needed="a private method", try_="leaving it out")
        return kind(**{"epsilon": epsilon, "delta": delta, "adjacency": self.adjacency, **self.parameters})

    @cached_property
    def public(self) -> Public | None:
        """What is public already, with columns of the same names as those of the ratings."""
        if self.public_ratings is None and self.item_features is None:
            return None
        if self.selection:
            needed = "a public catalogue"
            refuse("--public-ratings and --item-features", got="--private-catalogue", needed=needed, try_="--items")
        table = self.table
        user, rating = table.user or "user", table.rating or "rating"
        return Public(self.public_ratings, self.item_features, user=user, item=table.item, rating=rating)

    @cached_property
    def resolved(self) -> tuple[Recommender, Settings]:
        """The estimator and every number of its fit; for a private catalogue with a nominal number of items."""
        domain, public = self.domain, self.public
        kind = self.build()
        return kind, kind.resolve(domain, public)

    @cached_property
    def plans(self) -> list[Plan]:
        """Every plan of this order, before any data."""
        try:
            kind, settings = self.resolved
            plan = kind.plan_of(settings)
        except LowkeyError:
            raise
        except (TypeError, ValueError, ArithmeticError):  # no data was touched: it is the parameters
            refuse("--set", got=f"{self.parameters}", needed="values that the method can use", try_="leaving them out")
        asked = self.selection.rest()[0] if self.selection else self.epsilon
        epsilon = plan.guarantee().price.epsilon
        if not epsilon <= asked * (1.0 + 1e-9):
            raise InputError(
                what=f"{plan.method} with these parameters",
                got=f"a guarantee of epsilon = {at_most(epsilon, 4)}",
                needed=f"at most the {asked:.4g} that was asked for",
                try_="its sound calibration, or a larger epsilon",
            )
        return ([self.selection.plan()] if self.selection else []) + [plan]

    def fit(self, rows: Ratings, billboard: Billboard, engine: Engine | None = None) -> Recommender:
        """As was planned; a private catalogue is known only now, and what depends on its size is resolved for it."""
        kind, settings = self.resolved
        return kind.fit(rows, engine=engine, billboard=billboard, settings=settings)

    def open_ledger(self, own: Path | None = None) -> Ledger:
        """The ledger of these people, or the release's ``own``."""
        if self.ledger is None:
            # The fit is planned after a selection was seen; a total that was fixed before makes that a bound.
            return Ledger(own, total=(self.epsilon, self.delta) if self.selection else None)
        total = None if self.total_epsilon is None else (self.total_epsilon, self.delta)
        return Ledger(self.ledger, total=total, expect_head=self.expect_head, anchor=self.anchor)

    def billboard(self, keep: Path, pay_again: bool) -> Billboard:
        """With a folder to keep the posts in: a fit that is cut off can go on with them."""
        return Billboard(self.open_ledger(keep / LEDGER), kept=KeptPosts(keep), pay_again=pay_again)


def train(order: Order, screen: Screen, keep: Path, pay_again: bool) -> Recommender:
    """Read, select the catalogue if it is private, fit. Posts are kept in the folder ``keep``, and used again from it."""
    if order.cluster is None:
        with screen.working("Reading the ratings") as report:
            table = order.table
            rows = table.read_uncatalogued(report) if order.selection else table.read(order.domain, report)
        return _fitted(order, rows, screen, keep, pay_again)
    from lowkey.engines.spark import SparkEngine

    with order.cluster.session() as session:
        with screen.working("Bringing each user's ratings together on Spark"):
            rows = order.cluster.read(session, order.table, None if order.selection else order.domain)
        return _fitted(order, rows, screen, keep, pay_again, SparkEngine(session))


def _fitted(
    order: Order, rows: Any, screen: Screen, keep: Path, pay_again: bool, engine: Engine | None = None
) -> Recommender:
    posts = sum(line.times for plan in order.plans for line in plan.lines)
    with screen.working("Posting noisy sums, and fitting to them", posts + 1) as advance:
        billboard = order.billboard(keep, pay_again)
        billboard.on_post = lambda name: advance()  # how many there will be is in the plan, hence public
        if order.selection:
            ids = order.selection.select(rows, billboard, order.plans[-1].lines, engine)
            rows = rows.with_items(ids, expected_users=order.expected_users)
        fitted = order.fit(rows, billboard, engine)
        advance()
    return fitted
