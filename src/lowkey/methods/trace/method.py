"""Public room: low-rank trace regression y = <X, M> + error: private spectral start, private Riemannian descent.

Paper: Zha 2024, Algorithm 1 (start) and Algorithm 2 (descent); Definition 1 for ``protect="responses"``.
Deviates: every record is clipped to public bounds, so epsilon holds for every data set; the start posts the clipped
statistic L itself in place of two noisy projectors and a core whose printed noise hides nothing of the antisymmetric
part; the residual bound falls with the expected error; noise is drawn in the tangent space; the releases compose
exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from lowkey.data.trace import DenseMeasurements, Measurements, TraceRecords, from_flat_csr, measurements_of, without_cells
from lowkey.engines.local import Engine, LocalEngine
from lowkey.errors import refuse
from lowkey.kernels.trace_regression import SpectralStart, TangentGradient, largest_projection, largest_whitened
from lowkey.linalg.lowrank import FixedRank, shrunk_values, tangent_size, truncated
from lowkey.methods.base import Unscored
from lowkey.methods.constraints import check, not_negative, positive, share, whole, word
from lowkey.methods.curator import Curator
from lowkey.methods.trace.bounds import UNCLIPPED, TraceFacts
from lowkey.methods.trace.whitening import Whitener
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.guarantee import Guarantee, Unit
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Plan, Request, check_epsilon_delta

UNITS = {
    "records": Unit("record", "everything", "replace-one"),
    "responses": Unit("record", "values", "replace-one"),
}
ROOM = 1.0 + 1e-9  # above a maximum over public measurements, so that the clip leaves the largest as it is
SMALLEST = 1e-100  # a bound above 0 for measurements that are all 0


@dataclass(eq=False, repr=False)
class DPTraceRegression(Unscored, RegressorMixin, BaseEstimator):
    """y = <X, coef_> + error, with ``coef_`` of low rank; one record (X, y), or one response y with X public, is protected.

    What is public and must be known steers accuracy only: epsilon holds whatever it is. The clipping bounds follow from it
    (methods/trace/bounds.py). X has shape (n, d1, d2), or (n, d1) for vectors, or is a sequence of sparse matrices or
    of pairs (A, B) with X = A B^T, or ``cells(...)`` for matrix completion.

    Parameters
    ----------
    rank : int
        Of the coefficients.
    epsilon, delta : float
        What the fit may cost. No default.
    protect : {"records", "responses"}
        A whole record, or its response alone.
    error_std, max_singular_value : float
        Public: of the errors, and an upper bound on the largest singular value of the coefficients.
    covariance : array, optional
        Public: of vec X; the identity by default.
    n_iter : int, optional
        Steps of the descent; 0 posts the spectral start alone. By default from the bounds.
    start_share, last_share : float
        Of the budget: for the start, and for the last step.
    residual_bound, measurement_bound : float, optional
        In place of the clipping bounds that follow.

    Examples
    --------
    >>> model = lk.DPTraceRegression(2, 1.0, 1e-6, error_std=0.1, max_singular_value=3.0).fit(X, y)  # doctest: +SKIP
    >>> model.predict(X_new)  # doctest: +SKIP
    """

    private: ClassVar[bool] = True
    ledger_: Ledger = field(init=False)
    constraints = {
        "protect": word(*UNITS),
        "error_std": not_negative(),
        "max_singular_value": positive(),
        "n_iter": whole(0),  # 0: the start alone
        "start_share": share(),
        "last_share": share(),
        "residual_bound": positive(),
        "measurement_bound": positive(),
    }

    rank: int = 1
    epsilon: float | None = None
    delta: float | None = None
    protect: str = "records"
    error_std: float | None = None
    max_singular_value: float | None = None
    covariance: Any = None
    n_iter: int | None = None
    start_share: float = 0.3
    last_share: float = 0.5
    residual_bound: float | None = None
    measurement_bound: float | None = None

    # The contract -----------------------------------------------------------------------------------------------------
    def fit(self, X: Any, y: Any, *, engine: Engine | None = None, billboard: Billboard | None = None) -> Self:
        """A fresh billboard each time; pass one in to compose several fits on the same records."""
        measurements, responses = self._validated(X, y)
        self._check_parameters(measurements.shape)
        facts = self._facts(measurements, responses)
        billboard = billboard if billboard is not None else Billboard()
        billboard.begin(self.plan(facts))
        records, engine = TraceRecords(measurements, responses), engine if engine is not None else LocalEngine()
        curator = Curator(records, engine, billboard)
        path = self._path(facts, curator, measurements if self._public_measurements else None)
        self.path_ = path  # every point was posted: the path is as public as its end
        self.ledger_ = billboard.ledger
        coef = path[-1].matrix()
        self.coef_ = coef[:, 0] if self._vectors else coef
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """<X_i, coef_> for every measurement."""
        check_is_fitted(self, "coef_")
        coef = self.coef_.reshape(len(self.coef_), -1)
        measurements = self._measurements(X, reset=False)
        if measurements.shape != coef.shape:
            refuse("X", got=f"shape {measurements.shape}", needed=f"{coef.shape}, as in fit", try_="that shape")
        return measurements.inner(coef)

    @property
    def guarantee_(self) -> Guarantee:
        check_is_fitted(self, "coef_")
        return self.ledger_.guarantee()

    def plan(self, facts: TraceFacts) -> Plan:
        """Every release of a fit, its noise and its price, from public facts alone."""
        fields = {"unit": UNITS[self.protect], "public": self._public(facts)}
        n_iter = self._n_iter(facts)
        size, descent = tangent_size(facts.shape, facts.rank), 1.0 - self.start_share
        start = Request("spectral_start", math.prod(facts.shape), self.start_share if n_iter else 1.0)
        requests = [start]
        if n_iter > 1:
            requests.append(
                Request("gradient", size, descent * (1.0 - self.last_share), times=n_iter - 1, note="in the tangent space")
            )
        if n_iter:
            last = descent * (self.last_share if n_iter > 1 else 1.0)
            requests.append(Request("last_gradient", size, last, note="in the tangent space"))
        caveat = (
            f"The unit is {UNITS[self.protect].protected}: whoever stands behind m of them is protected at m times this mu."
        )
        fields = {**fields, "caveats": (caveat,), "settings": {"rank": facts.rank, "n_iter": n_iter}}
        if not self.private:
            return Plan.calibrated(type(self).__name__, requests, epsilon=1.0, delta=0.5, mu=math.inf, **fields)
        assert self.epsilon is not None
        assert self.delta is not None
        return Plan.calibrated(type(self).__name__, requests, epsilon=self.epsilon, delta=self.delta, **fields)

    # The method -------------------------------------------------------------------------------------------------------
    def _path(self, facts: TraceFacts, curator: Curator, measurements: Measurements | None) -> list[FixedRank]:
        """The points of the descent. ``measurements`` are given where they are public: their maximum may lower a bound."""
        point, error = self._start(facts, curator, measurements)
        path, n_iter = [point], self._n_iter(facts)
        for i in range(n_iter):
            residual_bound = self.residual_bound or facts.residual_bound(error)
            bound = self.measurement_bound or facts.projection_bound
            if measurements is not None:
                bound = min(bound, max(ROOM * largest_projection(measurements, point), SMALLEST))
            name = "gradient" if i < n_iter - 1 else "last_gradient"
            sweep = TangentGradient(name, point, residual_bound, bound)
            step = facts.step / facts.n_records
            noise_std = step * curator.noise(sweep)[name]
            if noise_std * math.sqrt(point.tangent_size) < error:  # else the step would add more than it can take away
                point = point.moved(step * curator.ask(sweep)[name], facts.max_singular_value)
                error = facts.next_error(error, noise_std)
            path.append(point)
        return path

    def _start(self, facts: TraceFacts, curator: Curator, measurements: Measurements | None) -> tuple[FixedRank, float]:
        """The truncated, shrunk SVD of the posted statistic, and how far off it is expected to be."""
        bound = facts.whitened_bound
        if measurements is not None:
            bound = min(bound, max(ROOM * largest_whitened(measurements, facts.whitener), SMALLEST))
        sweep = SpectralStart(facts.shape, facts.whitener, facts.residual_bound(facts.largest_error), bound)
        posts = curator.ask(sweep)
        noise_std = posts.stds["spectral_start"] / facts.n_records
        point = truncated(posts["spectral_start"] / facts.n_records, facts.rank)
        values = shrunk_values(point.values, noise_std, facts.shape)
        values = np.minimum(values * facts.start_scale(float(np.linalg.norm(values))), facts.max_singular_value)
        return FixedRank(point.left, values, point.right), facts.start_error(noise_std / UNCLIPPED)

    # Public facts -----------------------------------------------------------------------------------------------------
    @property
    def _public_measurements(self) -> bool:
        return self.protect == "responses"

    def _n_iter(self, facts: TraceFacts) -> int:
        return self.n_iter if self.n_iter is not None else facts.default_steps

    def _facts(self, measurements: Measurements, responses: NDArray[np.float64]) -> TraceFacts:
        assert self.error_std is not None
        assert self.max_singular_value is not None
        n, shape = len(responses), measurements.shape
        whitener = Whitener(self.covariance, math.prod(shape), n)
        return TraceFacts(n, shape, self.rank, self.error_std, self.max_singular_value, whitener)

    def _public(self, facts: TraceFacts) -> tuple[str, ...]:
        public = (
            f"{facts.n_records} records with X of shape {facts.shape}",
            "the covariance of X, the error's standard deviation, the bounds, all hyper-parameters",
        )
        return (*public, "all measurements X") if self._public_measurements else public

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        check_rank(self.rank, shape)
        for name in ("epsilon", "delta", "error_std", "max_singular_value"):
            if getattr(self, name) is None:
                refuse(name, got="none", needed="a number: it has no default", try_=f"{name}=… from public knowledge")
        assert self.epsilon is not None
        assert self.delta is not None
        check_epsilon_delta(self.epsilon, self.delta)
        check(self.get_params(deep=False), self.constraints)

    # Input ------------------------------------------------------------------------------------------------------------
    def _validated(self, X: Any, y: Any) -> tuple[Measurements, NDArray[np.float64]]:
        if y is None:
            refuse(
                "y", got="None", needed="responses: it requires y to be passed, but the target y is None", try_="fit(X, y)"
            )
        return without_cells(lambda: self._records(X, y))

    def _records(self, X: Any, y: Any) -> tuple[Measurements, NDArray[np.float64]]:
        ready = measurements_of(X)
        if ready is None:
            X, y = validate_data(self, X, y, y_numeric=True, **_ARRAYS)
            ready = self._wrapped(X)
        y = np.asarray(column_or_1d(y, warn=True), np.float64)
        check_consistent_length(y, range(len(ready)))
        if not np.isfinite(y).all():
            refuse("y", got="NaN or infinity", needed="finite numbers", try_="dropping such records")
        self._vectors = ready.shape[1] == 1 and np.ndim(X) == 2
        return ready, y

    def _measurements(self, X: Any, reset: bool) -> Measurements:
        def measured() -> Measurements:
            ready = measurements_of(X)
            return ready if ready is not None else self._wrapped(validate_data(self, X, reset=reset, **_ARRAYS))

        return without_cells(measured)

    def _wrapped(self, X: Any) -> Measurements:
        if scipy.sparse.issparse(X):
            return from_flat_csr(X)
        if X.ndim not in (2, 3):
            refuse("X", got=f"an array of {X.ndim} axes", needed="(n, d1, d2), or (n, d1) for vectors", try_="X.reshape")
        return DenseMeasurements(X if X.ndim == 3 else X[:, :, None])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.private  # the noise comes from the operating system
        tags.regressor_tags.poor_score = True  # none is offered
        tags.input_tags.sparse = True
        tags.input_tags.three_d_array = True
        return tags


_ARRAYS: dict[str, Any] = {
    "dtype": (np.float64, np.float32),
    "order": "C",
    "accept_sparse": "csr",
    "allow_nd": True,
}


def check_rank(rank: Any, shape: tuple[int, int]) -> None:
    if not (isinstance(rank, int | np.integer) and 1 <= rank <= min(shape)):
        refuse("rank", got=repr(rank), needed=f"1 to {min(shape)}, for X of shape {shape}", try_="rank=1")
