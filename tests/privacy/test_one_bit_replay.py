"""Replay, rating by rating: flipping one sign (or one user's signs) moves each noised quantity by no more than declared.

The neighbour has the same positions. Attacks choose signs, positions and the public scores; the harness is itself put
to the test by quantities whose clip was deleted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from estimators import base_keys

from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.engines.local import LocalEngine, no_sums
from lowkey.kernels.one_bit import ClampedGradient, Minimiser, Responses, Signs, SignSweep
from lowkey.linalg.links import FlippedSignLoss, link_of
from lowkey.linalg.spectral_gradient import Problem, minimise
from lowkey.privacy.sums import Grid

THRESHOLD = 3.5
Csr = scipy.sparse.csr_array


def as_ratings(rows: Csr) -> Ratings:
    ids = base_keys(rows.shape[0])  # so that users with the same items may be in different blocks
    return Ratings.from_csr(rows, Domain(items=rows.shape[1], rating_range=(1.0, 5.0)), ids)


NOWHERE = Positions.of(as_ratings(Csr((1, 1))))  # until the data of a test are known


def units(sweep: SignSweep, rows: Csr, block_size: int) -> np.ndarray:
    sums, _ = LocalEngine(1, block_size).sweep(sweep, as_ratings(rows))
    (closed,) = sums.values()
    return closed._open()


def moved(sweep: SignSweep, rows: Csr, other: Csr, most: int | None = None, **public: Any) -> tuple[float, float]:
    """How far the quantity moved, in its declared norm, and the declared bound."""
    positions = Positions.of(as_ratings(rows))
    positions = positions if most is None else positions.capped(most)
    sweep = replace(sweep, positions=positions, **public)
    (statistic,) = sweep.statistics
    gap = (units(sweep, rows, 3) - units(sweep, other, 3)).ravel()
    real = gap.astype(np.float64) * statistic.grid.step
    norm = np.abs(real).sum() if statistic.sensitivity.norm == "l1" else math.sqrt(float(real @ real))
    return norm, statistic.sensitivity.replace_one


def stars(rng: np.random.Generator, shape: tuple[int, int], density: float) -> Csr:
    """Random positions, plus a user with everything, a user with one rating and a user with none."""
    seen = rng.random(shape) < density
    seen[0], seen[1], seen[2] = True, False, False
    seen[1, 3] = True
    row, col = np.nonzero(seen)
    return Csr((rng.integers(1, 6, len(row)).astype(float), (row, col)), shape=shape)


def flipped(rows: Csr, entries: Any) -> Csr:
    other = rows.copy()
    other.data[entries] = np.where(rows.data[entries] > THRESHOLD, 1.0, 5.0)
    return other


SHARED: dict[str, Any] = {"positions": NOWHERE, "threshold": THRESHOLD}
GRADIENTS = [
    ClampedGradient(**SHARED, link=link_of(link), gradient_bound=bound, entry_bound=1.0, norm=norm, scores=np.zeros(0))
    for link in ("logistic", "probit")
    for bound in (0.3, 5.0)
    for norm in ("l1", "l2")
]
PER_SLOT: list[SignSweep] = [
    Signs(**SHARED),
    Responses(**SHARED, norm="l1"),
    Responses(**SHARED, norm="l2"),
    *GRADIENTS,
]


def named(sweep: SignSweep) -> str:
    clamp = f"-{sweep.link}-{sweep.gradient_bound}" if isinstance(sweep, ClampedGradient) else ""
    return f"{type(sweep).__name__}{clamp}-{sweep.norm}"


def at(scores: np.ndarray, sweep: SignSweep) -> dict[str, Any]:
    """Only gradients are taken somewhere."""
    return {"scores": scores} if isinstance(sweep, ClampedGradient) else {}


def attack_per_slot(sweep: SignSweep) -> float:
    """The largest share of its bound that a single flip reaches, over positions, signs and hostile scores."""
    rng = np.random.default_rng(11)
    worst = 0.0
    for _ in range(2):
        rows = stars(rng, (9, 7), 0.4)
        n = rows.nnz
        for scores in (np.zeros(n), rng.normal(size=n), rng.choice([-1.0, 1.0], n), rng.choice([-40.0, 40.0], n)):
            for entry in rng.permutation(n)[:5]:
                distance, bound = moved(sweep, rows, flipped(rows, entry), **at(scores, sweep))
                worst = max(worst, distance / bound)
    return worst


@pytest.mark.parametrize("sweep", PER_SLOT, ids=named)
def test_one_flip_moves_a_vector_within_its_bound(sweep: SignSweep) -> None:
    worst = attack_per_slot(sweep)
    assert worst <= 1.0
    assert worst >= 0.99  # and the bound is not wasteful: some flip reaches it


@pytest.mark.parametrize("sweep", PER_SLOT, ids=named)
def test_one_users_signs_move_a_vector_within_its_bound(sweep: SignSweep) -> None:
    rng, most = np.random.default_rng(12), 3
    whole = replace(sweep, unit="user", signs=most)
    worst = 0.0
    for _ in range(3):
        rows = stars(rng, (9, 7), 0.5)
        scores = rng.choice([-40.0, 0.0, 1.0], len(Positions.of(as_ratings(rows)).capped(most).cells))
        for user in range(9):
            entries = np.arange(rows.indptr[user], rows.indptr[user + 1])
            distance, bound = moved(whole, rows, flipped(rows, entries), most, **at(scores, whole))
            worst = max(worst, distance / bound)
    assert worst <= 1.0
    # Three coordinates moved together: by more than one flip is allowed to.
    assert worst * most > 1.0


def test_a_user_with_more_slots_than_declared_is_refused() -> None:
    rows = stars(np.random.default_rng(0), (9, 7), 0.5)
    with pytest.raises(TypeError, match="capped"):
        moved(Signs(**SHARED, unit="user", signs=3), rows, rows)


def test_blocks_and_order_of_users_do_not_matter() -> None:
    rng = np.random.default_rng(13)
    rows = stars(rng, (9, 7), 0.4)
    sweep = Signs(positions=Positions.of(as_ratings(rows)), threshold=THRESHOLD)
    assert not sweep.needs_everyone
    whole = units(sweep, rows, 9)
    np.testing.assert_array_equal(whole, units(sweep, rows, 2))
    assert set(np.unique(whole)) == {-1, 1}


def test_other_positions_are_refused() -> None:
    rng = np.random.default_rng(14)
    rows, other = stars(rng, (9, 7), 0.4), stars(rng, (9, 7), 0.4)
    with pytest.raises(TypeError, match="positions"):
        units(Signs(positions=Positions.of(as_ratings(other)), threshold=THRESHOLD), rows, 9)


# The minimiser -------------------------------------------------------------------------------------------------------
def pivot(users: int, items: int) -> Csr:
    """Everybody likes everything, but for one user with a single rating, on whose sign that user's whole row hangs."""
    seen = np.ones((users, items), bool)
    seen[-1, 1:] = False
    row, col = np.nonzero(seen)
    return Csr((np.full(len(row), 5.0), (row, col)), shape=(users, items))


