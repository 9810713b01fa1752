"""What was taken beside what is liked: its moments against their definition, and their bound against anybody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowkey.data.ratings import Block
from lowkey.engines.local import no_sums
from lowkey.kernels.taken import TakenMoments
from lowkey.kernels.user_solve import PULL, taken_rows

N_ITEMS, RANK = 9, 2


def crowd(seed: int, n_users: int = 12, size: float = 1.0) -> Block:
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(N_ITEMS, rng.integers(0, N_ITEMS + 1), replace=False)) for _ in range(n_users)]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    items = np.concatenate(rows).astype(np.int32)
    values = (size * rng.uniform(0.5, 5.0, len(items))).astype(np.float32)
    return Block(offsets, items, values, np.arange(n_users, dtype=np.uint64))


def a_sweep(seed: int = 3, size: float = 1.0, bound: float = 1.1) -> TakenMoments:
    rng = np.random.default_rng(seed)
    return TakenMoments(
        prior=2.75 + rng.normal(0.0, 0.3, N_ITEMS),
        item_factors=size * rng.normal(0.0, 0.8, (N_ITEMS, RANK + 1)),  # with one more than the factors
        takes=size * rng.normal(0.0, 3.0, (N_ITEMS, RANK)),
        bound=bound,
        reg=0.7,
        offset_reg=1.3,
    )


def sum_of(sweep: TakenMoments, block: Block) -> np.ndarray:
    sums = no_sums(sweep.statistics)
    sweep.run(block, None, sums)
    return sums["taken"]


def reference(sweep: TakenMoments, block: Block) -> tuple[np.ndarray, list[float]]:
    """The sum by its definition, without grid, and the norms before the clips."""
    total, norms = np.zeros((2 * RANK, RANK)), []
    for u in range(len(block.offsets) - 1):
        part = slice(block.offsets[u], block.offsets[u + 1])
        items = block.items[part]
        a = np.column_stack([np.ones(len(items)), sweep.item_factors[items]])
        penalty = np.diag([sweep.offset_reg] + [sweep.reg] * (RANK + 1))
        solution = np.linalg.solve(a.T @ a + penalty, a.T @ (block.values[part] - sweep.prior[items]))
        z = sweep.takes[items].sum(axis=0) / (len(items) + PULL)
        z /= max(1.0, float(np.linalg.norm(z)))
        x = np.append(solution[1 : RANK + 1], z)
        norms.append(float(np.linalg.norm(x)))
        total += np.outer(x / max(1.0, norms[-1] / sweep.bound), z)
    return total, norms


@pytest.mark.parametrize("seed", [0, 1])
def test_the_sum_is_that_of_the_definition(seed: int) -> None:
    sweep, block = a_sweep(), crowd(seed)
    (statistic,) = sweep.statistics
    wanted, norms = reference(sweep, block)
    assert min(norms) < sweep.bound < max(norms)
    np.testing.assert_allclose(statistic.grid.step * sum_of(sweep, block), wanted, atol=1e-4)


def test_blocks_and_order_do_not_change_a_bit() -> None:
    sweep, block = a_sweep(), crowd(5, 40)
    added = np.zeros_like(sum_of(sweep, block))
    for u in reversed(range(40)):
        part = slice(block.offsets[u], block.offsets[u + 1])
        alone = Block(np.array([0, part.stop - part.start]), block.items[part], block.values[part], block.keys[u : u + 1])
        added += sum_of(sweep, alone)
    assert np.array_equal(added, sum_of(sweep, block))


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e3, 1e100, 1e200])
@pytest.mark.parametrize("bound", [0.3, 1.1, 40.0])
def test_the_bound_holds_for_numbers_of_any_size(size: float, bound: float) -> None:
    """Also where every item pulls into one direction, so that both clips are reached."""
    sweep = a_sweep(7, size, bound)
    (statistic,) = sweep.statistics
    one_way = replace(sweep, takes=np.abs(sweep.takes) * 100.0, item_factors=np.abs(sweep.item_factors))
    for tried in (sweep, one_way):
        for seed in range(20):
            total = statistic.grid.step * sum_of(tried, crowd(seed, 1, 30.0)).astype(np.float64)
            assert np.linalg.norm(total) <= statistic.sensitivity.add_remove


def test_opposite_users_with_one_row_of_items_reach_twice_the_bound() -> None:
    """What replace-one is written for: not the sqrt(2) of terms with a non-negative product."""
    takes = np.full((N_ITEMS, RANK), 100.0)
    sweep = replace(a_sweep(), takes=takes, item_factors=np.ones((N_ITEMS, RANK + 1)), prior=np.zeros(N_ITEMS), reg=1e-3)
    sweep = replace(sweep, offset_reg=1e3, bound=100.0)
    (statistic,) = sweep.statistics
    offsets, items = np.array([0, N_ITEMS]), np.arange(N_ITEMS, dtype=np.int32)
    keys = np.zeros(1, np.uint64)
    up, down = (
        statistic.grid.step * sum_of(sweep, Block(offsets, items, np.full(N_ITEMS, sign * 1e3, np.float32), keys))
        for sign in (1.0, -1.0)
    )
    moved = np.linalg.norm(up - down)
    assert 1.99 * sweep.bound <= moved <= statistic.sensitivity.replace_one == 2.0 * sweep.bound


def test_rows_of_what_was_taken_are_damped_means() -> None:
    takes = np.arange(6.0).reshape(3, 2)
    found = taken_rows(np.array([0, 0, 2]), np.array([0, 2], np.int32), takes)
    np.testing.assert_allclose(found, [[0.0, 0.0], [4.0 / (2 + PULL), 6.0 / (2 + PULL)]])
