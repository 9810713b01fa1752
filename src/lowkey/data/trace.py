"""Vault room: records (X, y) of a trace regression, closed; X dense, sparse or of low rank.

``TraceRecords`` is what the sweeps of ``DPTraceRegression`` run over, cut into blocks of whole records. Measurements are
kept as they are given: a dense array is not copied, sparse and low-rank ones are never made dense as a whole. Under
``protect="responses"`` the measurements are public, and so is a bare ``Measurements`` object; responses never are.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from lowkey.errors import InputError, LowkeyError, refuse
from lowkey.privacy.closed import Closed

Floats = npt.NDArray[np.floating[Any]]
Result = TypeVar("Result")
# The first lines that scikit-learn is known to write: of shapes, kinds and missing numbers. Cells come in other words
# ("could not convert string to float: ...") or on the lines below ("Expected 2D array, got 1D array instead:\narray=...").
KNOWN = re.compile(
    r"(Complex data not supported|Expected|Input|Found (array|input variables)|X has|y should be a 1d array"
    r"|Sparse (data|input)|Only sparse|The feature names|float\(\) argument must be|Unable to convert array"
    r"|dtype='numeric'|Singleton)"
)
RESHAPE = "Reshape your data"


class Measurements(ABC):
    """n matrices X_i of one ``shape``. Slicing gives some of them, without a copy where that is possible."""

    shape: tuple[int, int]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, part: slice) -> Measurements: ...

    @abstractmethod
    def dense(self) -> Floats:
        """(n, d1, d2)."""

    @abstractmethod
    def inner(self, coef: Floats) -> npt.NDArray[np.float64]:
        """<X_i, coef> for every i."""


@dataclass(frozen=True)
class DenseMeasurements(Measurements):
    values: Floats  # (n, d1, d2), C order

    def __post_init__(self) -> None:
        _freeze(self, "values")

    @property
    def shape(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.values.shape[1], self.values.shape[2]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, part: slice) -> DenseMeasurements:
        return DenseMeasurements(self.values[part])

    def dense(self) -> Floats:
        return self.values

    def inner(self, coef: Floats) -> npt.NDArray[np.float64]:
        return self.values.reshape(len(self), -1) @ np.asarray(coef, np.float64).ravel()


@dataclass(frozen=True)
class SparseMeasurements(Measurements):
    """X_i has ``values[offsets[i]:offsets[i + 1]]`` at (rows, columns); an indicator of a cell is one entry of 1."""

    shape: tuple[int, int]
    offsets: npt.NDArray[np.int64]  # (n + 1,)
    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    values: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        _freeze(self, "offsets", "rows", "columns", "values")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, part: slice) -> SparseMeasurements:
        first, last, _ = part.indices(len(self))
        begin, end = self.offsets[first], self.offsets[max(first, last)]
        offsets = self.offsets[first : last + 1] - begin
        return SparseMeasurements(
            self.shape, offsets, self.rows[begin:end], self.columns[begin:end], self.values[begin:end]
        )

    def _flat(self) -> Any:
        cells = self.rows.astype(np.int64) * self.shape[1] + self.columns
        return scipy.sparse.csr_array((self.values, cells, self.offsets), shape=(len(self), self.shape[0] * self.shape[1]))

    def dense(self) -> Floats:
        return self._flat().toarray().reshape(len(self), *self.shape)

    def inner(self, coef: Floats) -> npt.NDArray[np.float64]:
        return self._flat() @ np.asarray(coef, np.float64).ravel()


@dataclass(frozen=True)
class LowRankMeasurements(Measurements):
    """X_i = left[i] @ right[i].T."""

    left: Floats  # (n, d1, q)
    right: Floats  # (n, d2, q)

    def __post_init__(self) -> None:
        _freeze(self, "left", "right")

    @property
    def shape(self) -> tuple[int, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.left.shape[1], self.right.shape[1]

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, part: slice) -> LowRankMeasurements:
        return LowRankMeasurements(self.left[part], self.right[part])

    def dense(self) -> Floats:
        return np.matmul(self.left, self.right.transpose(0, 2, 1))

    def inner(self, coef: Floats) -> npt.NDArray[np.float64]:
        return np.einsum("niq,niq->n", self.left, np.matmul(np.asarray(coef, np.float64), self.right))


class RecordBlock(NamedTuple):
    """Some whole records. ``first`` is the public number of the first one: with n public, a record has a place."""

    measurements: Measurements
    responses: npt.NDArray[np.float64]
    first: int


class TraceRecords(Closed):
    """The records (X_i, y_i), closed. Their number and the shape of X are public (records are replaced, not added)."""

    __slots__ = ("_measurements", "_responses", "n_records", "shape")

    def __init__(self, measurements: Measurements, responses: npt.NDArray[np.float64]) -> None:
        self._measurements, self._responses = measurements, frozen(responses)
        self.n_records, self.shape = len(responses), measurements.shape

    def _open_blocks(self, max_records: int) -> Iterator[RecordBlock]:
        """The bare records in blocks of at most ``max_records``, in order. For engines only."""
        for first in range(0, self.n_records, max_records):
            part = slice(first, min(first + max_records, self.n_records))
            yield RecordBlock(self._measurements[part], self._responses[part], first)

    def _open_whole(self) -> RecordBlock:
        """All bare records in one block. For engines only."""
        return RecordBlock(self._measurements, self._responses, 0)

    def _public_facts(self) -> str:
        return f"{self.n_records} records, X of shape {self.shape}"


def frozen(array: Any) -> Any:
    """A read-only view: no kernel can change it by accident, and compiled loops see one kind of array."""
    view = array.view()
    view.flags.writeable = False
    return view


def _freeze(measurements: Measurements, *names: str) -> None:
    for name in names:
        object.__setattr__(measurements, name, frozen(getattr(measurements, name)))


def cells(rows: Any, columns: Any, shape: tuple[int, int]) -> SparseMeasurements:
    """Matrix completion: X_i is the indicator of the cell (rows[i], columns[i]), so that <X_i, M> is that entry of M."""
    i, j = np.asarray(rows), np.asarray(columns)
    whole = i.ndim == 1 and i.shape == j.shape and i.dtype.kind in "iu" and j.dtype.kind in "iu"
    if not whole or not ((i >= 0) & (i < shape[0]) & (j >= 0) & (j < shape[1])).all():
        refuse("cells", got="rows or columns outside", needed=f"whole numbers inside {shape}", try_="positions from 0")
    return SparseMeasurements(
        (int(shape[0]), int(shape[1])), np.arange(len(i) + 1), i.astype(np.int32), j.astype(np.int32), np.ones(len(i))
    )


def measurements_of(X: Any) -> Measurements | None:
    """``Measurements`` from a sequence of sparse matrices or of pairs (A, B) with X = A B^T; None for anything else."""
    if isinstance(X, Measurements):
        return X
    if isinstance(X, np.ndarray) or scipy.sparse.issparse(X) or not isinstance(X, Sequence) or len(X) == 0:
        return None
    if scipy.sparse.issparse(X[0]):
        return _from_sparse(X)
    if isinstance(X[0], tuple) and len(X[0]) == 2:
        return _from_pairs(X)
    return None


def from_flat_csr(csr: Any) -> SparseMeasurements:
    """The rows of a SciPy CSR matrix as vectors: measurements of shape (n_columns, 1)."""
    csr = scipy.sparse.csr_array(csr, copy=True)
    csr.sum_duplicates()
    rows = csr.indices.astype(np.int32)
    values = _finite(csr.data.astype(np.float64))
    return SparseMeasurements((csr.shape[1], 1), csr.indptr.astype(np.int64), rows, np.zeros_like(rows), values)


def _from_sparse(X: Sequence[Any]) -> SparseMeasurements:
    shape = X[0].shape
    if len(shape) != 2 or any(not scipy.sparse.issparse(x) or x.shape != shape for x in X):
        refuse("X", got="several kinds or shapes", needed="sparse matrices of one shape", try_="one (d1, d2)")
    parts = [scipy.sparse.csr_array(x).tocoo() for x in X]  # csr first: it adds up repeated entries
    offsets = np.concatenate([[0], np.cumsum([x.nnz for x in parts])]).astype(np.int64)
    rows = np.concatenate([x.coords[0] for x in parts]).astype(np.int32)
    columns = np.concatenate([x.coords[1] for x in parts]).astype(np.int32)
    values = _finite(np.concatenate([x.data for x in parts]).astype(np.float64))
    return SparseMeasurements(shape, offsets, rows, columns, values)


def _from_pairs(X: Sequence[Any]) -> LowRankMeasurements:
    shapes = {tuple(np.shape(half) for half in pair) if len(pair) == 2 else None for pair in X}
    good = len(shapes) == 1 and None not in shapes and all(len(s) == 2 for s in next(iter(shapes)) or ())
    if not good or X[0][0].shape[1] != X[0][1].shape[1]:
        refuse("X", got="pairs that do not fit", needed="(A, B) of shapes (d1, q), (d2, q)", try_="one q for all")
    left = np.ascontiguousarray([a for a, _ in X], np.float64)
    right = np.ascontiguousarray([b for _, b in X], np.float64)
    return LowRankMeasurements(_finite(left), _finite(right))


def _finite(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if not np.isfinite(values).all():
        refuse("X", got="NaN or infinity", needed="finite numbers", try_="dropping such records")
    return values


def without_cells(check: Callable[[], Result]) -> Result:
    """Run a check or a conversion. What it says is passed on if it is known to quote nobody, else dropped."""
    try:
        return check()
    except (LowkeyError, MemoryError):
        raise
    except Exception as error:
        kind, said = type(error), str(error)
    first = said.partition("\n")[0]
    if kind in (ValueError, TypeError) and KNOWN.match(first):
        raise kind(f"{first} {RESHAPE}." if RESHAPE in said else first)  # outside the handler: nothing is attached
    raise InputError(what="X or y", got="entries that are not numbers", needed="numbers", try_="dropping such records")
