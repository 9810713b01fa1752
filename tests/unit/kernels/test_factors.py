"""The users' half of DPFactors against a slow reference that really leaves every item out."""

from __future__ import annotations

import numpy as np
import pytest

from lowkey.data.ratings import Block
from lowkey.engines.local import no_sums
from lowkey.kernels import factors as kernel
from lowkey.kernels.factors import ACTIVITY, EXCESS, EXTRA, LARGEST_EXCESS, FactorRound
from lowkey.linalg.packed import unpack

N_ITEMS, RANK = 9, 3


def crowd(seed: int, n_users: int = 12) -> Block:
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(N_ITEMS, rng.integers(0, N_ITEMS + 1), replace=False)) for _ in range(n_users)]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    items = np.concatenate(rows).astype(np.int32)
    values = rng.uniform(0.5, 5.0, len(items)).astype(np.float32)
    return Block(offsets, items, values, np.arange(n_users, dtype=np.uint64))


def a_round(seed: int = 3, size: float = 0.5) -> FactorRound:
    rng = np.random.default_rng(seed)
    return FactorRound(
        2,
        prior=2.75 + rng.normal(0.0, 0.3, N_ITEMS),
        item_factors=rng.normal(0.0, size, (N_ITEMS, RANK)),
        item_weights=rng.uniform(0.3, 2.0, N_ITEMS),
        bias_scales=rng.uniform(0.4, 3.0, N_ITEMS),
        update_bound=0.6,
        moment_bound=1.7,
        reg=0.7,
        offset_reg=1.3,
    )


ROUND = a_round()


def sums_of(sweep: FactorRound, block: Block) -> dict[str, np.ndarray]:
    sums = no_sums(sweep.statistics)
    sweep.run(block, None, sums)
    return sums


def ridge(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    penalty = np.diag([ROUND.offset_reg] + [ROUND.reg] * RANK)
    return np.linalg.solve(a.T @ a + penalty, a.T @ y)


def reference(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Both sums of ROUND, with one honest ridge regression per rating, without grid."""
    update, moments = np.zeros((N_ITEMS, RANK + 1)), np.zeros((RANK + EXTRA, RANK + EXTRA))
    for u in range(len(block.offsets) - 1):
        part = slice(block.offsets[u], block.offsets[u + 1])
        items = block.items[part]
        if len(items) == 0:
            continue
        a = np.column_stack([np.ones(len(items)), ROUND.item_factors[items]])
        y = block.values[part] - ROUND.prior[items]
        w = ROUND.item_weights[items] / np.linalg.norm(ROUND.item_weights[items])
        others = [ridge(np.delete(a, p, 0), np.delete(y, p)) for p in range(len(items))]
        b = ROUND.bias_scales[items]
        p = np.array([[scale, *other[1:]] for scale, other in zip(b, others, strict=True)])
        e = np.array([y[i] - a[i] @ others[i] for i in range(len(items))])
        in_sample = y - a @ ridge(a, y)
        n = np.sqrt(np.sum(w * np.sum(p**2, axis=1)) / w.sum())
        rows = (w * e)[:, None] * p / n
        clip = min(1.0, ROUND.update_bound / np.linalg.norm(rows))
        update[items] += clip * rows
        factor = ridge(a, y)[1:]
        factor *= np.sqrt(n**2 - np.sum(w * b**2) / w.sum()) / max(np.linalg.norm(factor), 1e-300)
        spread = np.sqrt(np.sum(w**2 * e * in_sample)) / ROUND.update_bound
        # The share of an offset of 1 that the ridge regression gives back, and the offset's square in prior variances.
        seen, offset_variance = ridge(a, np.ones(len(items)))[0], ROUND.reg / ROUND.offset_reg
        excess = EXCESS * min(ridge(a, y)[0] ** 2 / offset_variance - seen, LARGEST_EXCESS)
        x = np.sqrt(clip * w.sum() / n) * np.array([1.0, *factor, spread, ACTIVITY * len(items) ** -0.25, excess])
        x *= min(1.0, ROUND.moment_bound / np.linalg.norm(x))
        moments += np.outer(x, x)
    return update, moments


@pytest.mark.parametrize(("tame", "close"), [(kernel.TAME, 2e-6), (0.0, 1e-7)], ids=["float32", "float64"])
@pytest.mark.parametrize("seed", [0, 1])
def test_both_sums_are_those_of_the_definition(
    seed: int, tame: float, close: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "TAME", tame)
    block = crowd(seed)
    sums = sums_of(ROUND, block)
    update, moments = (s.grid.step * sums[s.name] for s in ROUND.statistics)
    wanted = reference(block)
    assert np.abs(wanted[0]).max() > 0.1
    np.testing.assert_allclose(update, wanted[0], atol=close)
    np.testing.assert_allclose(unpack(moments), wanted[1], atol=1e-4)  # 20 bits per coordinate


def test_pieces_and_order_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    block = crowd(5, 40)
    whole = sums_of(ROUND, block)
    monkeypatch.setattr(kernel, "EXACT_USERS", 7)
    for name, total in sums_of(ROUND, block).items():
        assert np.array_equal(total, whole[name])
    added = {name: np.zeros_like(total) for name, total in whole.items()}
    for u in reversed(range(40)):
        part = slice(block.offsets[u], block.offsets[u + 1])
        alone = Block(np.array([0, part.stop - part.start]), block.items[part], block.values[part], block.keys[u : u + 1])
        for name, total in sums_of(ROUND, alone).items():
            added[name] += total
    assert all(np.array_equal(added[name], whole[name]) for name in whole)


@pytest.mark.parametrize(("size", "tame"), [(1e-9, 300.0), (1.0, 300.0), (1e6, 300.0), (1e150, 300.0), (1e30, 1e99)])
def test_bounds_hold_for_factors_of_any_size(size: float, tame: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "TAME", tame)  # the last case: float32 where it will not do at all
    sweep = a_round(7, size)
    for seed in range(20):
        block = crowd(seed, 1)
        sums = sums_of(sweep, block)
        for statistic in sweep.statistics:
            total = statistic.grid.step * sums[statistic.name].astype(np.float64)
            full = unpack(total) if statistic.layout == "symmetric" else total
            assert np.linalg.norm(full) <= statistic.sensitivity.add_remove


def test_sensitivities_under_both_adjacencies() -> None:
    update, moments = ROUND.statistics
    assert (update.sensitivity.add_remove, update.sensitivity.replace_one) == (0.6, 1.2)
    assert moments.sensitivity.add_remove == pytest.approx(1.7**2)
    assert moments.sensitivity.replace_one == pytest.approx(np.sqrt(2.0) * 1.7**2)
