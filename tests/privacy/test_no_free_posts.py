"""A mechanism says what it costs, or it can't be made; what is not known is unsupported, and nothing is free."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowkey
from lowkey.errors import InputError, LowkeyError, PlanError
from lowkey.privacy.mechanisms import Gaussian, Laplace, Mechanism
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.randomized_response import RandomizedResponse

PRICES = ("mu", "epsilon", "own_delta", "noise_std")


def silent_about(*names: str) -> type[Mechanism]:
    """A mechanism that posts the exact sum and states all of its price but ``names``."""
    body: dict[str, Any] = {
        "kind": "exact",
        "mu": property(lambda self: 0.0),
        "epsilon": property(lambda self: 1.0),
        "own_delta": property(lambda self: 0.0),
        "noise_std": lambda self, statistic, adjacency: 0.0,
        "width": "0",
        "in_words": "none",
        "apply": lambda self, units, statistic, adjacency, noise: units.astype(np.float64),
    }
    return type("Exact", (Mechanism,), {name: value for name, value in body.items() if name not in names})


@pytest.mark.parametrize("name", PRICES)
def test_a_mechanism_without_a_price_can_not_be_made(name: str) -> None:
    silent_about()()
    with pytest.raises(TypeError, match=name):
        silent_about(name)()


def test_a_post_that_costs_nothing_is_no_plan() -> None:
    free = type("Free", (silent_about(),), {"epsilon": property(lambda self: 0.0)})
    with pytest.raises(PlanError, match="has no price"):
        _ = Plan("Test", (Line("sums", free(), 3),), 1e-6).price


def test_both_prices_of_a_mechanism_count() -> None:
    """One that has a mu and an epsilon pays for both: the mu does not hide the epsilon."""
    both = type("Both", (silent_about(),), {"mu": property(lambda self: 0.5), "epsilon": property(lambda self: 3.0)})
    alone = Plan("Test", (Line("sums", Gaussian(2.0), 3),), 1e-6).price.epsilon
    assert Plan("Test", (Line("sums", both(), 3),), 1e-6).price.epsilon > max(alone, 3.0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [Gaussian, Laplace, RandomizedResponse])
def test_senseless_noise_is_refused(kind: Any, value: float) -> None:
    with pytest.raises(InputError):
        kind(value)


def test_a_kind_that_nobody_knows_is_unsupported() -> None:
    plan = Plan("Test", (Line("sums", Gaussian(2.0), 3),), 1e-6).to_json()
    plan["lines"][0]["mechanism"]["kind"] = "subsampled"
    with pytest.raises(LowkeyError, match="unsupported"):
        Plan.from_json(plan)


def test_nobody_probes_for_a_price() -> None:
    """No getattr or hasattr asks a mechanism whether it has noise: the answer "no" would pass for a number."""
    for path in sorted(Path(lowkey.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
                asked = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
                assert not {"noise_multiplier", *PRICES[:1], *PRICES[2:]} & set(asked), f"{path.name}:{node.lineno}"
