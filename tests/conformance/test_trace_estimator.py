"""The scikit-learn contract of the trace regressors, what they accept, and what they refuse and how."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from lowkey.data.trace import cells
from lowkey.errors import InputError
from lowkey.linalg.lowrank import truncated
from lowkey.methods.trace.baseline import TraceRegression
from lowkey.methods.trace.method import DPTraceRegression
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.ledger import Ledger

PRIVATE = {"epsilon": 2.0, "delta": 1e-5, "error_std": 0.1, "max_singular_value": 1.0}
# These compare the predictions of two fits; two private fits differ by their noise, as they must.
TWO_FITS = ("check_regressor_data_not_an_array", "check_supervised_y_2d", "check_regressors_int", "check_fit_idempotent")


def not_applicable(estimator) -> dict[str, str]:
    return dict.fromkeys(TWO_FITS, "two private fits differ by their noise") if estimator.private else {}


@parametrize_with_checks(
    [TraceRegression(), DPTraceRegression(**PRIVATE), DPTraceRegression(protect="responses", **PRIVATE)],
    expected_failed_checks=not_applicable,
)
def test_scikit_learn(estimator, check):
    check(estimator)


def problem(n=4000, shape=(6, 5), rank=2, error_std=0.0, seed=0):
    rng = np.random.default_rng(seed)
    coef = truncated(rng.standard_normal(shape), rank).matrix()
    coef /= np.linalg.norm(coef, 2)
    X = rng.standard_normal((n, *shape))
    return X, X.reshape(n, -1) @ coef.ravel() + error_std * rng.standard_normal(n), coef


def test_the_twin_recovers_exact_data():
    X, y, coef = problem(n=600)
    model = TraceRegression(2, n_iter=60).fit(X, y)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-6)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-5)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-9) == 2
    assert model.guarantee_.epsilon == np.inf


def test_the_private_fit_comes_close_and_the_descent_improves_the_start():
    X, y, coef = problem(n=40_000, error_std=0.1)
    model = DPTraceRegression(2, **PRIVATE).fit(X, y)
    errors = [np.linalg.norm(point.matrix() - coef) for point in model.path_]
    assert len(errors) == len(model.ledger_.spent())  # one post for every point
    # About 0.01 is expected (noise and sampling, 18 coordinates); three times that has a chance far below 1e-9.
    assert errors[-1] < 0.03 < errors[0]
    assert model.guarantee_.epsilon <= 2.0


def test_all_kinds_of_measurements_give_the_same_twin():
    X, y, _ = problem(n=300, rank=1)
    pairs = [(np.ascontiguousarray(x), np.eye(5)) for x in X]
    sparse = [scipy.sparse.csr_matrix(x) for x in X]
    dense = TraceRegression(1, n_iter=5).fit(X, y)
    for same in (pairs, sparse):
        model = TraceRegression(1, n_iter=5).fit(same, y)
        np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-8)
        np.testing.assert_allclose(model.predict(same), dense.predict(X), atol=1e-8)


def test_vectors_are_linear_regression():
    rng = np.random.default_rng(0)
    X, coef = rng.standard_normal((500, 4)), np.array([1.0, -2.0, 0.5, 3.0])
    model = TraceRegression(n_iter=60).fit(X, X @ coef)
    assert model.coef_.shape == (4,)
    np.testing.assert_allclose(model.coef_, coef, atol=1e-8)
    again = TraceRegression(n_iter=60).fit(scipy.sparse.csr_matrix(X), X @ coef)
    np.testing.assert_allclose(again.coef_, coef, atol=1e-8)


def test_a_known_covariance_is_used():
    rng = np.random.default_rng(0)
    X, y, coef = problem(n=20_000)
    root = np.diag(np.linspace(1.0, 1.6, 30))
    X = (X.reshape(len(X), -1) @ root).reshape(X.shape)
    y = X.reshape(len(X), -1) @ coef.ravel() + 0.1 * rng.standard_normal(len(X))
    known = TraceRegression(2, covariance=root @ root, n_iter=0).fit(X, y)
    ignored = TraceRegression(2, n_iter=0).fit(X, y)
    wrong, right = (np.linalg.norm(model.coef_ - coef) for model in (ignored, known))
    assert right < 0.3 * wrong
    private = DPTraceRegression(2, covariance=root @ root, **PRIVATE).fit(X, y)
    assert np.linalg.norm(private.coef_ - coef) < right


def test_matrix_completion():
    rng = np.random.default_rng(0)
    coef = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 15))
    X = cells(rng.integers(0, 20, 30_000), rng.integers(0, 15, 30_000), (20, 15))
    y = X.inner(coef) + 0.1 * rng.standard_normal(30_000)
    known = {**PRIVATE, "max_singular_value": 40.0, "covariance": 1 / 300}
    model = DPTraceRegression(2, **known).fit(X, y)
    assert np.sqrt(np.mean((model.coef_ - coef) ** 2)) < 0.2 * np.sqrt(np.mean(coef**2))
    assert model.guarantee_.unit.name == "record"
    np.testing.assert_allclose(model.predict(cells([3], [4], (20, 15))), [model.coef_[3, 4]])


def test_fits_compose_on_one_ledger():
    X, y, _ = problem(n=100)
    ledger = Ledger()
    for _ in range(2):
        DPTraceRegression(2, **PRIVATE).fit(X, y, billboard=Billboard(ledger))
    one = DPTraceRegression(2, **PRIVATE).fit(X, y).guarantee_
    assert ledger.guarantee().mu == pytest.approx(np.sqrt(2) * one.mu)


def test_clone_and_parameters():
    model = DPTraceRegression(3, **PRIVATE, covariance=np.eye(4))
    assert clone(model).get_params()["rank"] == 3
    assert clone(TraceRegression(2, n_iter=7)).get_params() == {"rank": 2, "covariance": None, "n_iter": 7}


X0, Y0, _ = problem(n=12)
SECRET = 123456.789


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rank": 6}, "rank: got 6, needed 1 to 5"),
        ({"rank": 0}, "rank"),
        ({"rank": 1.5}, "rank"),
        ({"epsilon": None}, "epsilon: got none"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 2.0}, "delta"),
        ({"error_std": None}, "error_std: got none"),
        ({"error_std": -0.1}, "error_std"),
        ({"max_singular_value": 0.0}, "max_singular_value"),
        ({"n_iter": -1}, "n_iter"),
        ({"start_share": 1.0}, "start_share"),
        ({"protect": "users"}, "protect"),
        ({"covariance": np.eye(7)}, "covariance"),
        ({"covariance": [1.0, 2.0]}, "covariance"),
        ({"covariance": -1.0}, "covariance"),
        ({"residual_bound": -1.0}, "residual_bound"),
    ],
)
def test_bad_parameters_are_refused(change, says):
    with pytest.raises(InputError, match=says):
        DPTraceRegression(**{"rank": 2, **PRIVATE, **change}).fit(X0, Y0)


def with_bad(where, value):
    X, y = X0.astype(object), Y0.astype(object)
    (X if where == "X" else y)[(0, 0, 0) if where == "X" else 0] = value
    return X, y


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (*with_bad("X", np.nan), "NaN"),
        (*with_bad("y", np.inf), "infinity"),
        (*with_bad("X", f"secret {SECRET}"), "not numbers"),
        (X0, Y0[:-1], "inconsistent numbers of samples"),
        (X0[..., None], Y0, "4 axes"),
        ([scipy.sparse.eye_array(3), scipy.sparse.eye_array(4)], Y0[:2], "one shape"),
        ([(np.ones((3, 1)), np.ones((2, 1))), (np.ones((3, 2)), np.ones((2, 2)))], Y0[:2], "pairs"),
        ([scipy.sparse.coo_array(np.full((6, 5), np.nan))], Y0[:1], "NaN"),
    ],
)
def test_bad_data_are_refused_without_showing_them(X, y, says):
    with pytest.raises(ValueError, match=says) as caught:
        DPTraceRegression(2, **PRIVATE).fit(X, y)
    error = caught.value
    while error is not None:
        assert str(SECRET) not in str(error)
        error = error.__cause__ or error.__context__


def test_cells_outside_are_refused():
    with pytest.raises(InputError, match="cells"):
        cells([0, 3], [0, 0], (3, 2))


def test_predict_refuses_another_shape_and_an_unfitted_model():
    model = TraceRegression(2).fit(X0, Y0)
    with pytest.raises(ValueError):
        model.predict(X0[:, :, :3])
    with pytest.raises(ValueError):
        TraceRegression().predict(X0)
