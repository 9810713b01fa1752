"""Two-point attacks on one-bit completion: what a distinguisher measures of it, and of what the paper claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import beta

from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.engines.local import LocalEngine
from lowkey.methods.one_bit.method import DPOneBit
from lowkey.methods.one_bit.perturbations import OutputPerturbation
from lowkey.privacy.noise import SeededNoise

SIDE, DRAWS = 40, 4000
FALSE_ALARM = 1e-6  # each confidence limit fails with at most this chance; two are used per measured epsilon


def pivot(last: float) -> Ratings:
    """Everybody likes everything; the last user rated one item, and that one sign decides their whole row."""
    stars = np.ones((SIDE, SIDE))
    seen = np.ones((SIDE, SIDE), bool)
    seen[-1, 1:], stars[-1, 0] = False, last
    row, col = np.nonzero(seen)
    rows = scipy.sparse.csr_array((stars[seen], (row, col)), shape=(SIDE, SIDE))
    return Ratings.from_csr(rows, Domain(items=SIDE, rating_range=(-1.0, 1.0)))


def chance_that_the_row_is_liked(estimator: DPOneBit, last: float, seed: int) -> int:
    """How often, in DRAWS releases, the last user's row (without the rated item) sums to more than zero.

    The private half is solved once; every draw goes through the mechanism of the estimator's own plan.
    """
    ratings = pivot(last)
    positions = Positions.of(ratings)
    settings = estimator.resolve(ratings.domain, positions)
    where = estimator._where(settings)
    assert isinstance(where, OutputPerturbation)
    sweep = where.sweep(settings)
    (statistic,) = sweep.statistics
    sums, _ = LocalEngine(1).sweep(sweep, ratings)
    units = sums["minimiser"]._open()
    (line,) = estimator.plan(ratings.domain, positions).lines
    noise, liked = SeededNoise(seed), 0
    for _ in range(DRAWS):
        noisy = line.mechanism.apply(units.copy(), statistic, "replace-one", noise)
        liked += int(noisy[-1, 1:].sum() > 0.0)
    return liked


def measured_epsilon(estimator: DPOneBit) -> float:
    """ln(p/q) for that event under the two neighbours, p from below and q from above (Clopper-Pearson)."""
    hits, misses = (chance_that_the_row_is_liked(estimator, last, seed) for last, seed in ((1.0, 1), (-1.0, 2)))
    p = float(beta.ppf(FALSE_ALARM, hits, DRAWS - hits + 1))
    q = float(beta.ppf(1.0 - FALSE_ALARM, misses + 1, DRAWS - misses))
    return math.log(p / q)


def test_sound_output_perturbation_resists_the_same_attack() -> None:
    for delta in (None, 1e-5):
        sound = DPOneBit(1.0, delta, perturbation="output")
        assert measured_epsilon(sound) <= 1.0


def test_theorem_1_is_not_sufficient() -> None:
    """p1 = 0.01, p2 = 0.5 meets its condition at epsilon = ln 2; the chances of a -1 differ by a factor of 50."""
    p1, p2, epsilon = 0.01, 0.5, math.log(2.0)
    assert 1.0 - p2 * math.exp(epsilon) <= p1 <= (1.0 - p2) * math.exp(epsilon)
    assert (1.0 - p2) / p1 == pytest.approx(50.0)  # P(-1 | Y = -1)/P(-1 | Y = +1), against e^epsilon = 2
    # The mechanism used here has one probability for both, and exactly e^epsilon between them.
    (line,) = DPOneBit(epsilon).plan(pivot(1.0).domain, Positions.of(pivot(1.0))).lines
    p = line.mechanism.flip_probability
    assert (1.0 - p) / p == pytest.approx(2.0, rel=1e-9)
    assert (1.0 - p) / p <= 2.0
