"""Public room: the known covariance of a design, and its inverse.

``None`` is the identity, a number c stands for c times the identity, a matrix (d1 d2, d1 d2) is shared by all records, and
a sequence gives each record its own number or matrix. It is public, so it may not be estimated from private data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import refuse

Array = NDArray[Any]


class Whitener:
    """``whiten(flat, first)`` gives Lambda_i^-1 vec(X_i); where Lambda is a number, ``scalar`` is its inverse instead."""

    def __init__(self, covariance: Any, size: int, n_records: int) -> None:
        self.scalar: float | None = None
        self._inverse: Array | None = None  # (size, size)
        self._weights: Array | None = None  # (n_records,)
        self._inverses: list[Array] | None = None
        if covariance is None or np.ndim(covariance) == 0:
            self.largest = self.smallest = _positive(1.0 if covariance is None else float(covariance))
            self.scalar, self.inverse_trace = 1.0 / self.largest, size / self.largest
        elif isinstance(covariance, np.ndarray) and covariance.ndim == 2:
            self._inverse, self.smallest, self.largest, self.inverse_trace = _inverted(covariance, size)
        elif np.ndim(covariance[0]) == 0:
            variances = _positive(np.asarray(covariance, np.float64))
            _check_length(len(variances), n_records)
            self._weights = 1.0 / variances
            self.smallest, self.largest = float(variances.min()), float(variances.max())
            self.inverse_trace = size / self.smallest
        else:
            _check_length(len(covariance), n_records)
            parts = [_inverted(np.asarray(one, np.float64), size) for one in covariance]
            self._inverses = [part[0] for part in parts]
            self.smallest, self.largest = min(p[1] for p in parts), max(p[2] for p in parts)
            self.inverse_trace = max(p[3] for p in parts)

    def __eq__(self, other: object) -> bool:
        """By content: two fits that are told the same covariance have the same public facts."""
        if not isinstance(other, Whitener):
            return NotImplemented
        return self.__dict__.keys() == other.__dict__.keys() and all(
            np.array_equal(a, b) if not isinstance(a, list) else len(a) == len(b) and all(map(np.array_equal, a, b))
            for a, b in zip(self.__dict__.values(), other.__dict__.values(), strict=True)
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def whiten(self, flat: Array, first: int) -> Array:
        """(n, size) measurements, the first of which is the record number ``first``."""
        if self._inverse is not None:
            return flat @ self._inverse
        if self._weights is not None:
            return flat * self._weights[first : first + len(flat), None]
        if self._inverses is not None:
            return np.stack([inverse @ x for inverse, x in zip(self._inverses[first:], flat, strict=False)])
        return flat


def _inverted(covariance: Array, size: int) -> tuple[Array, float, float, float]:
    if covariance.shape != (size, size) or not np.allclose(covariance, covariance.T, rtol=1e-9, atol=0.0):
        refuse(
            "covariance",
            got=f"an array of shape {covariance.shape}",
            needed=f"a symmetric matrix of shape {(size, size)}",
            try_="the covariance of vec(X), row by row",
        )
    values, vectors = np.linalg.eigh(covariance)
    _positive(values)
    return (vectors / values) @ vectors.T, float(values[0]), float(values[-1]), float((1.0 / values).sum())


def _positive(values: Any) -> Any:
    if not (np.isfinite(values).all() and np.min(values) > 0.0):
        refuse("covariance", got="values that are not positive", needed="a positive definite one", try_="covariance=1.0")
    return values


def _check_length(got: int, n_records: int) -> None:
    if got != n_records:
        refuse("covariance", got=f"{got} entries", needed=f"one per record: {n_records}", try_="one matrix for all records")
