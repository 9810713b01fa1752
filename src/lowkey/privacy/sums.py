"""Gate room: a private sum, closed, the public grid it lives on, and how far one person can move it.

A contribution vector is clipped a hair inside its bound and truncated towards zero to multiples of the grid's ``step``;
its norm can only fall. Sums of such vectors, and of products x x^T formed from them, are whole numbers of grid units, so
they are exact: the same bits in any order, for any number of threads or partitions. Totals are int64 and wrap silently,
which is still S + Z seen modulo 2^64: a total too large for the grid costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import ClosedError
from lowkey.privacy.closed import Closed

if TYPE_CHECKING:
    from lowkey.privacy.stream import Schedule

# Relative slack between a clip and the bound it serves: rounding in a norm of up to 2^20 terms stays below it.
HAIR = 2.0**-30
WEIGHT_BITS = 24  # the weights of a stream's cohorts are whole numbers of 2^-24
LOW_BITS = (1 << WEIGHT_BITS) - 1

Adjacency = Literal["add-remove", "replace-one"]
Layout = Literal["dense", "symmetric"]


@dataclass(frozen=True)
class Grid:
    """Multiples of 2^exponent."""

    exponent: int
    step: float = field(init=False, compare=False, repr=False)  # the multiple

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", math.ldexp(1.0, self.exponent))

    @classmethod
    def for_bound(cls, bound: float, bits: int) -> Grid:
        """The grid on which a number of size ``bound`` takes at most 2^bits units."""
        return cls(math.ceil(math.log2(bound)) - bits)

    @property
    def squared(self) -> Grid:
        """The grid of products of two numbers on this grid."""
        return Grid(2 * self.exponent)

    def units(self, bound: float) -> int:
        """The largest number of units that a value of at most ``bound`` can take."""
        return math.floor(math.ldexp(bound, -self.exponent))


@dataclass(frozen=True)
class Sensitivity:
    """How far one person can move a sum, under either adjacency.

    Let a and b be what two people may contribute, each of norm at most ``bound``. Add/remove moves the sum by |a|.
    Replace-one moves it by |a - b|: at most 2 bound for arbitrary vectors. Where every two contributions have a
    non-negative inner product, as positive semidefinite matrices (also stacked) and non-negative vectors do,
    |a - b|^2 = |a|^2 + |b|^2 - 2 <a, b> <= 2 bound^2. (For the L1 norm there is no such gain.)
    """

    add_remove: float
    replace_one: float
    norm: Literal["l1", "l2"] = "l2"

    @classmethod
    def of_vectors(cls, bound: float) -> Sensitivity:
        return cls(bound, 2.0 * bound)

    @classmethod
    def of_acute_vectors(cls, bound: float) -> Sensitivity:
        """Positive semidefinite matrices in Frobenius norm, or non-negative vectors."""
        return cls(bound, math.sqrt(2.0) * bound)

    @classmethod
    def of_l1_vectors(cls, bound: float) -> Sensitivity:
        return cls(bound, 2.0 * bound, "l1")

    def under(self, adjacency: Adjacency) -> float:
        return self.add_remove if adjacency == "add-remove" else self.replace_one


@dataclass(frozen=True)
class Statistic:
    """The public description of a private sum: everything about it except its value.

    ``layout="symmetric"`` means that the last axis is the upper triangle, row by row, of a symmetric matrix of order
    ``order``; its sensitivity is in the Frobenius norm of the full matrix. ``peak_units`` bounds what one person can
    add to any one coordinate, in grid units: it decides how many people a float64 partial sum can hold exactly.
    ``max_keys`` is for histograms: how many keys one person can add to. The kernel that counts takes its cap from here,
    and the mechanism that pays for the keys refuses any other.
    """

    name: str
    shape: tuple[int, ...]
    grid: Grid
    sensitivity: Sensitivity
    peak_units: int
    layout: Layout = "dense"
    max_keys: int | None = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def order(self) -> int:
        """The order n of a packed symmetric matrix with n (n + 1)/2 entries."""
        return (math.isqrt(8 * self.shape[-1] + 1) - 1) // 2


def symmetric_shape(order: int, *stack: int) -> tuple[int, ...]:
    """The shape of a stack of packed symmetric matrices."""
    return (*stack, order * (order + 1) // 2)


class Unreleased(Closed):
    """A private sum in grid units. Only ``Billboard.post`` opens it, once."""

    __slots__ = ("_units", "statistic")

    def __init__(self, statistic: Statistic, units: NDArray[np.int64]) -> None:
        if units.shape != statistic.shape or units.dtype != np.int64:
            raise TypeError(f"{statistic.name}: a sum of shape {statistic.shape} in int64 grid units is needed")
        self.statistic = statistic
        self._units: NDArray[np.int64] | None = units

    def _open(self) -> NDArray[np.int64]:
        if self._units is None:
            raise ClosedError(
                what=f"the private sum {self.statistic.name!r} was to be opened",
                got="a second post",
                needed="one post of each sum: two would have to be paid for",
                try_="using what the first post returned",
            )
        units, self._units = self._units, None
        return units

    def _public_facts(self) -> str:
        return f"{self.statistic.name!r}, shape={self.statistic.shape}"


class UnreleasedPart(Unreleased):
    """What one post of a stream holds: the sums of all cohorts so far, each with its weight. See stream.py."""

    __slots__ = ("_taken", "release", "schedule")

    def __init__(self, schedule: Schedule, release: int, statistic: Statistic) -> None:
        schedule.check_release(release)
        super().__init__(schedule.statistic_of(statistic), np.zeros(statistic.shape, np.int64))
        self.schedule, self.release, self._taken = schedule, release, 0

    @property
    def stream(self) -> str:
        return self.schedule.name

    def take(self, cohort: Unreleased) -> None:
        """The next cohort's sum: 1, 2, ... up to that of this release, each of them once."""
        units, cohort._units = cohort._units, None
        same = self.schedule.statistic_of(cohort.statistic) == self.statistic
        if not same or units is None or self._units is None or self._taken >= self.release:
            raise TypeError(f"{self.statistic.name}: a fresh sum of one kind for each of {self.release} cohorts is needed")
        weight = self.schedule.weights(self.release)[self._taken]
        # floor(weight * units / 2^24) without leaving int64: the high and the low bits apart. Most units may well be 0.
        at = np.flatnonzero(units)
        held = units.ravel()[at]
        self._units.reshape(-1)[at] += weight * (held >> WEIGHT_BITS) + (weight * (held & LOW_BITS) >> WEIGHT_BITS)
        self._taken += 1

    def check_whole(self) -> None:
        """For the billboard, before it reserves anything."""
        if self._taken != self.release:
            raise TypeError(f"{self.statistic.name}: one sum for each of {self.release} cohorts is needed")


class UnreleasedHistogram(Unreleased):
    """A private sum whose very keys are private: what comes out are the keys that pass a noisy threshold.

    Its statistic states a public cap on the number of keys in place of the true number. A key to which nobody adds does
    not exist: its noise alone could lift it over the threshold, and so name a key beyond somebody's ``max_keys``.
    """

    __slots__ = ("_keys",)

    def __init__(self, statistic: Statistic, units: NDArray[np.int64], keys: NDArray[Any]) -> None:
        held = units > 0
        units, keys = units[held], keys[held]
        super().__init__(replace(statistic, shape=units.shape), units)
        self.statistic = statistic
        self._keys = keys

    def _select(self, noisy: NDArray[np.float64]) -> Selection:
        passed = np.flatnonzero(~np.isnan(noisy))
        # Sorted by key: the order in which keys came up in the data is private.
        order = passed[np.argsort(self._keys[passed], kind="stable")]
        return Selection(self._keys[order], noisy[order])


@dataclass(frozen=True)
class Selection:
    """Public: the keys that passed, in sorted order, and their noisy sums."""

    keys: NDArray[Any]
    sums: NDArray[np.float64]

    def __post_init__(self) -> None:
        self.keys.flags.writeable = self.sums.flags.writeable = False
