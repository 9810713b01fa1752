"""Gate room: noise and its price in one object.

A mechanism is fixed in the plan by its ``noise_multiplier`` = noise / sensitivity alone. When a sum is posted, its
sensitivity scales the noise; the price does not depend on the sum, so bounds may follow the billboard. Every price is
either ``mu`` (Gaussian differential privacy) or a pure ``epsilon``, with or without an ``own_delta``. None has a default:
a mechanism that does not state all three can't be made, and one that costs nothing can't be planned (price.py).

``noised`` is how the billboard has one applied: part by part, so that neither the noise nor the hash of what is posted
waits for the other. SHA-256 takes the bytes one after the other, and about as long as the noise does; so the caller's
thread hashes the parts that others have noised.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from lowkey.errors import refuse
from lowkey.privacy.gaussian import selection_delta
from lowkey.privacy.noise import MIN_SCALE, NoiseSource, onto
from lowkey.privacy.sums import Adjacency, Selection, Sensitivity, Statistic

Units, Noisy = NDArray[np.int64], NDArray[np.float64]
CHUNK = 1 << 16  # draws at a time: words and draws stay in the cache
PART = 1 << 20  # from the secret source, which makes a key each time: that takes as long as some thousand draws


@dataclass(frozen=True)
class Mechanism(ABC):
    """What all mechanisms share; ``mu``, ``epsilon`` and ``own_delta`` are the price of one post."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def mu(self) -> float: ...

    @property
    @abstractmethod
    def epsilon(self) -> float: ...

    @property
    @abstractmethod
    def own_delta(self) -> float: ...

    @abstractmethod
    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> float | None:
        """The noise's standard deviation on one coordinate (off the diagonal, if symmetric); None if it is not added."""

    @property
    @abstractmethod
    def width(self) -> str:
        """For tables: the noise in units of the sensitivity, or what there is in its place."""

    @property
    @abstractmethod
    def in_words(self) -> str: ...

    @abstractmethod
    def apply(self, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> Noisy:
        """Add the noise in place and return the noisy sum in real units, in the same memory."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class Additive(Mechanism):
    """Noise that is added, of a width in proportion to the sensitivity."""

    noise_multiplier: float
    norm: ClassVar[str] = "l2"  # in which the sensitivity must be

    def __post_init__(self) -> None:
        check_positive("noise_multiplier", self.noise_multiplier)

    def scale(self, statistic: Statistic, adjacency: Adjacency) -> float:
        if statistic.sensitivity.norm != self.norm:
            raise TypeError(f"{statistic.name}: {self.kind} noise needs a sensitivity in the {self.norm.upper()} norm")
        return self.noise_multiplier * statistic.sensitivity.under(adjacency)

    @property
    def own_delta(self) -> float:
        return 0.0

    @property
    def width(self) -> str:
        return f"{self.noise_multiplier:.4g}"

    @property
    def in_words(self) -> str:
        return f"{self.noise_multiplier:.6g} times what one unit can change"


@dataclass(frozen=True)
class Gaussian(Additive):
    """Independent Gaussian noise of standard deviation noise_multiplier * sensitivity: mu = 1 / noise_multiplier."""

    kind: ClassVar[str] = "gaussian"

    @property
    def mu(self) -> float:
        return 1.0 / self.noise_multiplier

    @property
    def epsilon(self) -> float:
        return 0.0

    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> float:
        return self.scale(statistic, adjacency)

    def apply(self, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> Noisy:
        return _add(units, statistic, self.noise_std(statistic, adjacency), noise.rounded_gaussian)


@dataclass(frozen=True)
class SymmetricGaussian(Gaussian):
    """(W + W^T)/2 for independent W of standard deviation s = noise_multiplier * sensitivity, on the upper triangle.

    Variance s^2/2 off the diagonal and s^2 on it. A symmetric change D costs the sum over i < j of 2 d_ij^2/s^2 plus
    the sum of d_ii^2/s^2 = |D|_F^2/s^2, so mu = 1 / noise_multiplier, with half the variance of plain Gaussian noise.
    """

    kind: ClassVar[str] = "symmetric-gaussian"

    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> float:
        return super().noise_std(statistic, adjacency) / math.sqrt(2.0)

    def apply(self, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> Noisy:
        if statistic.layout != "symmetric":
            raise TypeError(f"{statistic.name}: symmetric noise needs a symmetric statistic")
        std = self.noise_std(statistic, adjacency)
        n = statistic.order
        diagonal = np.array([i * n - i * (i - 1) // 2 for i in range(n)])
        # The diagonal is noised apart, at its own scale.
        diagonal_units = units[..., diagonal]
        noisy = _add(units, statistic, std, noise.rounded_gaussian)
        noisy[..., diagonal] = _add(diagonal_units, statistic, math.sqrt(2.0) * std, noise.rounded_gaussian)
        return noisy


@dataclass(frozen=True)
class Laplace(Additive):
    """Two-sided geometric noise on the grid, scale noise_multiplier * L1 sensitivity: pure epsilon = 1 / multiplier."""

    kind: ClassVar[str] = "laplace"
    norm: ClassVar[str] = "l1"

    @property
    def mu(self) -> float:
        return 0.0

    @property
    def epsilon(self) -> float:
        return 1.0 / self.noise_multiplier

    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> float:
        return math.sqrt(2.0) * self.scale(statistic, adjacency)

    def apply(self, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> Noisy:
        return _add(units, statistic, self.scale(statistic, adjacency), noise.discrete_laplace)


@dataclass(frozen=True)
class ThresholdedGaussian(Gaussian):
    """Noisy counts of keys that are themselves private: only those above ``threshold`` appear, the others are NaN.

    A key that one person alone holds is betrayed if its noisy count passes; ``own_delta`` bounds the chance of that for
    a person with at most ``max_keys`` keys, on top of the price of the noisy counts. ``threshold`` is in units of the
    add/remove sensitivity. Counts are non-negative, so that replace-one has sqrt(2) times the noise.
    """

    threshold: float
    max_keys: int
    adjacency: Adjacency = "add-remove"
    kind: ClassVar[str] = "thresholded-gaussian"

    @property
    def own_delta(self) -> float:
        std = self.noise_multiplier * Sensitivity.of_acute_vectors(1.0).under(self.adjacency)
        return selection_delta(std, self.threshold, self.max_keys, adjacency=self.adjacency)

    def apply(self, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> Noisy:
        priced = Sensitivity.of_acute_vectors(statistic.sensitivity.add_remove), self.adjacency
        if (statistic.sensitivity, adjacency) != priced or statistic.max_keys != self.max_keys:
            needed = "non-negative counts, and the adjacency and the cap on a person's keys that it was priced for"
            raise TypeError(f"{statistic.name}: a selection needs {needed}")
        noisy = super().apply(units, statistic, adjacency, noise)
        # Rounding to the grid can lift a sum by half a step.
        noisy[noisy < self.threshold * statistic.sensitivity.add_remove + statistic.grid.step / 2.0] = np.nan
        return noisy


@dataclass(frozen=True)
class NoNoise(Mechanism):
    """The exact sum: what the non-private baselines post. Its price is infinite, and a release refuses it."""

    kind: ClassVar[str] = "none"

    @property
    def mu(self) -> float:
        return math.inf

    @property
    def epsilon(self) -> float:
        return math.inf

    @property
    def own_delta(self) -> float:
        return 0.0

    def noise_std(self, statistic: Statistic, adjacency: Adjacency) -> float:
        return 0.0

    @property
    def width(self) -> str:
        return "0"

    @property
    def in_words(self) -> str:
        return "none"

    def apply(self, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource) -> Noisy:
        flat, step = np.ascontiguousarray(units).reshape(-1), statistic.grid.step
        real = flat.view(np.float64)
        for low in range(0, flat.size, CHUNK):  # in the memory of ``units``: they may be gigabytes
            real[low : low + CHUNK] = flat[low : low + CHUNK] * step
        return real.reshape(units.shape)


def check_positive(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        refuse(name, got=repr(value), needed="a finite number above 0: it is the price", try_=f"{name}=1")


def _add(units: Units, statistic: Statistic, scale: float, draw: Callable[[float, int], Units]) -> Noisy:
    """Integer noise of the given real scale onto integer units, chunk by chunk, in the memory of ``units``.

    Where the grid is coarser than the sampler wants, it is refined by a power of two: public, and exact.
    """
    step = statistic.grid.step
    refine = max(0, math.ceil(math.log2(MIN_SCALE * step / scale)))
    step = math.ldexp(step, -refine)
    flat = np.ascontiguousarray(units).reshape(-1)
    size = PART if type(getattr(draw, "__self__", None)) is NoiseSource else CHUNK
    for low in range(0, flat.size, size):
        part = flat[low : low + size]
        onto(part, refine, draw(scale / step, part.size), step)
    return flat.view(np.float64).reshape(units.shape)


# What these add to one row of a sum knows nothing of the other rows.
ROW_BY_ROW = (Gaussian, SymmetricGaussian, Laplace, NoNoise)


def noised(
    mechanism: Mechanism, units: Units, statistic: Statistic, adjacency: Adjacency, noise: NoiseSource
) -> tuple[Noisy, str]:
    """What ``mechanism`` makes of the sum, in its memory where there is noise to add; and the SHA-256 of that.

    Parts are rows along the first axis. Only the secret source keeps nothing between draws: any other is asked in order,
    and so is whatever mechanism we do not know.
    """
    known = type(mechanism) in ROW_BY_ROW and type(noise) is NoiseSource
    has_rows = statistic.layout != "symmetric" or units.ndim > 1
    if not (known and has_rows and units.size > PART and units.flags.c_contiguous):
        noisy = mechanism.apply(units, statistic, adjacency, noise)
        return noisy, sha256_of(noisy)
    rows, hashed = max(1, PART // max(1, math.prod(statistic.shape[1:]))), hashlib.sha256()

    def of_part(low: int) -> Noisy:
        part = units[low : low + rows]
        return mechanism.apply(part, replace(statistic, shape=part.shape), adjacency, noise)

    others = get_num_threads() - 1
    with ThreadPoolExecutor(others) if others else nullcontext() as pool:
        for part in (pool.map if pool else map)(of_part, range(0, len(units), rows)):
            hashed.update(part.data)
    return units.view(np.float64), hashed.hexdigest()


def sha256_of(posted: Noisy | Selection) -> str:
    if isinstance(posted, Selection):
        text = "\n".join(f"{key} {total!r}" for key, total in zip(posted.keys, posted.sums.tolist(), strict=True))
        return hashlib.sha256(text.encode()).hexdigest()
    return hashlib.sha256(np.ascontiguousarray(posted).data).hexdigest()
