"""Public room: a fit once more, from its posts alone: what a method makes of them needs no data and costs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import PlanError
from lowkey.kernels.sweep import Sweep
from lowkey.methods.curator import Curator, Posts
from lowkey.methods.registry import private_methods
from lowkey.origin import Origin
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.plan import Plan
from lowkey.privacy.sums import Statistic

MOST_WHOLE = 1 << 16  # of a parameter that counts something, as a stranger's folder may say: rounds, a rank
SEED = "init_seed"


class Recital(Curator):
    """Answers with posts that were made already, in their order. There are no people behind it."""

    def __init__(self, plan: Plan, posts: Iterable[tuple[str, NDArray[np.float64]]]) -> None:
        billboard = Billboard()
        billboard.plan = plan
        super().__init__(None, None, billboard)  # pyright: ignore[reportArgumentType]  # nobody is asked
        self._left: dict[str, list[NDArray[np.float64]]] = {}
        for name, post in posts:
            self._left.setdefault(name, []).append(post)

    def ask(self, sweep: Sweep, local: Any = None) -> Posts:
        return Posts({statistic.name: self._next(statistic) for statistic in sweep.statistics}, self.noise(sweep))

    def _next(self, statistic: Statistic) -> NDArray[np.float64]:
        left = self._left.get(statistic.name, [])
        if not left or left[0].shape != statistic.shape:
            raise _other(f"no such post of {statistic.name!r}")
        return left.pop(0)

    def check_done(self) -> None:
        if any(self._left.values()):
            raise _other("posts that it does not use")


def method_of(name: str) -> Any:
    """The estimator of a class's name, if it is one of those that are released."""
    for place in private_methods().values():
        module, _, found = place.partition(":")
        if found == name:
            return getattr(import_module(module), found)
    return None


def remade(method: str, origin: Origin, domain: Domain, plan: Plan, names: Iterable[str]) -> Any:
    """What the method makes of the posts, whose names are given: a rule, its arrays and its numbers.

    The parameters may be a stranger's. They must lead to the very plan, so that rounds and sizes are those of the posts.
    """
    for name, value in origin.parameters.items():
        if isinstance(value, int) and abs(value) > MOST_WHOLE and name != SEED:
            raise _other(f"{name} of more than {MOST_WHOLE}")
    estimator = method_of(method)(**origin.parameters)
    settings = estimator.resolve(domain)
    if (found := estimator.plan_of(settings)).lines != plan.lines or found.unit != plan.unit:
        raise _other("other posts than were planned")
    curator = Recital(plan, zip(names, origin.posts.values(), strict=True))
    released = estimator._run(settings, curator)
    curator.check_done()
    return released


def _other(got: str) -> PlanError:
    return PlanError(
        what="a model made once more from its posts",
        got=got,
        needed="the parameters and posts of the fit",
        try_="its folder",
    )