def minimiser(link: str, ridge: float, norm: Any, shape: tuple[int, int], **more: Any) -> Minimiser:
    radius = 1.0 * math.sqrt(shape[0] * shape[1])
    return Minimiser(**SHARED, link=link_of(link), entry_bound=1.0, radius=radius, ridge=ridge, norm=norm, **more)


@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("ridge", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_one_flip_moves_the_minimiser_within_its_bound(link: str, ridge: float, norm: Any) -> None:
    rng = np.random.default_rng(15)
    attacks = [(pivot(5, 8), 4 * 8), (pivot(5, 8), 3)]
    scattered = stars(rng, (6, 8), 0.4)
    attacks += [(scattered, int(entry)) for entry in rng.permutation(scattered.nnz)[:2]]
    for rows, entry in attacks:
        distance, bound = moved(minimiser(link, ridge, norm, rows.shape), rows, flipped(rows, entry))
        assert 0.0 < distance <= bound


def test_the_bound_on_the_minimiser_is_nearly_reached() -> None:
    """A strong ridge and a single cell: x = 1/2 -> -1/2 over the ridge; the bound may not be much larger than that."""
    rows = Csr(np.array([[5.0]]))
    sweep = minimiser("logistic", 30.0, "l2", (1, 1))
    distance, bound = moved(sweep, rows, flipped(rows, 0))
    assert bound * 0.85 <= distance <= bound


def test_one_users_signs_move_the_minimiser_within_its_bound() -> None:
    rows = stars(np.random.default_rng(16), (6, 8), 0.6)
    for user in range(6):
        entries = np.arange(rows.indptr[user], rows.indptr[user + 1])
        sweep = minimiser("logistic", 0.2, "l2", rows.shape, unit="user", signs=3)
        distance, bound = moved(sweep, rows, flipped(rows, entries), 3)
        assert distance <= bound


def test_a_part_of_the_users_has_no_minimiser() -> None:
    """Sums of the minimisers of blocks would be no minimiser, and no bound would be about them."""
    rows = stars(np.random.default_rng(16), (6, 8), 0.6)
    sweep = replace(minimiser("logistic", 0.2, "l2", rows.shape), positions=Positions.of(as_ratings(rows)))
    assert sweep.needs_everyone
    with pytest.raises(TypeError, match="all users in one block"):
        sweep.run(next(as_ratings(rows)._open_blocks(3)), None, no_sums(sweep.statistics))


# The harness itself --------------------------------------------------------------------------------------------------
class Unclamped(ClampedGradient):
    """The clamp on the gradient is gone."""

    def contributions(self, signs: np.ndarray, scores: np.ndarray) -> np.ndarray:
        scores = np.clip(scores, -self.entry_bound, self.entry_bound)
        gradient = -signs * self.link.slope(signs * scores)
        return np.trunc(gradient / Grid.for_bound(self.gradient_bound, 30).step).astype(np.int64)


class UnclippedScores(ClampedGradient):
    """The clip on the scores is gone."""

    def contributions(self, signs: np.ndarray, scores: np.ndarray) -> np.ndarray:
        inside = self.gradient_bound
        gradient = np.clip(-signs * self.link.slope(signs * scores), -inside, inside)
        return np.trunc(gradient / Grid.for_bound(self.gradient_bound, 30).step).astype(np.int64)


class WithoutRidge(Minimiser):
    """The noise is that of a ridge which the solver forgot."""

    def solution(self, shape: Any, cells: Any, signs: Any) -> Any:
        problem = Problem(shape, cells, FlippedSignLoss(self.link, signs), self.radius, self.entry_bound)
        return self.to_units(minimise(problem, tol=1e-3, max_iter=self.max_iter, svd_tol=1e-3).matrix)


def test_the_harness_sees_a_missing_clamp() -> None:
    shared: dict[str, Any] = {**SHARED, "link": link_of("probit"), "entry_bound": 1.0, "scores": np.zeros(0)}
    assert attack_per_slot(Unclamped(**shared, gradient_bound=0.5)) > 1.0
    assert attack_per_slot(UnclippedScores(**shared, gradient_bound=5.0)) > 1.0


def test_the_harness_sees_a_missing_cap() -> None:
    rows = stars(np.random.default_rng(17), (9, 7), 0.5)
    sweep = Responses(**SHARED, signs=3)  # the price of three, all of the first user's seven used
    distance, bound = moved(sweep, rows, flipped(rows, np.arange(7)))
    assert distance > bound


def test_the_harness_sees_a_missing_ridge() -> None:
    rows = pivot(5, 8)
    lost = WithoutRidge(**SHARED, link=link_of("logistic"), entry_bound=1.0, radius=math.sqrt(40), ridge=3.0, norm="l2")
    distance, bound = moved(lost, rows, flipped(rows, 4 * 8))
    assert distance > bound
