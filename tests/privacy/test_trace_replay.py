"""The replay harness in record form: one record, or one response, is replaced by the worst that can be thought of.

Whole fits are replayed on neighbours with the first run's posts forced upon them, so bounds, noise, point and model must
be the same, and sums may differ by the declared sensitivity. The gallery form compares every two records of a gallery.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from replay import (
    ForcingBillboard,
    Record,
    RecordingBillboard,
    Violation,
    WatchingEngine,
    check_books,
    check_moved,
    check_noise,
    counted_openings,
)

from lowkey.data.trace import DenseMeasurements, LowRankMeasurements, RecordBlock, measurements_of
from lowkey.kernels import trace_regression as kernel
from lowkey.methods.trace.method import DPTraceRegression
from lowkey.privacy.guarantee import Unit
from lowkey.privacy.noise import SeededNoise

N, SHAPE, RANK = 40, (7, 5), 2
EPSILON = 100.0  # few records: with less, the steps would be given up as hopeless, and not tested


def estimator(protect: str = "records", **settings) -> DPTraceRegression:
    facts = {"error_std": 0.2, "max_singular_value": 1.5, "n_iter": 3}
    return DPTraceRegression(RANK, EPSILON, 1e-5, protect, **{**facts, **settings})


def crowd(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, *SHAPE))
    return X, X.reshape(N, -1) @ rng.standard_normal(35) * 0.3 + 0.2 * rng.standard_normal(N)


def as_kind(X: np.ndarray, kind: str):
    if kind == "dense":
        return DenseMeasurements(np.ascontiguousarray(X))
    if kind == "sparse":
        return measurements_of([scipy.sparse.coo_array(x) for x in X])
    return LowRankMeasurements(np.ascontiguousarray(X), np.ascontiguousarray(np.broadcast_to(np.eye(5), (len(X), 5, 5))))


def recorded(model: DPTraceRegression, X, y) -> Record:
    noise, engine = SeededNoise(7), WatchingEngine()
    billboard = RecordingBillboard(noise, engine)
    with counted_openings() as openings:
        model.fit(X, y, engine=engine, billboard=billboard)
    assert billboard.plan is not None
    found = Record(billboard.plan, billboard.entries, engine.calls, SimpleNamespace(ledger=billboard.ledger), len(openings))
    assert [entry.statistic.name for entry in found.entries] == ["spectral_start", "gradient", "gradient", "last_gradient"]
    check_books(found)
    check_noise(found, noise)
    return found


def replayed(known: Record, first: DPTraceRegression, model: DPTraceRegression, X, y) -> float:
    billboard = ForcingBillboard(known)
    model.fit(X, y, engine=WatchingEngine(block_size=1000, expected=known.calls), billboard=billboard)
    assert billboard.at == len(known.entries)
    assert model.path_ == first.path_, "the path depends on the data beyond the posts"
    assert np.array_equal(model.coef_, first.coef_)
    return billboard.largest


def gallery(path) -> list[tuple[np.ndarray, float]]:
    """Huge, tiny, overflowing, and aligned with the tangent space or the coefficients at every point of the path."""
    rng = np.random.default_rng(3)
    noise = rng.standard_normal(SHAPE)
    records = [(np.zeros(SHAPE), 5.0), (noise, 0.1), (noise * 1e-12, 1e9)]
    records += [(np.full(SHAPE, 1.7e308), 1.0), (np.where(noise > 0, 1.7e308, -1.7e308), -1.0)]  # X V itself overflows
    for size in (1e3, 1e30, 1e152, 1e160, 1e308):
        records += [(noise * min(size, 1e307), sign * 1e300) for sign in (1, -1)]
    for point in path:
        direction = point.tangent_vector(rng.standard_normal(point.tangent_size))
        along = np.outer(point.left[:, 0], point.right[:, 0])
        across = np.eye(7)[:, :1] @ np.eye(5)[:1] + 100.0 * np.outer(point.left[:, -1], point.right[:, -1])
        for x in (direction, along, across, point.matrix()):
            records += [(x * scale, sign * y) for scale in (0.5, 40.0, 1e8) for sign in (1, -1) for y in (0.3, 1e6)]
    return records


def contributions(known: Record, x: np.ndarray, y: float, kind: str) -> list[np.ndarray]:
    block = RecordBlock(as_kind(x[None], kind), np.array([y]), 0)
    found: list[np.ndarray] = []
    for entry in known.entries:
        call = known.calls[entry.call]
        sums = {s.name: np.zeros(s.shape, np.int64) for s in call.statistics}
        call.sweep.run(block, None, sums)
        found.append(sums[entry.statistic.name])
    return found


def gallery_share(kind: str = "dense") -> float:
    """The largest move between two records of the gallery, as a share of what is declared; raises above 1."""
    X, y = crowd()
    model = estimator()
    known = recorded(model, as_kind(X, kind), y)
    parts = [contributions(known, x, value, kind) for x, value in gallery(model.path_)]
    largest = 0.0
    for at, entry in enumerate(known.entries):
        rows = np.array([part[at].ravel() for part in parts])
        squares = (rows.astype(np.float64) ** 2).sum(axis=1)
        distances = squares[:, None] + squares - 2.0 * rows.astype(np.float64) @ rows.T
        for pair in np.argsort(distances, axis=None)[-9:]:  # the furthest apart; exactly
            i, j = np.unravel_index(pair, distances.shape)
            largest = max(largest, check_moved(f"post {at}", entry, rows[i] - rows[j], known.adjacency))
    return largest


@pytest.mark.parametrize("kind", ["dense", "sparse", "low-rank"])
def test_no_two_records_move_a_sum_further_than_declared(kind):
    assert gallery_share(kind) > 0.999, "the gallery is too tame to test anything"


@pytest.mark.parametrize("at", [0, 17, N - 1])
def test_whole_fits_with_one_record_replaced(at):
    X, y = crowd()
    first = estimator()
    first.fit(X, y)
    for x, value in gallery(first.path_)[3::19]:
        model, before = estimator(), X.copy()
        before[at] = -x / max(1.0, np.abs(x).max()) * 30.0
        known = recorded(model, before, np.where(np.arange(N) == at, value, y))
        after, responses = X.copy(), y.copy()
        after[at], responses[at] = x, value
        assert replayed(known, model, estimator(), after, responses) <= 1.0


def test_whole_fits_with_one_response_replaced():
    X, y = crowd()
    X[5] *= 30.0  # the measurement that the public bound comes from
    largest = 0.0
    for at in (5, 11):
        for value in (0.0, 1e6, -1e6, 1e300):
            model, low = estimator("responses"), y.copy()
            low[at] = -1e7
            known = recorded(model, X, low)
            assert known.plan.unit == Unit("record", "values", "replace-one")
            high = low.copy()
            high[at] = value
            largest = max(largest, replayed(known, model, estimator("responses"), X, high))
    assert largest > 0.999


def without(monkeypatch, clip: str) -> None:
    """Delete one clip, all but: the kernel gets a bound a thousand times too wide, the declaration stays."""
    tangent_pass, dense_start = kernel._tangent_pass, kernel._add_dense_start

    def bare_pass(x, y, point, bounds, norms):
        loose = bounds.copy()
        loose[{"residual": 0, "projection": 1}[clip]] *= 1e3
        return tangent_pass(x, y, point, loose, norms)

    def bare_start(whitened, scale, y, response_bound, measurement_bound, *rest):
        bounds = (1e3 * response_bound, measurement_bound)
        if clip == "whitened":
            bounds = (response_bound, 1e3 * measurement_bound)
        dense_start(whitened, scale, y, *bounds, *rest)

    if clip in ("residual", "projection"):
        monkeypatch.setattr(kernel, "_tangent_pass", bare_pass)
    else:
        monkeypatch.setattr(kernel, "_add_dense_start", bare_start)


@pytest.mark.parametrize("clip", ["residual", "projection", "response", "whitened"])
def test_every_clip_is_needed(monkeypatch, clip):
    without(monkeypatch, clip)
    with pytest.raises(Violation):
        gallery_share()


def test_a_bound_from_private_measurements_is_noticed(monkeypatch):
    """``protect="records"`` with bounds computed from X, as ``responses`` may do."""
    monkeypatch.setattr(DPTraceRegression, "_public_measurements", True)
    X, y = crowd()
    model = estimator(measurement_bound=1e6)
    known = recorded(model, X, y)
    X[3] *= 0.1
    X[4] *= 5.0
    with pytest.raises(Violation):
        replayed(known, model, estimator(measurement_bound=1e6), X * 0.9, y)


def test_what_is_booked_is_what_was_asked():
    X, y = crowd()
    for protect, what in (("records", "everything"), ("responses", "values")):
        guarantee = estimator(protect).fit(X, y).guarantee_
        assert guarantee.unit == Unit("record", what, "replace-one")
        assert 0.9999 * EPSILON < guarantee.epsilon <= EPSILON
        assert any(guarantee.unit.protected in caveat for caveat in guarantee.caveats)


def test_noise_has_the_dimension_of_the_tangent_space():
    X, y = crowd()
    sizes = {line.name: line.size for line in estimator().fit(X, y).ledger_.plans()[0].lines}
    assert sizes == {"spectral_start": 35, "gradient": 2 * (7 + 5 - 2), "last_gradient": 20}
