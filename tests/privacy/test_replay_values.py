"""The replay harness for methods that protect values: who rated what is public, a neighbour has other values.

The unit is one rating (one value differs) or one user (all values of one row differ). Whole fits only: 250 neighbours
of each of nine configurations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from estimators import DOMAINS, N_USERS, Row, base_keys, base_rows, stars
from replay import Violation, record, replay
from resolved import with_settings

from lowkey.kernels import one_bit as kernel
from lowkey.methods.one_bit.method import DPOneBit
from lowkey.privacy.noise import SeededNoise

DOMAIN = DOMAINS["ratings"]
QUICK = {"max_iter": 3, "tol": 0.5}
USER = {"unit": "user", "max_ratings": 5}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    # what is solved after the only post is the same for every neighbour: a few steps are enough
    "input": {"perturbation": "input", **QUICK},
    "input, user": {"perturbation": "input", **USER, **QUICK},
    "objective": {"perturbation": "objective", **QUICK},
    "objective, gaussian, user": {"perturbation": "objective", "delta": 1e-6, **USER, **QUICK},
    "gradient": {"perturbation": "gradient", "n_iter": 3},
    "gradient, probit, gaussian": {"perturbation": "gradient", "n_iter": 3, "link": "probit", "delta": 1e-6},
    "gradient, user": {"perturbation": "gradient", "n_iter": 2, "gradient_bound": 0.3, **USER},
    "output": {"perturbation": "output", "ridge": 0.3},
    "output, probit, gaussian": {"perturbation": "output", "ridge": 0.3, "link": "probit", "delta": 1e-6},
}
NEIGHBOURS = 250


def make(settings: dict[str, Any]) -> DPOneBit:
    """With hyper-parameters, and with numbers of the resolved settings, which have no parameter."""
    own = {name: value for name, value in settings.items() if name in DPOneBit._get_param_names()}
    changes = {name: value for name, value in settings.items() if name not in own}
    return with_settings(DPOneBit, **changes)(epsilon=1.0, **own)


def with_other_values(rows: list[Row], unit: str, rng: np.random.Generator) -> list[Row]:
    """One value of one user, or all values of one user, drawn anew; often to the far side of the threshold."""
    changed = list(rows)
    who = int(rng.choice([u for u, (items, _) in enumerate(rows) if len(items)]))
    items, values = rows[who]
    choices = stars(DOMAIN) if rng.random() < 0.3 else stars(DOMAIN)[[0, -1]]
    drawn = rng.choice(choices, len(items)).astype(np.float32)
    if unit == "user":
        changed[who] = items, drawn if rng.random() < 0.5 else np.float32(5.5) - values  # all to the other side
    else:
        where = int(rng.integers(len(items)))
        changed[who] = items, np.where(np.arange(len(items)) == where, drawn, values).astype(np.float32)
    return changed


@pytest.mark.parametrize("settings", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_neighbours_with_other_values(settings: dict[str, Any]) -> None:
    rows, keys = base_rows(DOMAIN), base_keys()
    known = record(make(settings), DOMAIN, rows, keys, SeededNoise(12))
    rng = np.random.default_rng(6)
    count = NEIGHBOURS if settings["perturbation"] != "output" else 40  # each solves a problem to a certificate
    largest = [
        replay(known, make(settings), DOMAIN, with_other_values(rows, settings.get("unit", "rating"), rng), keys)
        for _ in range(count)
    ]
    if settings["perturbation"] != "output":
        assert max(largest) > 0.5  # somebody comes near the bound
    assert max(largest) > 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class UnclampedGradient(kernel.ClampedGradient):
    """A seeded bug: the clamp is gone, the declared bound is not."""

    def contributions(self, signs: Any, scores: Any) -> Any:
        gradient = -signs * self.link.slope(signs * scores) * 4.0
        return np.trunc(gradient / kernel.Grid.for_bound(self.gradient_bound, kernel.BITS).step).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "broken", "configuration"),
    [("ClampedGradient", UnclampedGradient, "gradient"), ("Responses", kernel.Signs, "objective")],
)
def test_the_harness_sees_a_missing_clamp(
    name: str, broken: Any, configuration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the clamp, or with signs (a flip moves them by 2) where responses (by 1) were declared."""
    from lowkey.methods.one_bit import perturbations

    if broken is kernel.Signs:

        @dataclass(frozen=True, kw_only=True, eq=False)
        class SignsForResponses(kernel.Responses):
            def run(self, block: Any, local: Any, sums: Any) -> None:
                slots, signs = self.placed(block)
                sums["responses"][slots] += signs.astype(np.int64)

        broken = SignsForResponses
    monkeypatch.setattr(perturbations, name, broken)
    rows, keys = base_rows(DOMAIN), base_keys()
    settings = CONFIGURATIONS[configuration]
    rng = np.random.default_rng(6)
    known = record(make(settings), DOMAIN, rows, keys, SeededNoise(12))
    neighbours = [with_other_values(rows, "rating", rng) for _ in range(50)]
    with pytest.raises(Violation, match="times the declared sensitivity"):
        _ = [replay(known, make(settings), DOMAIN, changed, keys) for changed in neighbours]


def test_nobody_else_may_change() -> None:
    """Control: two users with other values are more than one unit, and the harness says so."""
    rows, keys = base_rows(DOMAIN), base_keys()
    settings = CONFIGURATIONS["input"]
    known = record(make(settings), DOMAIN, rows, keys, SeededNoise(12))
    changed = [(items, np.float32(5.5) - values) for items, values in rows]
    assert len(changed) == N_USERS
    with pytest.raises(Violation, match="times the declared sensitivity"):
        replay(known, make(settings), DOMAIN, changed, keys)
