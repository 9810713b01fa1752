"""`lowkey bench --ablation`: every switch of DPFactors thrown once, in one table; and the ceiling of its rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import taste
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import split_ratings
from lowkey_lab import compare
from lowkey_lab.factors import PAPER, PAPER_GRID, SWITCHES
from lowkey_lab.factors_ceiling import ceilings
from lowkey_lab.variants import varied


def test_every_switch_is_a_row_of_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Fits are left out: the error of a task is made of what it was asked."""
    asked: list[compare.Task] = []

    def fake(todo: list[compare.Task], *_: Any) -> list[dict[str, Any]]:
        asked.extend(todo)
        return [{"epsilon": t.epsilon, "tuning": t.tuning, "rmse": 1.0 + i / 100.0} for i, t in enumerate(todo)]

    monkeypatch.setattr(compare, "run", fake)
    options = ["--epsilons", "1,5", "--draws", "2", "--split", "3", "--delta", "1e-6", "--table", "markdown"]
    assert run(["bench", "--data", "ml-1m", "--ablation", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]  # after the head and its rule
    assert [row[0].removeprefix("| ") for row in rows] == [*SWITCHES, "DPBias"]
    assert rows[1][1:] == ["1.0450 ± 0.0050", "1.0650 ± 0.0050 |"]  # tasks 4 and 5, 6 and 7
    assert {(t.data, t.split_seed, t.delta) for t in asked} == {("ml-1m", 3, 1e-6)}
    assert [t.settings for t in asked[: 4 * len(SWITCHES) : 4]] == list(SWITCHES.values())


def test_all_settings_are_those_of_the_methods() -> None:
    domain = lk.Domain(500, (0.5, 5.0), expected_users=2000)
    budget = {"epsilon": 1.0, "delta": 1e-6}
    for settings in SWITCHES.values():
        assert varied(lk.DPFactors, **budget, **settings).plan(domain).price.epsilon == pytest.approx(1.0, rel=1e-6)
    last = {name: values[-1] for name, values in PAPER_GRID.items()}
    assert varied(lk.DPALS, **budget, **PAPER, **last).plan(domain).price.epsilon == pytest.approx(1.0, rel=1e-6)


def test_the_ceiling_rises_from_the_true_biases_and_no_fit_gets_above_it() -> None:
    """Enough noise leaves nothing but the true biases and the users' own offsets, here computed by hand."""
    made = taste(1500, 80, 40.0, seed=3)
    split = split_ratings(made.ratings(), 0.1, 3)
    drowned, private, exact = ceilings(split, made.truth, (1e-3, 4.0, 1e6), 1e-5)
    prior, noise = made.truth["mean"] + made.truth["item_bias"], 0.75**2 + 0.5**2 / 12.0  # rounded to half stars
    seen, hidden = split.histories, split.held_out
    offsets = (seen - (seen != 0) * prior).sum(axis=1) / (np.diff(seen.indptr) + noise / made.truth["user_bias"].var())
    owner = np.repeat(np.arange(1500), np.diff(hidden.indptr))
    predicted = np.clip(prior[hidden.indices] + offsets[owner], 0.5, 5.0)
    assert drowned == pytest.approx(np.sqrt(np.mean((hidden.data - predicted) ** 2)), rel=1e-3)
    fitted = lk.DPFactors(epsilon=4.0, delta=1e-5).fit(split.train)
    assert exact < private < evaluate(fitted, split.histories, split.held_out)["rmse"]
    assert private < 0.97 * drowned
