"""Lab room: a method without its noise, to see what the noise costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lowkey.methods.base import Recommender, Settings
from lowkey.privacy.plan import Plan


def exact_twin(kind: type[Any]) -> type[Any]:
    """The same method, with the settings that its budget gives it, and exact posts. NOT PRIVATE."""

    def plan(self: Recommender, settings: Settings) -> Plan:
        return kind.plan_of(self, replace(settings, budget=replace(settings.budget, mu=math.inf)))

    return type(f"Exact{kind.__name__}", (kind,), {"__init__": kind.__init__, "plan_of": plan})
