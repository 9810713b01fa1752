"""Public room: trace regression without privacy, to compare with.

Paper: Zha 2024, Algorithms 1 and 2. Deviates: nothing is clipped, and there is no noise.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.trace import Measurements
from lowkey.methods.trace.bounds import ExactFacts, TraceFacts
from lowkey.methods.trace.method import DPTraceRegression, check_rank
from lowkey.methods.trace.whitening import Whitener


class TraceRegression(DPTraceRegression):
    """The non-private twin: the same start and descent, with nothing clipped, no noise and no guarantee.

    Parameters
    ----------
    rank, covariance, n_iter
        As in ``DPTraceRegression``.

    Examples
    --------
    >>> lk.TraceRegression(2).fit(X, y).coef_  # doctest: +SKIP
    """

    private = False

    def __init__(self, rank: int = 1, covariance: Any = None, n_iter: int = 20) -> None:
        super().__init__(rank=rank, covariance=covariance, n_iter=n_iter)

    @property
    def _public_measurements(self) -> bool:
        return True

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        check_rank(self.rank, shape)

    def _facts(self, measurements: Measurements, responses: NDArray[np.float64]) -> TraceFacts:
        n, shape = len(responses), measurements.shape
        whitener = Whitener(self.covariance, math.prod(shape), n)
        largest = float(np.abs(responses).max()) or 1.0
        return ExactFacts(n, shape, self.rank, 0.0, math.inf, whitener, largest)
