"""Feasibility of lists: a few unseen crowds end as was said, and the fit of the constants finds known ones."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowkey.methods import feasibility
from lowkey.methods.lists import kept
from lowkey.methods.lists.kept import Signs, may_be_behind, share_left
from lowkey.privacy.gaussian import gaussian_mu
from lowkey_lab.crowds import Crowd, Shape, factors, groups, places
from lowkey_lab.feasible import BEHIND, DELTA, Cell, best_of_any, cells, fitted, said


@pytest.mark.parametrize("make", [factors, groups, places])
def test_unseen_crowds_end_as_was_said(make) -> None:
    """At these two epsilons about all or nothing is kept: 0.3 is twice what four of five crowds are held to."""
    rows = make(np.random.default_rng(1), Shape(2500, 200, 15.0, strength=3.0))
    for cell in cells(Crowd(make.__name__, rows, 1000), (0.5, 20.0)):
        assert not cell.below or (cell.before.may_be_behind and may_be_behind(cell.signs))
        if cell.gains:
            assert share_left(cell.signs) == pytest.approx(cell.kept, abs=0.3)
        assert len(cell.line().split()) > 8


def made_up(number: int) -> list[Cell]:
    rng, found = np.random.default_rng(2), []
    for i in range(number):
        facts, epsilon = (int(rng.integers(300, 20_000)), int(rng.integers(100, 3000))), float(np.exp(rng.uniform(-1, 3)))
        signs = Signs(
            heard=rng.uniform(0.02, 0.98),
            shown=rng.uniform(0.1, 1.2),
            spread=float(np.exp(rng.uniform(-6, -3))),
            explained=0.1,
            head_share=rng.uniform(0.3, 1.0),
        )
        cell = Cell(f"made up {i}", facts, epsilon, 0.2, 0.3, 0.2 + 0.1 * share_left(signs), signs)
        found.append(cell)
    return found


def test_the_fit_finds_known_constants() -> None:
    first, second = fitted(made_up(300))
    found = [float(number) for number in re.findall(r"-?[\d.]+", first.partition("=")[2])]
    assert found == pytest.approx([kept.HEAD, kept.LEVEL, kept.HEARD, kept.SHOWN, kept.SPREAD], rel=0.05, abs=0.03)
    assert second.startswith("feasibility.py")
    some = made_up(1500)
    usual = [cell._replace(found=0.2 + 0.1 * cell.before.usual) for cell in some]
    power, halves = fitted(usual)[1].partition("=")[2].split("; HALF = ")
    assert float(power) == pytest.approx(feasibility.POWER, rel=0.1)
    assert float(halves.strip("()").split(",")[1]) == pytest.approx(feasibility.HALF[1], rel=0.1)


def test_what_is_counted() -> None:
    signs = Signs(0.95, 1.0, 0.01, 0.1, 1.0)
    kept_all, nothing = (
        Cell("a", (50_000, 200), 5.0, 0.2, 0.3, 0.3, signs),
        Cell("b", (50_000, 200), 5.0, 0.2, 0.3, 0.19, signs),
    )
    no_gain = Cell("c", (50_000, 200), 5.0, 0.2, 0.205, 0.2 - 2 * BEHIND, None)
    text = "\n".join(said([kept_all, nothing, no_gain]))
    assert "3 cells of 3 crowds; without noise 2 gain" in text
    assert "below popularity and warned 0 of 1 (0%); not below and warned 0 of 1" in text  # nothing, before and after
    assert "after: of crowds that gain nothing, below popularity and warned 1 of 1 (100%)" in text
    assert "than 1 of 2 (50%)" in best_of_any([kept_all, nothing, no_gain])
    assert gaussian_mu(5.0, DELTA) * 50_000 > 1e4
