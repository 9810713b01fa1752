"""Lab room: estimators with some of their resolved settings changed: what is only there to be compared with.

A comparison says ``{"rank": 8, "bias_share": 0.0}``: what the estimator has as a parameter is given to it, and all else
are fields of its ``Settings``. Such a fit is as private as any other: its plan is made from what it uses.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from lowkey.errors import refuse
from lowkey.methods.base import Recommender, Settings

FACTS = {field.name for field in fields(Settings)}  # the domain and the budget are not a method's to choose


def varied(kind: type[Any], **given: Any) -> Any:
    """The estimator with these parameters and changed settings; one that is neither is refused when it resolves."""
    own = kind._get_param_names()
    changes = {name: value for name, value in given.items() if name not in own}
    return (variant(kind, changes) if changes else kind)(**{name: given[name] for name in given if name in own})


def variant(kind: type[Any], changes: dict[str, Any]) -> type[Any]:
    """A subclass whose resolved settings have these ``changes``: cloned like any estimator, and named after them."""

    hook = "_with_positions" if hasattr(kind, "_with_positions") else "_settings"  # one-bit resolves at its positions

    def settings(self: Recommender, *facts: Any) -> Settings:
        found = getattr(kind, hook)(self, *facts)
        known = sorted({field.name for field in fields(found)} - FACTS)
        for name in changes:
            if name not in known:
                refuse(name, got="no such setting", needed=" | ".join(known), try_=f"a parameter of {kind.__name__}")
        return replace(found, **changes)

    stated = ", ".join(f"{name}={value!r}" for name, value in changes.items())
    members = {"__init__": kind.__init__, "__doc__": kind.__doc__, "changes": changes, hook: settings}
    return type(f"{kind.__name__}({stated})", (kind,), members)
