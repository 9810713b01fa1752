"""The bounds of Frank-Wolfe's and SVD's sums, attacked with rows that reach the norm L exactly, in exact arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lowkey as lk
from lowkey.data.ratings import Block
from lowkey.kernels.frank_wolfe import ResidualEnergy, ResidualGram, ResidualProduct
from lowkey.kernels.svd import CleansedMoments, RatingDensity
from lowkey.kernels.sweep import Sweep
from lowkey.kernels.walk import Walk

N_ITEMS, L = 6, 2.5
RNG = np.random.default_rng(3)
# (items, values): norms 5 (shrunk), exactly L, L along one axis, opposite signs, a whole row, tiny values, nothing.
ROWS = [
    ([0, 1], [3.0, -4.0]),
    ([2, 4], [1.5, 2.0]),
    ([2, 4], [-1.5, 2.0]),
    ([3], [2.5]),
    ([3], [-4.0]),
    ([5], [4.0]),
    ([0, 1, 2, 3, 4, 5], [4.0, -4.0, 4.0, -4.0, 4.0, -4.0]),
    ([0, 1, 2, 3, 4, 5], [4.0] * 6),
    ([1, 2], [1e-3, -1e-6]),
    ([], []),
]


def walk_of(kind: str) -> Walk:
    """Public histories; "backwards" is one that no fit posts, and drives predictions as far from the targets as they go."""
    if kind == "nothing":
        return Walk.nowhere(N_ITEMS)
    directions = np.random.default_rng(8).standard_normal((3, N_ITEMS))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if kind == "refit":
        return Walk(directions, np.array([0.1, 0.01, 1.0]))
    if kind == "steps":
        return Walk(directions, None, np.array([2.0, 1.5, 9.0]), np.array([0.0, 0.3, 0.5]))
    return Walk(np.eye(N_ITEMS)[[3]], None, np.array([-1e6]), np.ones(1))


def product(direction: np.ndarray, walk: Walk) -> ResidualProduct:
    return ResidualProduct(2, walk, 0.0, L, L, math.inf, 1, direction)


def added(sweep: Sweep, row: Any) -> np.ndarray:
    items, values = np.array(row[0], np.int32), np.array(row[1], np.float32)
    block = Block(np.array([0, len(items)]), items, values, np.array([7], np.uint64))
    sums = {s.name: np.zeros(s.shape, np.int64) for s in sweep.statistics}
    sweep.run(block, None, sums)
    return np.concatenate([sums[s.name].reshape(-1) for s in sweep.statistics[:1]])


def squared_size(statistic, units: np.ndarray) -> Fraction:
    weights = np.ones(units.size, np.int64)
    if statistic.layout == "symmetric":
        rows, columns = np.triu_indices(statistic.order)
        weights = np.where(rows == columns, 1, 2)
    total = sum(int(w) * int(d) ** 2 for w, d in zip(weights, units, strict=True))
    return total * Fraction(2) ** (2 * statistic.grid.exponent)


SWEEPS: dict[str, Callable[[Walk], Sweep]] = {
    "gram, first": lambda walk: ResidualGram(1, walk, 0.0, L, L, math.inf),
    "gram, own mean": lambda walk: ResidualGram(2, walk, 0.0, L, L, 1.0),
    "gram, residuals to 2L": lambda walk: ResidualGram(2, walk, 0.0, L, math.inf, math.inf),
    "gram, residuals to L/2": lambda walk: ResidualGram(3, walk, 0.0, L, L / 2, math.inf),
    "product": lambda walk: product(RNG.standard_normal(N_ITEMS), walk),
    "energy": lambda walk: ResidualEnergy(2, walk, 0.0, L, L, math.inf, RNG.standard_normal(N_ITEMS)),
    "density": lambda walk: RatingDensity(N_ITEMS),
    "cleansed": lambda walk: CleansedMoments(np.zeros(N_ITEMS), 1.0, math.inf),
}


@pytest.mark.parametrize("history", ["nothing", "refit", "steps", "backwards"])
@pytest.mark.parametrize("name", SWEEPS)
def test_nobody_moves_a_sum_further_than_declared(name: str, history: str) -> None:
    sweep = SWEEPS[name](walk_of(history))
    statistic = sweep.statistics[0]
    moves = [added(sweep, row) for row in ROWS]
    for moved in moves:
        assert squared_size(statistic, moved) <= Fraction(statistic.sensitivity.add_remove) ** 2
    for one, other in itertools.combinations(moves, 2):
        assert squared_size(statistic, one - other) <= Fraction(statistic.sensitivity.replace_one) ** 2
    peak = max(int(np.abs(moved).max(initial=0)) for moved in moves)
    assert peak <= statistic.peak_units


@pytest.mark.parametrize(
    ("name", "history", "adjacency"),
    [
        ("gram, first", "nothing", "add-remove"),
        ("gram, first", "nothing", "replace-one"),  # rows on different items: the root of 2 is needed
        ("gram, residuals to 2L", "backwards", "add-remove"),
        ("gram, residuals to L/2", "nothing", "add-remove"),
        ("density", "nothing", "add-remove"),
        ("cleansed", "nothing", "add-remove"),
        ("cleansed", "nothing", "replace-one"),
    ],
)
def test_the_bounds_are_reached(name: str, history: str, adjacency: str) -> None:
    """Within one part in a million: a smaller declared sensitivity would be wrong."""
    sweep = SWEEPS[name](walk_of(history))
    statistic = sweep.statistics[0]
    moves = [added(sweep, row) for row in ROWS]
    if adjacency == "replace-one":
        moves = [one - other for one, other in itertools.combinations(moves, 2)]
    furthest = math.sqrt(max(squared_size(statistic, moved) for moved in moves))
    assert furthest > 0.99999 * statistic.sensitivity.under(adjacency)


def test_the_product_reaches_its_bound_along_the_direction() -> None:
    sweep = product(7.0 * np.eye(N_ITEMS)[3], walk_of("nothing"))  # too long a direction
    statistic = sweep.statistics[0]
    size = math.sqrt(squared_size(statistic, added(sweep, ROWS[3])))
    assert 0.99999 * L**2 < size <= L**2


def test_replacing_never_doubles_a_product() -> None:
    """The difference of two positive semidefinite matrices: spectral norm at most the larger one's."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        sweep = product(rng.standard_normal(N_ITEMS), walk_of("nothing"))
        rows = [(list(range(N_ITEMS)), list(4.0 * rng.standard_normal(N_ITEMS).clip(-1, 1))) for _ in range(2)]
        statistic = sweep.statistics[0]
        moved = added(sweep, rows[0]) - added(sweep, rows[1])
        assert squared_size(statistic, moved) <= Fraction(statistic.sensitivity.replace_one) ** 2
    assert statistic.sensitivity.replace_one < 1.001 * L**2


@pytest.mark.parametrize("form", ["gram", "power"])
def test_the_exact_plan_costs_what_was_asked(form: str) -> None:
    domain = lk.Domain(items=20, rating_range=(1, 5), expected_users=9)
    plan = lk.DPFrankWolfe(1.5, 1e-6, n_iter=5, form=form).plan(domain)
    assert 1.4999 < plan.price.epsilon <= 1.5
    first, last = plan.lines[0].mechanism.mu, plan.lines[-1 if form == "gram" else -2].mechanism.mu
    assert last / first == pytest.approx(1.0)
