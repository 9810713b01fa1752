"""The ALS kernels against dense arithmetic, and their sums against blocks, threads and order: equal to the bit."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numba import get_num_threads

import lowkey as lk
from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Block, HeldRows
from lowkey.engines.local import LocalEngine, no_sums
from lowkey.kernels.als import FACTOR_GRID, ItemEquations
from lowkey.kernels.item_equations import SINGLE_RANK, _towards_zero, add_equations, deal
from lowkey.kernels.user_factors import user_factors
from lowkey.linalg.packed import pack, unpack
from lowkey.linalg.psd import solve_projected
from lowkey.methods.als.noisy_ridge import Equations, noise_aware_ridge, pool

RANKS = [1, 2, 5, 33]


def crowd(n_users: int, n_items: int, seed: int = 0) -> Block:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, n_items + 1, n_users)
    items = [np.sort(rng.choice(n_items, c, replace=False)) for c in counts]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    flat = np.concatenate(items).astype(np.int32)
    return Block(offsets, flat, rng.uniform(1, 5, len(flat)).astype(np.float32), np.arange(n_users, dtype=np.uint64))


def equations(n_items: int, rank: int, seed: int = 1, **changes: Any) -> ItemEquations:
    """Round 0 with public values drawn from ``seed``; item 3 is outside the head."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_items, rank)) / 3
    fields = {
        "round": 0,
        "prior": 3.0 + rng.normal(size=n_items) / 4,
        "item_factors": factors @ np.linalg.eigh(factors.T @ factors)[1],
        "item_weights": rng.uniform(0.1, 2.0, n_items) * (np.arange(n_items) != 3),
        "rarity": rng.permutation(n_items),
        "row_bound": 0.4,
        "offset_reg": 1.5,
        "user_reg": 0.3,
    }
    return ItemEquations(**{**fields, **changes})


def dense_sums(block: Block, sweep: ItemEquations) -> dict[str, np.ndarray]:
    """The same sums in float64 without grids, user by user, as the docstring says."""
    n_items, rank = sweep.item_factors.shape
    v, weights = sweep.item_factors, sweep.item_weights
    gram, rhs, users = np.zeros((n_items, rank, rank)), np.zeros((n_items, rank)), np.zeros((rank, rank))
    misfits = np.zeros(2)
    for u in range(len(block.offsets) - 1):
        row = slice(block.offsets[u], block.offsets[u + 1])
        items = block.items[row]
        if len(items) == 0:
            continue
        e = block.values[row] - sweep.prior[items]
        if sweep.offset_reg is not None:
            e = e - e.sum() / (len(items) + sweep.offset_reg)
        seen = weights[items] > 0
        x = v[items[seen]]
        ridge = sweep.user_reg * np.eye(rank) + sweep.unobserved_weight * v.T @ v
        factor = np.linalg.solve(x.T @ x + ridge, x.T @ e[seen])
        least = np.sum((e[seen] - x @ factor) ** 2) + factor @ ridge @ factor
        misfits += [min(least / max(seen.sum(), 1) / sweep.misfit_bound, 1.0), 1.0]
        factor /= max(1.0, np.linalg.norm(factor))
        w = weights[items].copy()
        if sweep.max_ratings is not None and len(items) > sweep.max_ratings:
            w[np.argsort(sweep.rarity[items])[sweep.max_ratings :]] = 0.0
        total = max(np.sum(w**2), sweep.max_ratings or 0)
        w = w / np.sqrt(total) if total > 0 else w
        users += min(1.0, sweep.user_gram_scale / np.sqrt(total)) * np.outer(factor, factor) if total > 0 else 0.0
        e = e * min(1.0, sweep.row_bound / max(np.linalg.norm(w * e), 1e-300))
        gram[items] += w[:, None, None] * np.outer(factor, factor)
        rhs[items] += (w * e)[:, None] * factor
    return dict(zip(sweep.names, (pack(gram), rhs, pack(users), misfits), strict=True))


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("max_ratings", [None, 4])
def test_sums_are_those_of_the_definition(rank, max_ratings):
    block = crowd(200, 40)
    posts = {"unobserved_weight": 0.1, "user_gram_scale": 2.5, "misfit_bound": 1.2}
    sweep = equations(40, rank, round=2, max_ratings=max_ratings, **posts)
    statistics = {s.name: s for s in sweep.statistics}
    sums = no_sums(sweep.statistics)
    sweep.run(block, None, sums)
    for name, expected in dense_sums(block, sweep).items():
        found = sums[name] * statistics[name].grid.step
        # 200 users; each product is off by a truncation of two factors and by float32 in the solve.
        assert np.abs(found - expected).max() < 200 * 8 * max(sweep.factor_grid.step, FACTOR_GRID.step), name
        assert np.abs(expected).max() > 1.0  # the tolerance is far below the size
        assert name in sweep.names[2:] or (found[3] == 0).all()


