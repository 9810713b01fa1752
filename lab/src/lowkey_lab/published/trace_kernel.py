"""Lab room: trace regression as published: sums without clipping, with the sensitivities that the paper states.

These hold with high probability if the data follow the Gaussian model, and not for every data set: whatever posts them
has ``sound=False`` in its plan and reports epsilon = infinity.

Paper: Zha 2024, Algorithm 1 and 2, Theorems 1, 3, 6 and 7. Deviates: the core's noise is r x r independent (as printed,
symmetric, it leaves the antisymmetric part of the core without any noise); unknown constants are 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.trace import RecordBlock
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.kernels.trace_regression import DENSE_NUMBERS, TangentGradient
from lowkey.linalg.packed import packed_length
from lowkey.privacy.grid import Grid
from lowkey.privacy.sums import Sensitivity, Statistic

BITS = 36


def _claimed(name: str, shape: tuple[int, ...], sensitivity: float) -> Statistic:
    """The paper's sensitivities are for neighbours that differ in one record's values: replace-one, as they stand."""
    claim = Sensitivity(sensitivity, sensitivity)
    return Statistic(name, shape, Grid.for_bound(sensitivity, BITS), claim, 1 << BITS)


def _units(values: NDArray[np.float64], statistic: Statistic) -> NDArray[np.int64]:
    return np.trunc(values / statistic.grid.step).astype(np.int64)


def _whitened_sum(block: RecordBlock, shape: tuple[int, int], whitener: Any) -> NDArray[np.float64]:
    """Sum over the block of y times the whitened measurement."""
    x, size = block.measurements, math.prod(shape)
    total: NDArray[np.float64] = np.zeros(size)
    records = max(1, DENSE_NUMBERS // size)
    for low in range(0, len(x), records):
        part = slice(low, low + records)
        whitened = whitener.whiten(x[part].dense().reshape(-1, size), block.first + low)
        total += block.responses[part] @ whitened
    total *= whitener.scalar or 1.0
    return total.reshape(shape)


@dataclass(frozen=True, eq=False)
class PublishedProjectors(Sweep):
    """The projectors on the leading singular vectors of L, as packed triangles. L itself is never posted."""

    shape: tuple[int, int]
    whitener: Any
    rank: int
    sensitivity: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        d1, d2 = self.shape
        return (
            _claimed("left_projector", (packed_length(d1),), self.sensitivity),
            _claimed("right_projector", (packed_length(d2),), self.sensitivity),
        )

    @property
    def needs_everyone(self) -> bool:
        return True  # projectors are no sums over records

    def run(self, block: RecordBlock, local: Local, sums: Sums) -> Local:  # pyright: ignore[reportIncompatibleMethodOverride]
        whole = _whitened_sum(block, self.shape, self.whitener)
        left, _, right = np.linalg.svd(whole, full_matrices=False)
        for statistic, basis in zip(self.statistics, (left[:, : self.rank], right[: self.rank].T), strict=True):
            projector = basis @ basis.T
            sums[statistic.name] += _units(projector[np.triu_indices(len(projector))], statistic)
        return None


@dataclass(frozen=True, eq=False)
class PublishedCore(Sweep):
    """Sum over records of y U^T W V, at the posted singular vectors."""

    shape: tuple[int, int]
    whitener: Any
    left: NDArray[np.float64]
    right: NDArray[np.float64]
    sensitivity: float

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        rank = self.left.shape[1]
        return (_claimed("core", (rank, rank), self.sensitivity),)

    def run(self, block: RecordBlock, local: Local, sums: Sums) -> Local:  # pyright: ignore[reportIncompatibleMethodOverride]
        core = self.left.T @ _whitened_sum(block, self.shape, self.whitener) @ self.right
        sums["core"] += _units(core, self.statistics[0])
        return None


@dataclass(frozen=True, eq=False)
class PublishedGradient(TangentGradient):
    """The tangent gradient with infinite bounds and a claimed sensitivity."""

    sensitivity: float = math.nan

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return (_claimed(self.name, (self.point.tangent_size,), self.sensitivity),)
