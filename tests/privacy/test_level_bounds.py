"""Level, spread and left-out errors: no user adds more than is declared, under both adjacencies, in whole numbers.

Clips and the second look are attacked apart. Users at the ends of the scale come close to what is declared and are not
dropped: without the clips they would be. And whatever passes the second look is within the bound, whole number by number.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lowkey.data.ratings import Block
from lowkey.kernels.bias import ItemMeans
from lowkey.kernels.left_out import LeaveOneOut, LeftOutRows, OfSome
from lowkey.kernels.level import GRID, PULL, Level, Spread, in_order, within_cone

LOW, HIGH, LONG = -3.0, 9.0, 1500
MIDDLE, HALF = 3.0, 6.0
USERS: dict[str, Any] = {
    "one low": [LOW],
    "one high": [HIGH],
    "two apart": [LOW, HIGH],
    "all high": np.full(LONG, HIGH),
    "all low": np.full(LONG, LOW),
    "all apart": np.where(np.arange(LONG) % 2, LOW, HIGH),
    "beyond the scale": np.full(LONG, 300.0),
    "far beyond, apart": np.where(np.arange(LONG) % 2, 3e38, -3e38),
    "a ladder": np.linspace(LOW, HIGH, 700),
    "nobody": [],
}
ABSURD: dict[str, Any] = {
    "no number": [1.0, math.nan, 2.0],
    "infinite": [math.inf, 1.0],
    "both infinities": [math.inf, -math.inf],
}
SENSELESS = (0.0, 1e-320, 1e-200, 1e300, math.inf, math.nan)


def block_of(values: Any, n_items: int = LONG) -> Block:
    kept = np.asarray(values, np.float32)
    items = np.arange(len(kept), dtype=np.int32) % n_items
    return Block(np.array([0, len(kept)]), items, kept, np.array([1], np.uint64))


def added(sweep: Any, values: Any) -> list[int]:
    (statistic,) = sweep.statistics
    sums = {statistic.name: np.zeros(statistic.shape, np.int64)}
    sweep.run(block_of(values), None, sums)
    return [int(unit) for unit in sums[statistic.name].ravel()]


def largest_shares(sweep: Any, users: Any) -> tuple[float, float]:
    """What users add, and what they are apart, as shares of what is declared; squares are exact until the very end."""
    (statistic,) = sweep.statistics
    step = Fraction(2) ** statistic.grid.exponent
    parts = [added(sweep, values) for values in users]
    square = lambda vector: sum((unit * step) ** 2 for unit in vector)
    alone = max(square(part) for part in parts) / Fraction(statistic.sensitivity.add_remove) ** 2
    pairs = ([x - y for x, y in zip(a, b, strict=True)] for a, b in itertools.combinations(parts, 2))
    apart = max(map(square, pairs)) / Fraction(statistic.sensitivity.replace_one) ** 2
    assert alone <= 1, "a user adds more than is declared"
    assert apart <= 1, "two users are further apart than is declared"
    return math.sqrt(alone), math.sqrt(apart)


def left_out(cap: float = 144.0, item_reg: float = 2.0) -> LeaveOneOut:
    rng = np.random.default_rng(3)
    ridges = np.array([[item_reg, 1.0], [8.0, 0.0], [item_reg, 5.0]])
    return LeaveOneOut(
        3.0, 40.0 * rng.normal(size=LONG), rng.integers(1, 9, LONG) + 0.0, np.full(LONG, 3.0), 5.0, ridges, cap
    )


def left_out_rows(cap: float = 144.0, reg: float = 2.0, n_items: int = LONG) -> LeftOutRows:
    factors = np.random.default_rng(4).normal(size=(n_items, 3))
    return LeftOutRows(np.full(n_items, 3.0), factors, 1.0, np.array([reg, 8.0, 2.0 * reg]), cap)


def test_no_user_is_beyond_the_level_s_bounds_and_the_loudest_reach_them() -> None:
    """(v, v) and (-v, v) with v = 1500/1504: 0.997 of sqrt(2), and 2 v apart."""
    sweep = Level(MIDDLE, HALF)
    assert min(largest_shares(sweep, USERS.values())) == pytest.approx(LONG / (LONG + PULL), abs=1e-6)
    assert added(sweep, USERS["beyond the scale"]) == added(sweep, USERS["all high"])  # clipped, not dropped


def test_no_user_is_beyond_the_spread_s_bounds_and_the_loudest_reach_them() -> None:
    """Alone somebody with one opinion of everything, and beside that one somebody with two, who like one of two things."""
    alone, apart = largest_shares(Spread(MIDDLE, 4.0), [*USERS.values(), np.where(np.arange(LONG) % 2, -300.0, 900.0)])
    assert alone > 0.99
    assert apart > 0.7
    assert added(Spread(MIDDLE, 4.0), USERS["beyond the scale"]) == added(Spread(MIDDLE, 4.0), USERS["all high"])


def test_left_out_errors_are_within_their_box() -> None:
    """And a row with more ratings than there are items, which no reader lets pass, adds nothing."""
    for sweep in (left_out(cap=0.01), left_out_rows(cap=1e-6)):
        alone, apart = largest_shares(sweep, [*USERS.values(), np.full(2 * LONG, HIGH)])
        assert min(alone, apart) > 0.99


def test_left_out_errors_are_those_of_fits_without_the_rating() -> None:
    """A ridge regression on a constant and the factors, refitted for every rating that is left out."""
    sweep, rng = left_out_rows(n_items=40), np.random.default_rng(6)
    for count in (1, 2, 9, 40):
        values = rng.uniform(LOW, HIGH, count).astype(np.float32).astype(float)
        design, target = np.column_stack([np.ones(count), sweep.item_factors[:count]]), values - 3.0
        wanted = np.zeros(3)
        for at, reg in enumerate(sweep.ridges):
            for left in range(count):
                rows = np.arange(count) != left
                gram = design[rows].T @ design[rows] + np.diag([1.0, reg, reg, reg])
                fit = design[left] @ np.linalg.solve(gram, design[rows].T @ target[rows])
                wanted[at] += min((target[left] - fit) ** 2 / 144.0, 1.0) / 40.0
        step = 2.0 ** sweep.statistics[0].grid.exponent
        sums = {"left_out_rows": np.zeros(3, np.int64)}
        sweep.run(block_of(values, 40), None, sums)
        np.testing.assert_allclose(sums["left_out_rows"] * step, wanted, rtol=1e-6)


def test_a_sweep_over_some_users_is_that_of_these_users_alone() -> None:
    """The parts add up to the whole, whatever the blocks, and a user is in one of them."""
    rng, whole = np.random.default_rng(7), Level(MIDDLE, HALF)
    counts = rng.integers(0, 5, 200)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    values = rng.uniform(LOW, HIGH, offsets[-1]).astype(np.float32)
    block = Block(offsets, np.zeros(offsets[-1], np.int32), values, np.arange(200, dtype=np.uint64))

    def sums_of(sweep: Any, users: range) -> Any:
        sums = {"level": np.zeros(2, np.int64)}
        for u in users:
            lo, hi = offsets[u], offsets[u + 1]
            sweep.run(Block(np.array([0, hi - lo]), block.items[lo:hi], values[lo:hi], block.keys[u : u + 1]), None, sums)
        return sums["level"]

    parts = [OfSome(whole, (part,), 5) for part in range(5)]
    assert [one.statistics for one in parts] == [whole.statistics] * 5
    for u in range(200):
        assert sum(bool(sums_of(part, range(u, u + 1)).any()) for part in parts) <= 1
    together = {"level": np.zeros(2, np.int64)}
    for part in parts:
        alone = {"level": np.zeros(2, np.int64)}
        part.run(block, None, alone)
        np.testing.assert_array_equal(alone["level"], sums_of(part, range(200)))
        together["level"] += alone["level"]
    np.testing.assert_array_equal(together["level"], sums_of(whole, range(200)))


@pytest.mark.parametrize("sweep", [Level(MIDDLE, HALF), Spread(MIDDLE, 4.0)], ids=["level", "spread"])
def test_absurd_ratings_say_nothing(sweep: Any) -> None:
    for values in ABSURD.values():
        assert not any(added(sweep, values))


@pytest.mark.parametrize("first", [*SENSELESS, -1.0])
@pytest.mark.parametrize("second", [*SENSELESS, -1.0])
def test_senseless_public_values_break_no_bound(first: float, second: float) -> None:
    users = [*USERS.values(), *ABSURD.values()]
    left = left_out(cap=first, item_reg=second), left_out_rows(cap=first, reg=second)
    for sweep in (Level(first, second), Spread(first, second), *left):
        largest_shares(sweep, users)


def test_the_second_look_holds_by_itself() -> None:
    """Every pair of small whole numbers that passes is within sqrt(2) and 2 of the others; every three, with the half that
    counts a user, within sqrt(1.75) and, as that is the same for both, 2."""
    most = 5
    numbers = range(-7, 8)
    passed = [(b, a) for a, b in itertools.product(numbers, numbers) if within_cone(a, b, most)]
    assert (most, most) in passed
    assert max(a * a + b * b for a, b in passed) == 2 * most**2
    assert max((a - c) ** 2 + (b - d) ** 2 for (a, b), (c, d) in itertools.product(passed, passed)) == 4 * most**2
    most, numbers = 6, range(-9, 10)
    three = np.array([k for k in itertools.product(numbers, numbers, numbers) if in_order(*k, most)])
    assert [most, most // 2, most // 2] in three.tolist()
    assert (three**2).sum(axis=1).max() == 1.5 * most**2
    assert ((three[:, None] - three) ** 2).sum(axis=2).max() == 4 * most**2


def test_sums_are_those_of_the_definition() -> None:
    """Against plain numpy, to the grid."""
    rng = np.random.default_rng(5)
    for count in (1, 2, 7, 300):
        values = rng.uniform(LOW, HIGH, count).astype(np.float32).astype(float)
        v, own, mean = count / (count + 4.0), (count - 1.0) / count, values.mean()
        z = np.clip((values - 2.5) / 4.0, -1.0, 1.0)
        pairs = [a * b for a, b in itertools.permutations(z, 2)] or [0.0]
        wanted = [own * np.mean(pairs), own * np.mean(z**2) / 2.0, own / 2.0, 0.5]
        np.testing.assert_allclose(np.array(added(Spread(2.5, 4.0), values)) * GRID.step, wanted, atol=5e-8)
        np.testing.assert_allclose(np.array(added(Level(3.0, 6.0), values)) * GRID.step, [v * (mean - 3) / 6, v], atol=3e-8)


def test_ratings_of_equal_weight_are_within_the_bound_of_item_means() -> None:
    """With the catalogue for a least length every rating weighs 1/sqrt(n_items), and the longest row has norm one."""
    sweep = ItemMeans(np.full(LONG, MIDDLE), 6.0, math.inf, least_ratings=LONG)
    alone, _ = largest_shares(sweep, USERS.values())
    assert alone > 0.999
    counts = np.array(added(sweep, [LOW, HIGH])).reshape(2, LONG)[1]
    np.testing.assert_allclose(counts[:3] * GRID.step, [LONG**-0.5, LONG**-0.5, 0.0], rtol=1e-5)
    usual = ItemMeans(np.full(LONG, MIDDLE), 6.0, math.inf)
    assert largest_shares(usual, USERS.values())[0] > 0.999
    counts = np.array(added(usual, np.full(700, LOW))).reshape(2, LONG)[1]
    np.testing.assert_allclose(counts[[0, 699, 700]] * GRID.step, [700**-0.5, 700**-0.5, 0.0], rtol=1e-5)
