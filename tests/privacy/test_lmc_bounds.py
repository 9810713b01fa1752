"""The bounds of DPLMC's sums, attacked round by round with rows that reach them, in exact arithmetic.

Public values are chosen against the bounds: starts far outside the ball, steps a thousand times too long. Every attack
also says how close it came, so that a bound that is needlessly wide, or never reached, shows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from estimators import DOMAINS, as_row, base_keys, base_rows
from replay import one_thread, record, replay
from resolved import with_settings
from test_replay import neighbour

import lowkey as lk
from lowkey.data.ratings import Block
from lowkey.engines.local import no_sums
from lowkey.kernels.lmc import GradientRound, RowStart, RowStep
from lowkey.kernels.spectral_start import StartGram
from lowkey.kernels.sweep import Sweep
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


def moves_of(start: str, step: str) -> tuple[RowStart, RowStep]:
    """How the first round begins, and how the later ones go on."""
    gain = {"mapped": 1.0, "mapped far": 1e3, "not a number": math.nan}.get(start)
    pull = np.array([[0.2, -0.1], [-0.1, 0.3]]) * (1.0 if step == "short" else -1e3)
    return (
        RowStart(None if gain is None else gain * AXES, 5.0, 3),
        RowStep(AXES, pull, 0.3 if step == "short" else 1e3, 2.5, step == "short"),
    )


def gradient_rounds(start: str, step: str, offset_reg: float, rounds: int = 1) -> list[GradientRound]:
    first, later = moves_of(start, step)
    shared = (np.zeros(N_ITEMS), WEIGHTS, 0.5 * AXES)
    return [GradientRound(*shared, first if t == 0 else later, ALPHA, G, offset_reg) for t in range(rounds)]


def added(sweeps: Sequence[Sweep], row: Any, key: int = 7) -> dict[str, np.ndarray]:
    """What one user adds to each sum in the last of these rounds, in grid units."""
    items, values = np.array(row[0], np.int32), np.array(row[1], np.float32)
    block = Block(np.array([0, len(items)]), items, values, np.array([key], np.uint64))
    local, sums = None, {}
    for sweep in sweeps:
        sums = no_sums(sweep.statistics)
        local = sweep.run(block, local, sums)
    return sums


def squared_size(statistic: Any, units: np.ndarray) -> Fraction:
    """The squared norm of a move, of the full matrix for a packed triangle, as an exact fraction."""
    weights = np.ones(units.size, np.int64)
    if statistic.layout == "symmetric":
        rows, columns = np.triu_indices(statistic.order)
        weights = np.where(rows == columns, 1, 2)
    total = sum(int(w) * int(d) ** 2 for w, d in zip(weights, units.ravel(), strict=True))
    return total * Fraction(2) ** (2 * statistic.grid.exponent)


def attack(sweeps: Sequence[Sweep]) -> dict[tuple[str, str], float]:
    """All rows alone and all pairs; the largest move as a share of the declared bound, by sum and adjacency."""
    with one_thread():
        users = [added(sweeps, row, key) for row in ROWS for key in (7, 11)]
    largest: dict[tuple[str, str], float] = {}
    for s in sweeps[-1].statistics:
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
    attack(gradient_rounds(start, step, 1.0, rounds))
    attack(gradient_rounds(start, step, math.inf, rounds))


def test_the_bounds_are_reached() -> None:
    """Two users at right angles reach sqrt(2) alpha^2, two with opposite residuals along one row reach 2 G alpha."""
    largest = attack(gradient_rounds("mapped far", "short", math.inf))
    assert min(largest["user_gram", "add-remove"], largest["user_gram", "replace-one"]) > 0.9999
    assert largest["item_gradient", "add-remove"] > 0.9999
    # Nothing is predicted, so residuals are minus the rows. Both users' rows lie along item 0; a grain of item 2, which the
    # map makes much of, turns the second user's start around.
    turned = np.zeros((N_ITEMS, RANK))
    turned[0, 0], turned[2, 0] = 1e3, -1e9
    nothing = np.zeros((N_ITEMS, RANK))
    sweep = GradientRound(np.zeros(N_ITEMS), WEIGHTS, nothing, RowStart(turned), ALPHA, G, math.inf)
    statistic = sweep.statistics[1]
    one, other = (added([sweep], row)["item_gradient"] for row in (([0], [4.0]), ([0, 2], [4.0, 1e-3])))
    moved = math.sqrt(squared_size(statistic, one - other)) / statistic.sensitivity.replace_one
    assert 0.9999 < moved <= 1.0


@pytest.mark.parametrize("per_rating", [False, True])
@pytest.mark.parametrize("offset_reg", [1.0, math.inf])
def test_no_user_moves_the_start_further_than_declared(per_rating: bool, offset_reg: float) -> None:
    largest = attack([StartGram(np.zeros(N_ITEMS), WEIGHTS, G, offset_reg, per_rating)])
    assert min(largest.values()) > 0.9999


def test_a_random_start_belongs_to_the_user_and_not_to_the_place() -> None:
    """The rows that users draw follow their keys: alone or among others, in any order, for any seed."""
    drawn = lambda seed: GradientRound(np.zeros(N_ITEMS), WEIGHTS, 0.5 * AXES, RowStart(None, 0.4, seed), 5.0, G, math.inf)
    sweep = drawn(3)
    keys = np.array([5, 99, 12], np.uint64)
    block = Block(np.zeros(4, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), keys)
    empty = no_sums(sweep.statistics)
    together = sweep.run(block, None, empty)
    for place, key in enumerate(keys):
        alone = Block(np.zeros(2, np.int64), block.items, block.values, np.array([key]))
        assert np.array_equal(sweep.run(alone, None, empty)[0], together[place])
    assert len(np.unique(together[:, 1:])) == 3 * RANK
    assert not np.array_equal(drawn(4).run(block, None, empty), together)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("method", [lk.DPALS, lk.DPFactors])
def test_the_start_in_other_methods(method: Any, adjacency: str) -> None:
    """Whole replays of the methods that borrow the start: a few of the users that reach its bound."""
    domain = DOMAINS["ratings"]
    make = lambda: with_settings(method, start_share=0.3)(1.0, 1e-6, adjacency, rank=3, n_iter=1, start="spectral")
    known = record(make(), domain, base_rows(domain), base_keys(), SeededNoise(4))
    assert [entry.statistic.name for entry in known.entries].count("start_gram") == 1
    for levels in (np.arange(16) % 2 * 9, np.full(16, 9), np.where(np.arange(16) < 2, np.arange(16) * 9, -1)):
        rows, keys = neighbour(base_rows(domain), as_row(domain, levels), adjacency, 4)
        assert replay(known, make(), domain, rows, keys) > 0.5
