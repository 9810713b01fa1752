"""The bounds of DPLMC's sums, attacked round by round with rows that reach them, in exact arithmetic.

Public values are chosen against the bounds: starts far outside the ball, steps a thousand times too long. Every attack
also says how close it came, so that a bound that is needlessly wide, or never reached, shows.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from estimators import DOMAINS, as_row, base_keys, base_rows
from replay import one_thread, record, replay
from test_replay import neighbour

import lowkey as lk
from lowkey.data.ratings import Block
from lowkey.kernels.lmc import GradientRound
from lowkey.kernels.spectral_start import StartGram
from lowkey.privacy.noise import SeededNoise

N_ITEMS, RANK, ALPHA, G = 6, 2, 0.7, 1.9
ROWS = [
    ([0, 1], [3.0, -4.0]),
    ([0, 1], [-3.0, 4.0]),
    ([0], [4.0]),
    ([0], [-4.0]),
    ([1], [4.0]),
    ([1, 3], [4.0, 4.0]),
    ([0, 1, 2, 3, 4, 5], [4.0] * 6),
    ([0, 1, 2, 3, 4, 5], [4.0, -4.0, 4.0, -4.0, 4.0, -4.0]),
    ([2, 5], [1e-3, -1e-6]),
    ([], []),
]
# Item rows along the two axes, so that some users are driven to one end of the ball and others to a right angle.
AXES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0], [-0.6, 0.8], [0.3, 0.3]])
WEIGHTS = np.array([1.0, 1.4, 0.6, 2.0, 1.0, 0.8])


def public(start: str, step: str) -> dict[str, Any]:
    gain = {"mapped": 1.0, "mapped far": 1e3, "not a number": math.nan}.get(start)
    return {
        "n_items": N_ITEMS,
        "center": 0.0,
        "item_bias": np.zeros(N_ITEMS),
        "item_weights": WEIGHTS,
        "item_factors": 0.5 * AXES,
        "user_map": None if gain is None else gain * AXES,
        "start_std": 5.0,
        "init_seed": 3,
        "last_factors": AXES,
        "pull": np.array([[0.2, -0.1], [-0.1, 0.3]]) * (1.0 if step == "short" else -1e3),
        "user_step": 0.3 if step == "short" else 1e3,
        "least_ratings": 2.5,
        "own_counts": step == "short",
    }


def added(sweep: Any, facts: dict[str, Any], row: Any, rounds: int, key: int = 7) -> dict[str, np.ndarray]:
    """What one user adds to each sum in the last of ``rounds`` rounds, in grid units."""
    items, values = np.array(row[0], np.int32), np.array(row[1], np.float32)
    block = Block(np.array([0, len(items)]), items, values, np.array([key], np.uint64))
    local, sums = None, {}
    for _ in range(rounds):
        sums = {s.name: np.zeros(s.shape, np.int64) for s in sweep.statistics(facts)}
        local = sweep.run(block, local, facts, sums)
    return sums


def squared_size(statistic: Any, units: np.ndarray) -> Fraction:
    """The squared norm of a move, of the full matrix for a packed triangle, as an exact fraction."""
    weights = np.ones(units.size, np.int64)
    if statistic.layout == "symmetric":
        rows, columns = np.triu_indices(statistic.order)
        weights = np.where(rows == columns, 1, 2)
    total = sum(int(w) * int(d) ** 2 for w, d in zip(weights, units.ravel(), strict=True))
    return total * Fraction(2) ** (2 * statistic.grid.exponent)


def attack(sweep: Any, facts: dict[str, Any], rounds: int = 1) -> dict[tuple[str, str], float]:
    """All rows alone and all pairs; the largest move as a share of the declared bound, by sum and adjacency."""
    with one_thread():
        users = [added(sweep, facts, row, rounds, key) for row in ROWS for key in (7, 11)]
    largest: dict[tuple[str, str], float] = {}
    for s in sweep.statistics(facts):
        allowed = {a: Fraction(s.sensitivity.under(a)) ** 2 for a in ("add-remove", "replace-one")}
        moves = [("add-remove", user[s.name]) for user in users]
        moves += [("replace-one", a[s.name] - b[s.name]) for a, b in itertools.combinations(users, 2)]
        for adjacency, move in moves:
            share = squared_size(s, move) / allowed[adjacency]
            assert share <= 1, (s.name, adjacency, math.sqrt(share))
            largest[s.name, adjacency] = max(largest.get((s.name, adjacency), 0.0), math.sqrt(share))
    return largest


@pytest.mark.parametrize("step", ["short", "long"])
@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("start", ["mapped", "mapped far", "drawn", "not a number"])
def test_no_user_moves_a_round_further_than_declared(start: str, rounds: int, step: str) -> None:
    """With the projection of the start, of a step, or the clip of the residuals deleted, this is what turns red."""
    attack(GradientRound(ALPHA, G, 1.0), public(start, step), rounds)
    attack(GradientRound(ALPHA, G, math.inf), public(start, step), rounds)


def test_the_bounds_are_reached() -> None:
    """Two users at right angles reach sqrt(2) alpha^2, two with opposite residuals along one row reach 2 G alpha."""
    largest = attack(GradientRound(ALPHA, G, math.inf), public("mapped far", "short"))
    assert min(largest["user_gram", "add-remove"], largest["user_gram", "replace-one"]) > 0.9999
    assert largest["item_gradient", "add-remove"] > 0.9999
    # Nothing is predicted, so residuals are minus the rows. Both users' rows lie along item 0; a grain of item 2, which the
    # map makes much of, turns the second user's start around.
    turned = np.zeros((N_ITEMS, RANK))
    turned[0, 0], turned[2, 0] = 1e3, -1e9
    facts = {**public("mapped", "short"), "user_map": turned, "item_factors": np.zeros((N_ITEMS, RANK))}
    sweep = GradientRound(ALPHA, G, math.inf)
    statistic = sweep.statistics(facts)[1]
    one, other = (added(sweep, facts, row, 1)["item_gradient"] for row in (([0], [4.0]), ([0, 2], [4.0, 1e-3])))
    moved = math.sqrt(squared_size(statistic, one - other)) / statistic.sensitivity.replace_one
    assert 0.9999 < moved <= 1.0


@pytest.mark.parametrize("per_rating", [False, True])
@pytest.mark.parametrize("offset_reg", [1.0, math.inf])
def test_no_user_moves_the_start_further_than_declared(per_rating: bool, offset_reg: float) -> None:
    largest = attack(StartGram(G, offset_reg, per_rating), public("mapped", "short"))
    assert min(largest.values()) > 0.9999


def test_a_random_start_belongs_to_the_user_and_not_to_the_place() -> None:
    """The rows that users draw follow their keys: alone or among others, in any order, for any seed."""
    sweep, facts = GradientRound(5.0, G, math.inf), {**public("drawn", "short"), "start_std": 0.4}
    keys = np.array([5, 99, 12], np.uint64)
    block = Block(np.zeros(4, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), keys)
    empty = {s.name: np.zeros(s.shape, np.int64) for s in sweep.statistics(facts)}
    together = sweep.run(block, None, facts, empty)
    for place, key in enumerate(keys):
        alone = Block(np.zeros(2, np.int64), block.items, block.values, np.array([key]))
        assert np.array_equal(sweep.run(alone, None, facts, empty)[0], together[place])
    assert len(np.unique(together[:, 1:])) == 3 * RANK
    assert not np.array_equal(sweep.run(block, None, {**facts, "init_seed": 4}, empty), together)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", [lk.DPALS, lk.DPFactors])
def test_the_start_in_other_methods(method: Any, adjacency: str) -> None:
    """Whole replays of the methods that borrow the start: a few of the users that reach its bound."""
    domain = DOMAINS["ratings"]
    make = lambda: method(1.0, 1e-6, adjacency, rank=3, n_iter=1, start="spectral", start_share=0.3)
    known = record(make(), domain, base_rows(domain), base_keys(), SeededNoise(4))
    assert [entry.statistic.name for entry in known.entries].count("start_gram") == 1
    for levels in (np.arange(16) % 2 * 9, np.full(16, 9), np.where(np.arange(16) < 2, np.arange(16) * 9, -1)):
        rows, keys = neighbour(base_rows(domain), as_row(domain, levels), adjacency, 4)
        assert replay(known, make(), domain, rows, keys) > 0.5
