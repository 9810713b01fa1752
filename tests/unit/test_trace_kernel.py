"""The two sweeps of trace regression, held against plain NumPy; the same sums for every block size and thread count."""

import numpy as np
import pytest
import scipy.sparse
from numba import get_num_threads

from lowkey.data.trace import (
    DenseMeasurements,
    LowRankMeasurements,
    SparseMeasurements,
    TraceRecords,
    cells,
    from_flat_csr,
    measurements_of,
)
from lowkey.engines.local import LocalEngine
from lowkey.errors import ClosedError
from lowkey.kernels.trace_regression import SpectralStart, TangentGradient, largest_projection, largest_whitened
from lowkey.linalg.lowrank import truncated
from lowkey.methods.trace.whitening import Whitener

N, SHAPE, RANK = 23, (6, 4), 2
RNG = np.random.default_rng(5)
POINT = truncated(RNG.standard_normal(SHAPE), RANK)


def every_kind() -> dict[str, object]:
    left, right = RNG.standard_normal((N, 6, 2)), RNG.standard_normal((N, 4, 2))
    low_rank = LowRankMeasurements(left, right)
    dense = DenseMeasurements(np.ascontiguousarray(low_rank.dense()))
    thinned = RNG.standard_normal((N, *SHAPE)) * (RNG.random((N, *SHAPE)) < 0.3)
    sparse = measurements_of([scipy.sparse.coo_array(x) for x in thinned])
    return {"low-rank": low_rank, "dense": dense, "sparse": sparse, "single": DenseMeasurements(dense.values.astype("f4"))}


KINDS = every_kind()
Y = RNG.standard_normal(N) * 3


def summed(sweep, measurements, y, **engine):
    sums, _ = LocalEngine(**engine).sweep(sweep, TraceRecords(measurements, y))
    (closed,) = sums.values()
    return closed._open() * closed.statistic.grid.step, closed.statistic


def clip_rows(rows: np.ndarray, bound: float) -> np.ndarray:
    return rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1))[:, None]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bounds", [(0.8, 1.1), (50.0, 50.0)])
def test_gradient_is_the_clipped_sum(kind, bounds):
    x = KINDS[kind]
    got, statistic = summed(TangentGradient("gradient", POINT, *bounds), x, Y)
    rows = np.array([POINT.coordinates(np.asarray(one, np.float64)) for one in x.dense()])
    residuals = Y - x.inner(POINT.matrix())
    expected = np.clip(residuals, -bounds[0], bounds[0]) @ clip_rows(rows, bounds[1])
    np.testing.assert_allclose(got, expected, atol=1e-6 * bounds[0] * bounds[1])
    assert statistic.sensitivity.replace_one == 2 * bounds[0] * bounds[1]
    assert largest_projection(x, POINT) == pytest.approx(np.linalg.norm(rows, axis=1).max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bounds", [(1.5, 2.0), (50.0, 50.0)])
@pytest.mark.parametrize("form", ["number", "matrix", "numbers", "matrices"])
def test_start_is_the_clipped_whitened_sum(kind, bounds, form):
    x = KINDS[kind]
    root = np.random.default_rng(3).standard_normal((24, 24)) / 5 + np.eye(24)
    each = {
        "number": [2.0 * np.eye(24)] * N,
        "matrix": [root @ root.T] * N,
        "numbers": [(1.0 + i) * np.eye(24) for i in range(N)],
        "matrices": [root @ root.T + i * np.eye(24) for i in range(N)],
    }[form]
    given = {"number": 2.0, "matrix": each[0], "numbers": [1.0 + i for i in range(N)], "matrices": each}[form]
    whitener = Whitener(given, 24, N)
    got, _ = summed(SpectralStart(SHAPE, whitener, *bounds), x, Y, block_size=7)
    flat = x.dense().reshape(N, -1).astype(np.float64)
    rows = np.array([np.linalg.solve(c, one) for c, one in zip(each, flat, strict=True)])
    expected = np.clip(Y, -bounds[0], bounds[0]) @ clip_rows(rows, bounds[1])
    np.testing.assert_allclose(got.ravel(), expected, atol=1e-6 * bounds[0] * bounds[1])
    assert largest_whitened(x, whitener) == pytest.approx(np.linalg.norm(rows, axis=1).max(), rel=1e-6)
    values = np.concatenate([np.linalg.eigvalsh(c) for c in each])
    assert (whitener.smallest, whitener.largest) == pytest.approx((values.min(), values.max()))
    assert whitener.inverse_trace == pytest.approx(max(np.trace(np.linalg.inv(c)) for c in each))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_do_not_depend_on_blocks_or_threads(kind):
    whitener = Whitener(None, 24, N)
    for sweep in (TangentGradient("gradient", POINT, 1.0, 1.5), SpectralStart(SHAPE, whitener, 1.0, 2.0)):
        engines = [{"block_size": size, "n_jobs": jobs} for size in (1, 5, 100) for jobs in {1, get_num_threads()}]
        results = [summed(sweep, KINDS[kind], Y, **engine)[0] for engine in engines]
        assert all(np.array_equal(result, results[0]) for result in results)


@pytest.mark.parametrize("size", [1e160, 1e300, 1.7e308])
def test_what_overflows_contributes_nothing(size):
    x = DenseMeasurements(np.full((1, *SHAPE), size))
    y = np.array([1e308])
    got, _ = summed(TangentGradient("gradient", POINT, 1.0, 1.0), x, y)
    np.testing.assert_array_equal(got, 0.0)
    got, _ = summed(SpectralStart(SHAPE, Whitener(None, 24, 1), 1.0, 1.0), x, y)
    np.testing.assert_array_equal(got, 0.0)


def test_a_cell_that_occurs_twice_in_a_record_stays_within_the_bound():
    twice = SparseMeasurements((3, 2), np.array([0, 2]), np.zeros(2, np.int32), np.zeros(2, np.int32), np.ones(2))
    got, _ = summed(SpectralStart((3, 2), Whitener(None, 6, 1), 1.0, 1.0), twice, np.ones(1))
    assert 0.5 < np.linalg.norm(got) <= 1.0
    merged = from_flat_csr(scipy.sparse.csr_array((np.ones(2), [1, 1], [0, 2]), shape=(1, 3)))
    np.testing.assert_array_equal(merged.dense(), [[[0.0], [2.0], [0.0]]])


def test_cells_and_slices():
    x = cells([0, 2, 1], [1, 1, 0], (3, 2))
    coef = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(x.inner(coef), [1.0, 5.0, 2.0])
    np.testing.assert_array_equal(x[1:3].inner(coef), [5.0, 2.0])
    for kind in KINDS.values():
        np.testing.assert_allclose(kind[4:9].inner(POINT.matrix()), kind.inner(POINT.matrix())[4:9], rtol=1e-12)
        products = np.einsum("nij,ij->n", kind.dense(), POINT.matrix())
        np.testing.assert_allclose(kind.inner(POINT.matrix()), products, rtol=1e-5, atol=1e-6)


def test_records_are_closed():
    records = TraceRecords(KINDS["dense"], Y)
    assert repr(records) == "TraceRecords(closed, 23 records, X of shape (6, 4))"
    for look in (len, np.asarray, list, bool):
        with pytest.raises(ClosedError):
            look(records)
