"""Lab room: attacks on the low-order bits of noisy sums, at our posts and at a naive build that they must break.

Noise that is computed in floating point and then added leaves traces: Mironov 2012 (some results are possible from one sum
and from no other), Haney et al. 2022 (near zero the result is finer than it can be after a rounding at the other sum).
Each attack is told whether the sum is 0 or 1 in half of the cases, learns what it needs, and guesses in the others, where
it may also pass. With noise so wide, differential privacy lets it be right in hardly more than half of its guesses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lowkey.privacy.mechanisms import Gaussian, Laplace
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

WIDTH = 10.0  # of the noise; one person adds 1
DRAWS = 40_000
FALSE_ALARM = 1e-6
BITS = 26
Array = NDArray[np.float64]
Build = Callable[[float, int], Array]  # noisy copies of a sum


@dataclass(frozen=True)
class Attacked:
    attack: str
    build: str
    guesses: int
    right: float
    allowed: float  # by differential privacy, and chance at FALSE_ALARM

    @property
    def broken(self) -> bool:
        return self.right > self.allowed


def ours(kind: str, noise: NoiseSource) -> Build:
    """A post of the package: whole grid units, and noise in whole grid units."""
    norm = "l2" if kind == "gaussian" else "l1"
    statistic = lambda size: Statistic("number", (size,), Grid(-BITS), Sensitivity(1.0, 2.0, norm), 1 << BITS)
    mechanism: Any = Gaussian(WIDTH) if kind == "gaussian" else Laplace(WIDTH)
    return lambda total, size: mechanism.apply(
        np.full(size, int(total * 2**BITS), np.int64), statistic(size), "add-remove", noise
    )


def naive(kind: str, rng: np.random.Generator) -> Build:
    """The textbook: a float is drawn, scaled, and added."""
    if kind == "gaussian":
        return lambda total, size: total + WIDTH * rng.standard_normal(size)

    def laplace(total: float, size: int) -> Array:
        uniform = rng.integers(1, 2**53, size) * 2.0**-53
        return total + np.where(rng.random(size) < 0.5, -1.0, 1.0) * (-WIDTH * np.log(uniform))

    return laplace


def mironov(build: Build, draws: int = DRAWS) -> tuple[int, float]:
    """Which results can come from which sum? Guess where only one of the two can be; how many guesses, how many right."""
    right = answered = 0
    for total in (0.0, 1.0):
        seen = build(total, draws)
        from_zero, from_one = _reachable(seen, 0.0), _reachable(seen, 1.0)
        sure = from_zero != from_one
        answered += int(sure.sum())
        right += int((from_one == bool(total))[sure].sum())
    return answered, right / max(answered, 1)


def haney(build: Build, draws: int = DRAWS) -> tuple[int, float]:
    """Near zero, how fine is the result? What is finer than everything that was seen from 1 came from 0."""
    near = lambda total: (seen := build(total, 4 * draws))[np.abs(seen) < 0.25]
    coarsest = min(map(_exponent, near(1.0).tolist()), default=0)
    right = answered = 0
    for total in (0.0, 1.0):
        finer = np.array([_exponent(value) < coarsest for value in near(total).tolist()], bool)
        answered += finer.size
        right += int((finer == (total == 0.0)).sum())
    return answered, right / max(answered, 1)


def attack_precision(noise: NoiseSource, seed: int = 0) -> list[Attacked]:
    """Both attacks on both builds. Near zero the odds of one sum over the other are within e^(1/WIDTH) of even."""
    rng, found = np.random.default_rng(seed), []
    for attack, kind in ((mironov, "laplace"), (haney, "gaussian")):
        for name, build in (("lowkey", ours(kind, noise)), ("naive", naive(kind, rng))):
            guesses, right = attack(build)
            fair = 1.0 / (1.0 + np.exp(-1.0 / WIDTH))
            allowed = float(stats.binom.isf(FALSE_ALARM, max(guesses, 1), fair)) / max(guesses, 1)
            found.append(Attacked(attack.__name__.capitalize(), name, guesses, right, allowed))
    return found


def _reachable(seen: Array, total: float) -> NDArray[np.bool_]:
    """Whether naive Laplace noise on ``total`` can give these very floats."""
    drawn = seen - total
    uniform = np.rint(np.exp(-np.abs(drawn) / WIDTH) * 2.0**53)
    found = np.zeros(seen.shape, bool)
    for step in range(-4, 5):
        with np.errstate(divide="ignore", invalid="ignore"):
            found |= total - np.sign(drawn) * WIDTH * np.log((uniform + step) * 2.0**-53) == seen
    return found


def _exponent(value: float) -> int:
    """The power of two of the last bit that is set."""
    top, bottom = value.as_integer_ratio()
    return (top & -top).bit_length() - bottom.bit_length() if top else 0