@pytest.mark.parametrize("rank", [5, SINGLE_RANK])
def test_sums_do_not_depend_on_blocks_threads_or_order(rank):
    domain = lk.Domain(40, (1.0, 5.0))
    block, sweep = crowd(300, 40), equations(40, rank, unobserved_weight=0.1)

    def sums(rows: Block, **settings: int) -> list[np.ndarray]:
        ratings = lk.Ratings(domain, HeldRows(rows.offsets, rows.items, rows.values, rows.keys))
        found, _ = LocalEngine(**settings).sweep(sweep, ratings)
        return [unreleased._open() for unreleased in found.values()]

    reference = sums(block)
    for settings in ({"block_size": 1}, {"block_size": 7}, {"block_size": 299, "n_jobs": 1}, {"n_jobs": get_num_threads()}):
        for ours, theirs in zip(sums(block, **settings), reference, strict=True):
            assert np.array_equal(ours, theirs), settings
    order = np.random.default_rng(0).permutation(300)
    parts = [slice(block.offsets[u], block.offsets[u + 1]) for u in order]
    counts = np.diff(block.offsets)[order]
    shuffled = Block(
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([block.items[p] for p in parts]),
        np.concatenate([block.values[p] for p in parts]),
        block.keys[order],
    )
    for ours, theirs in zip(sums(shuffled), reference, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("size", [2**9, 2**14, 2**16, 2**18])
def test_products_in_float32_are_those_of_whole_numbers(size):
    """Factors of ``size`` units: sums of squares stay below 2^24, or several chunks, one, or sixteen users pass it."""
    rank, n_items, n_users, rng = SINGLE_RANK + 7, 300, 700, np.random.default_rng(3)
    block = crowd(n_users, n_items)
    factors = np.trunc(rng.normal(size=(n_users, rank)) * size / math.sqrt(rank)).astype(np.float32)
    factors[::2] = np.trunc(factors[::2] / 16)
    roots, scale = rng.uniform(0.2, 1.0, n_items), rng.uniform(0.1, 1.0, n_users)
    targets, row_scale = rng.normal(size=len(block.items)).astype(np.float32), np.ones(n_users)
    places, cutoff = np.zeros(0, np.uint64), np.full(n_users, np.iinfo(np.uint64).max)
    gram, rhs = np.zeros((n_items, rank * (rank + 1) // 2), np.int64), np.zeros((n_items, rank), np.int64)
    weights = (roots, scale, row_scale, places, cutoff)
    add_equations((block.offsets, block.items, targets), factors, weights, (0.5, 2.0**12), gram, rhs)
    owner = np.repeat(np.arange(n_users), np.diff(block.offsets))
    exact, sides = np.zeros((n_items, rank, rank), np.int64), np.zeros((n_items, rank), np.int64)
    for p, (u, j) in enumerate(zip(owner, block.items, strict=True)):
        root = roots[j] * scale[u]
        x = np.trunc(np.float32(root * 0.5 * (1.0 - 2.0**-22)) * factors[u]).astype(np.int64)
        assert (np.abs(x) <= np.abs(root * 0.5 * factors[u].astype(np.float64))).all()  # never past the exact product
        exact[j] += np.outer(x, x)
        sides[j] += x * int(root * np.float64(targets[p]) * 2.0**12)
    assert np.array_equal(gram, pack(exact))
    assert np.array_equal(rhs, sides)


def test_whole_numbers_beyond_float32_become_smaller_ones():
    rng = np.random.default_rng(4)
    for whole in [0, 1, -(2**24), 2**24 + 1, 2**24 + 3, *rng.integers(-(2**50), 2**50, 1000).tolist()]:
        found = float(_towards_zero.py_func(np.int64(whole)))
        assert found == math.trunc(found)
        assert found == whole if abs(whole) <= 2**24 else (1 - 2.0**-21) * abs(whole) < abs(found) < abs(whole)
        assert found * whole >= 0


def test_the_largest_block_is_exact():
    """2^17 users whose factor is a whole unit vector: the sum reaches 2^53 and is still exact."""
    n = 1 << 17
    block = Block(np.arange(n + 1), np.zeros(n, np.int32), np.full(n, 5.0, np.float32), np.arange(n, dtype=np.uint64))
    plain = {"prior": np.full(4, 3.0), "item_weights": np.ones(4), "item_factors": np.full((4, 2), 1e-4)}
    sweep = equations(4, 2, offset_reg=None, user_reg=1e-9, **plain)
    sums, one = no_sums(sweep.statistics), no_sums(sweep.statistics)
    sweep.run(block, None, sums)
    sweep.run(Block(block.offsets[:2], block.items[:1], block.values[:1], block.keys[:1]), None, one)
    for name in sums:
        assert np.array_equal(sums[name], n * one[name])
    assert sums["item_gram_0"].max() > 0.49 * 2**53


def test_factors_are_whole_numbers_within_the_ball_and_solve_the_ridge_regression():
    block = crowd(400, 60)
    design = np.ascontiguousarray(equations(60, 16).item_factors, np.float32)
    regs = np.full(400, 0.5, np.float32)
    factors, _ = user_factors(
        block.offsets, block.items, block.values, np.ones(60, bool), design, np.zeros(16, np.float32), regs
    )
    assert np.array_equal(factors, np.trunc(factors))
    exact = np.zeros((400, 16))
    for u in range(400):
        row = slice(block.offsets[u], block.offsets[u + 1])
        x = design[block.items[row]].astype(np.float64)
        exact[u] = np.linalg.solve(x.T @ x + 0.5 * np.eye(16), x.T @ block.values[row])
    norms = np.linalg.norm(exact, axis=1)
    assert (norms > 1).any()
    assert (norms[np.diff(block.offsets) < 16] > 0).any()  # both the primal and the dual form occurred
    exact /= np.maximum(norms, 1.0)[:, None]
    assert np.abs(factors * FACTOR_GRID.step - exact).max() < 2.0**-15
    assert (np.sum((factors.astype(np.float64) * FACTOR_GRID.step) ** 2, axis=1) <= 1.0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_a_factor_that_is_not_finite_makes_no_contribution(bad):
    block, sweep = crowd(50, 40), equations(40, 3, offset_reg=1.0)
    sweep.item_factors[7] = bad
    sums = no_sums(sweep.statistics)
    for u in range(50):
        if 7 in block.items[block.offsets[u] : block.offsets[u + 1]]:
            before = {name: total.copy() for name, total in sums.items()}
            lo, hi = block.offsets[u], block.offsets[u + 1]
            alone = Block(np.array([0, hi - lo]), block.items[lo:hi], block.values[lo:hi], block.keys[u : u + 1])
            sweep.run(alone, None, sums)
            for name, total in sums.items():
                # Nothing, or a contribution within its bound: never a number made of an overflow.
                moved = (total - before[name]) * 2.0**-36
                assert np.abs(moved).max() <= 1.0


def test_items_are_dealt_evenly_and_all():
    counts = np.random.default_rng(0).pareto(1.0, 500).astype(np.int64)
    order, bounds = deal(counts, 3)
    assert sorted(order) == list(range(500))
    loads = [(counts[order[a:b]] + 24).sum() for a, b in itertools.pairwise(bounds)]
    assert max(loads) - min(loads) <= counts.max() + 24


@pytest.mark.parametrize("rank", [1, 2, 3, 16, 40])
@pytest.mark.parametrize("shift", [-3.0, 0.0, 3.0])
def test_projected_solve_is_the_one_by_eigenvalues(rank, shift):
    """Shifts make all, some or none of the matrices positive definite."""
    rng = np.random.default_rng(rank)
    a = rng.normal(size=(50, rank, rank))
    a = a + a.transpose(0, 2, 1) + shift * np.sqrt(rank) * np.eye(rank)
    rhs, ridge = rng.normal(size=(50, rank)), rng.uniform(0.1, 3.0, 50)
    shared = np.stack([np.diag(rng.uniform(0, 1, rank)), np.full((rank, rank), 0.1)])
    kept, weights = rng.uniform(0.5, 1.5, 50), rng.uniform(0, 2, (50, 2))
    whole = kept[:, None, None] * a + np.einsum("nm,mab->nab", weights, shared)
    values, vectors = np.linalg.eigh(whole)
    inner = np.einsum("nki,nk->ni", vectors, rhs) / (np.maximum(values, 0) + ridge[:, None])
    expected = np.einsum("nki,ni->nk", vectors, inner)
    found = solve_projected(pack(a), rhs, ridge, kept=kept, shared=shared, weights=weights)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(unpack(pack(a)), a)


@pytest.mark.parametrize("ridges", [20.0, 1001.0])
def test_eigenvalues_of_either_sign_next_to_zero(ridges):
    """As definite as float32 can tell, and with a ridge to which that is next to nothing; or with a smaller one."""
    rng, n, rank = np.random.default_rng(9), 50, 40
    vectors = np.linalg.qr(rng.normal(size=(n, rank, rank)))[0]
    values = np.where(np.arange(rank) < 20, rng.uniform(0.0, 1.0, (n, rank)), rng.uniform(3e-6, 1e-5, (n, rank)))
    values[:, -1] = rng.uniform(-1e-6, 0.0, n)
    a = np.einsum("nki,ni,nli->nkl", vectors, values, vectors)
    size = np.abs(np.triu(a)).sum(axis=(1, 2))
    ridge, rhs = size * 2.0**-24 * ridges, rng.normal(size=(n, rank))
    inner = np.einsum("nki,nk->ni", vectors, rhs) / (np.maximum(values, 0) + ridge[:, None])
    expected = np.einsum("nki,ni->nk", vectors, inner)
    apart = np.linalg.norm(solve_projected(pack(a), rhs, ridge) - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert apart.max() < 2e-3


def test_no_matrix_at_all_leaves_the_ridge():
    rhs, ridge = np.arange(1.0, 7.0).reshape(2, 3), np.array([2.0, 0.5])
    np.testing.assert_array_equal(solve_projected(np.zeros((2, 6)), rhs, ridge), rhs / ridge[:, None])
    np.testing.assert_array_equal(solve_projected(np.zeros((2, 6)), rhs, np.zeros(2)), np.zeros((2, 3)))


def test_a_matrix_that_is_not_finite_gives_zero():
    packed = np.ones((2, 3))
    packed[1, 0] = np.nan
    found = solve_projected(packed, np.ones((2, 2)), np.ones(2))
    assert (found[1] == 0).all()
    assert (found[0] != 0).all()


def test_noise_aware_ridge_is_the_best_of_all_ridges():
    """In the model of the docstring: 400 items, rank 4, A_j = a_j I, noise on the right-hand side only."""
    rng = np.random.default_rng(3)
    n, rank, std = 400, 4, 3.0
    truth, size = rng.normal(size=(n, rank)) * 0.5, rng.uniform(2, 20, n)
    gram = pack(size[:, None, None] * np.eye(rank))
    rhs = size[:, None] * truth + std * rng.normal(size=(n, rank))

    def error(factor: float) -> float:
        ridge = noise_aware_ridge(Equations(gram, rhs, 0.0, std), 0.0, factor)
        return float(np.mean((rhs / (size[:, None] + ridge) - truth) ** 2))

    assert error(1.0) < min(error(0.0), error(0.3), error(3.0))
    assert noise_aware_ridge(Equations(gram, rhs, 0.0, 0.0), 2.0)[0, 0] == 2.0


def test_pooled_gram_matrices_are_nearer_to_the_truth_than_posted_or_shared_ones():
    """In the model of the docstring: 300 items of rank 6, sizes 1 to 50, own deviations of h = 0.02, and noise."""
    rng = np.random.default_rng(4)
    n, rank, std = 300, 6, 0.8
    shape = np.diag(np.linspace(2.0, 0.5, rank)) / 7.5
    sizes = rng.uniform(1.0, 50.0, n)
    symmetric = lambda: (lambda a: (a + a.transpose(0, 2, 1)) / np.sqrt(2.0))(rng.normal(size=(n, rank, rank)))
    truth = sizes[:, None, None] * (shape + np.sqrt(0.02 / (rank * (rank + 1))) * symmetric())
    posted = pack(truth + std * symmetric())
    active = np.arange(n) != 7
    found = pool(posted, std, active)
    error = lambda kept: float(
        np.sum((unpack(kept[:, None] * posted + ((1 - kept) * found.sizes)[:, None] * found.mean) - truth)[active] ** 2)
    )
    ours = error(found.kept)
    assert ours < 0.9 * min(error(np.ones(n)), error(np.zeros(n)))
    assert all(ours < error(np.full(n, share)) for share in (0.1, 0.3, 0.5, 0.7, 0.9))
    assert found.kept[7] == found.sizes[7] == 0.0
    np.testing.assert_allclose(unpack(found.mean), shape, atol=0.02)
    np.testing.assert_array_equal(pool(posted, 0.0).kept, np.ones(n))  # no noise: every matrix is its own


def test_a_ridge_per_coordinate_is_added_to_the_matrix():
    rng = np.random.default_rng(5)
    a = rng.normal(size=(20, 4, 9))
    a = a @ a.transpose(0, 2, 1)
    rhs, ridge = rng.normal(size=(20, 4)), rng.uniform(0.5, 4.0, (20, 4))
    expected = np.linalg.solve(a + np.einsum("nk,kl->nkl", ridge, np.eye(4)), rhs[:, :, None])[:, :, 0]
    np.testing.assert_allclose(solve_projected(pack(a), rhs, ridge), expected, rtol=1e-10)


def test_without_counts_each_user_draws_the_own_sample():
    """Every item of a long row is as likely as every other, users draw apart, and a user's draw needs no one else."""
    n_items, cap, n_users = 300, 40, 400
    items = np.tile(np.arange(n_items, dtype=np.int32), n_users)
    values = np.random.default_rng(5).uniform(1, 5, len(items)).astype(np.float32)
    offsets, keys = np.arange(n_users + 1, dtype=np.int64) * n_items, splitmix64(np.arange(n_users, dtype=np.uint64))
    sweep = equations(n_items, 5, rarity=None, max_ratings=cap, item_weights=np.ones(n_items))

    def touched(block: Block) -> np.ndarray:
        sums = no_sums(sweep.statistics)
        sweep.run(block, None, sums)
        return sums[sweep.names[1]].any(axis=1)

    taken = np.zeros(n_items)
    for u in range(n_users):
        own = slice(u * n_items, (u + 1) * n_items)
        mine = touched(Block(offsets[:2], items[own], values[own], keys[u : u + 1]))
        assert mine.sum() == cap
        taken += mine
    # Binomial(400, 40/300): 53.3 with standard deviation 6.8; 300 items, so 5.5 of them are a false alarm in 1e5 runs
    assert np.abs(taken - n_users * cap / n_items).max() < 5.5 * 6.8
    again = slice(7 * n_items, 9 * n_items)  # two users together: the union of what each draws alone
    both = touched(Block(offsets[:3], items[again], values[again], keys[7:9]))
    alone = [touched(Block(offsets[:2], items[s], values[s], keys[k : k + 1]))
             for k, s in ((7, slice(7 * n_items, 8 * n_items)), (8, slice(8 * n_items, 9 * n_items)))]  # fmt: skip
    assert (both == (alone[0] | alone[1])).all()
    assert (alone[0] != alone[1]).any()
