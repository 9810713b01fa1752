"""Public room: what hyper-parameters may be: one table per estimator, one check, one kind of message.

A constraint says which values are fine; ``None`` always is where it stands for a default. NaN is never fine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowkey.errors import refuse


@dataclass(frozen=True)
class Constraint:
    """Which values a hyper-parameter may take; ``needed`` says it in words."""

    needed: str
    holds: Callable[[Any], bool]
    optional: bool = True  # None: the default

    def allows(self, value: Any) -> bool:
        return self.optional if value is None else bool(self.holds(value))


def whole(low: int = 1, high: int | None = None) -> Constraint:
    """A whole number from ``low`` on."""
    most = math.inf if high is None else high
    text = f"a whole number, {low} or more" if high is None else f"a whole number, {low} to {high}"
    fine = lambda v: isinstance(v, int | np.integer) and not isinstance(v, bool) and bool(low <= v <= most)
    return Constraint(text, fine)


def positive() -> Constraint:
    """A finite number above 0: bounds, ridges, steps. Beyond 1e100 squares would overflow."""
    return Constraint("a finite number above 0", lambda v: _number(v) and 0.0 < v < 1e100)


def not_negative() -> Constraint:
    return Constraint("a finite number, 0 or more", lambda v: _number(v) and 0.0 <= v < 1e100)


def share(*, zero: bool = False, one: bool = False, below: float = 1.0) -> Constraint:
    """A part of a whole: between 0 and ``below``; the ends only where they make sense."""
    ends = f"{'from 0' if zero else 'above 0'} to {'' if one else 'below '}{below:g}"
    fine = lambda v: (v >= 0.0 if zero else v > 0.0) and (v <= below if one else v < below)
    return Constraint(f"a share, {ends}", lambda v: _number(v) and fine(v))


def word(*known: str) -> Constraint:
    return Constraint(" or ".join(map(repr, known)), lambda v: isinstance(v, str) and v in known)


def flag() -> Constraint:
    return Constraint("True or False", lambda v: isinstance(v, bool | np.bool_))


def either(*constraints: Constraint) -> Constraint:
    return Constraint(" or ".join(c.needed for c in constraints), lambda v: any(c.holds(v) for c in constraints))


def check(parameters: Mapping[str, Any], constraints: Mapping[str, Constraint]) -> None:
    """Refuse the first hyper-parameter that is not fine. Called once per fit, before anything else."""
    for name, value in parameters.items():  # a subclass may have fewer than its table
        if name in constraints and not constraints[name].allows(value):
            refuse(name, got=repr(value), needed=constraints[name].needed, try_=f"leaving {name} out")


def within_catalogue(name: str, value: int, n_items: int) -> None:
    """Refuse a number of things that there are not in the catalogue."""
    if value > n_items:
        refuse(name, got=repr(value), needed=f"1 to {n_items}, the size of the catalogue", try_=f"leaving {name} out")


def _number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
