"""Kernel room: the four private quantities of one-bit completion: signs, responses, clamped gradients, the minimiser.

The neighbour of a data set has the same positions and, at most, ``signs`` other values: one rating (signs = 1), or all
the ratings of one user, of which ``signs`` at most have a slot. A rating has a slot of its own, so a flip moves one
coordinate, of the first three.

Paper: Li et al. 2021, Algorithms 1 to 4. Deviates: what is noised (docs/one-bit.md, corrections a to e).

letter  meaning                            our word
Y       signs, +1 above the threshold      signs
alpha   bound on every score               entry_bound
C       clamp of a gradient's entry        gradient_bound
L_h, m  steepness, least curvature         Link.steepness, Link.least_curvature
lambda  strength of the quadratic penalty  ridge
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lowkey.data.positions import Positions
from lowkey.data.ratings import Block
from lowkey.errors import InputError
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.linalg.links import FlippedSignLoss, Link
from lowkey.linalg.spectral_gradient import Problem, minimise
from lowkey.privacy.sums import HAIR, Grid, Sensitivity, Statistic

BITS = 30
Norm = Literal["l1", "l2"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SignSweep(Sweep):
    """What the four share: stars become signs at a public threshold, and land in the slots of the user's cells."""

    positions: Positions  # who rated what: public here
    threshold: float
    signs: int = 1
    unit: Literal["rating", "user"] = "rating"
    norm: Norm = "l1"

    @property
    def needs_everyone(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Users who share a key are told apart by their order, which a block alone does not show."""
        return not self.positions.keys_differ

    def placed(self, block: Block) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The slots of a block's kept entries, and their signs."""
        if self.unit == "user" and self.positions.counts.max(initial=0) > self.signs:
            raise TypeError("a user has more slots than the sensitivity was written for: Positions.capped")
        slots = self.positions.slots(block)
        kept = slots >= 0
        return slots[kept], np.where(block.values[kept] > self.threshold, 1.0, -1.0)

    def per_slot(self, name: str, grid: Grid, shift: float, peak_units: int) -> tuple[Statistic, ...]:
        """A vector with one coordinate per slot, each of which moves by at most ``shift`` when its sign flips.

        At most ``signs`` coordinates move: by signs * shift in the L1 norm, by sqrt(signs) * shift in the L2 norm.
        (Add/remove does not exist here: the positions are public. It is stated as replace-one.)
        """
        moved = shift * (self.signs if self.norm == "l1" else math.sqrt(self.signs))
        bound = Sensitivity(moved, moved, self.norm)
        return (Statistic(name, (len(self.positions.cells),), grid, bound, peak_units),)


@dataclass(frozen=True, kw_only=True, eq=False)
class Signs(SignSweep):
    """The signs themselves, for randomized response. A flip moves a coordinate from -1 to 1, that is by 2."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return self.per_slot("signs", Grid(0), 2.0, 1)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        slots, signs = self.placed(block)
        sums["signs"][slots] += signs.astype(np.int64)
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Responses(SignSweep):
    """b = (1 + Y)/2, which is 0 or 1: a flip moves a coordinate by 1."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return self.per_slot("responses", Grid(0), 1.0, 1)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        slots, signs = self.placed(block)
        sums["responses"][slots] += (signs > 0.0).astype(np.int64)
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class ClampedGradient(SignSweep):
    """The derivative of every term at the public scores x, clamped to +-C: -s(x) for a like and s(-x) for a dislike.

    One is negative and the other positive, so clamping and truncating towards zero only bring them nearer: they differ
    by at most 2C, and by at most s(x) + s(-x) = h'/(h (1 - h)) <= L_h where |x| <= alpha, which is enforced here. At the
    C = 1/2 of a fit 2C = 1 <= L_h for both links, so the clamp alone holds the bound; a wider one leans on alpha too.
    """

    link: Link
    gradient_bound: float
    entry_bound: float
    scores: NDArray[np.float64]  # x, one per slot

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        shift = min(2.0 * self.gradient_bound, self.link.steepness(self.entry_bound) * (1.0 + HAIR))
        grid = Grid.for_bound(self.gradient_bound, BITS)
        return self.per_slot("gradient", grid, shift, 1 << BITS)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        slots, signs = self.placed(block)
        sums["gradient"][slots] += self.contributions(signs, self.scores[slots])
        return None

    def contributions(self, signs: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
        scores = np.clip(scores, -self.entry_bound, self.entry_bound)
        inside = self.gradient_bound * (1.0 - HAIR)
        gradient = np.clip(-signs * self.link.slope(signs * scores), -inside, inside)
        gradient[np.isnan(gradient)] = 0.0  # a score that is no number: as an integer it would be -2^63
        return np.trunc(gradient / Grid.for_bound(self.gradient_bound, BITS).step).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Minimiser(SignSweep):
    """The minimiser of the likelihood plus ridge/2 |X|^2, solved to a certified distance of the true one.

    Let X, X' be the minimisers for two neighbours, D = |X - X'|_F and t_p = |X_p - X'_p| at the flipped cells. Adding
    the two optimality conditions, lambda D^2 + m sum t_p^2 <= L_h sum t_p. So with s = ``signs``:
    D <= sqrt(s) L_h/(lambda + m) if lambda >= m, and sqrt(s) L_h/(2 sqrt(lambda m)) otherwise (docs/one-bit.md);
    with t_p <= 2 alpha also lambda D^2 <= s max over t of (L_h t - m t^2); and D is at most the set's diameter.
    Each run is within ``slack`` of its minimiser, and truncation adds up to one grid step to each entry, twice.
    """

    link: Link
    entry_bound: float
    radius: float
    ridge: float
    max_iter: int = 2000

    @property
    def needs_everyone(self) -> bool:
        return True  # a minimiser is no sum over users

    def shift(self, shape: tuple[int, int]) -> float:
        """How far ``signs`` flips can move the exact minimiser, in Frobenius norm."""
        steep, least = self.link.steepness(self.entry_bound), self.link.least_curvature(self.entry_bound)
        strong = self.ridge >= least
        free = steep / (self.ridge + least) if strong else steep / (2.0 * math.sqrt(self.ridge * least))
        t = min(2.0 * self.entry_bound, steep / (2.0 * least))
        boxed = math.sqrt((steep * t - least * t * t) / self.ridge)
        diameter = 2.0 * min(self.radius, self.entry_bound * math.sqrt(shape[0] * shape[1]))
        return min(math.sqrt(self.signs) * min(free, boxed), diameter) * (1.0 + HAIR)

    def slack(self, shape: tuple[int, int]) -> float:
        """The certified distance of a run to its minimiser: a twentieth of the shift."""
        return 0.05 * self.shift(shape)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        shape = self.positions.shape
        grid = Grid.for_bound(self.entry_bound, BITS)
        size = shape[0] * shape[1]
        moved = self.shift(shape) + 2.0 * self.slack(shape) + 2.0 * grid.step * math.sqrt(size)
        if self.norm == "l1":
            moved *= math.sqrt(size)  # Cauchy-Schwarz
        return (Statistic("minimiser", shape, grid, Sensitivity(moved, moved, self.norm), 1 << BITS),)

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        positions = self.positions
        if len(block.keys) != positions.n_users:
            raise TypeError("the minimiser needs all users in one block: needs_everyone says so")
        slots, signs = self.placed(block)
        ordered = np.empty(len(positions.cells))
        ordered[slots] = signs
        sums["minimiser"] += self.solution(positions.shape, positions.cells, ordered)
        return None

    def solution(self, shape: tuple[int, int], cells: NDArray[np.int64], signs: NDArray[np.float64]) -> NDArray[np.int64]:
        loss = FlippedSignLoss(self.link, signs)
        problem = Problem(shape, cells, loss, self.radius, self.entry_bound, self.ridge)
        enough = self.ridge * self.slack(shape) ** 2  # |X - X*| <= sqrt(gap/ridge): linalg/spectral_gradient.py
        solved = minimise(problem, tol=enough, max_iter=self.max_iter, certified=True)
        if not solved.gap <= enough:
            # Nothing is posted. That it failed is seen by the curator alone, like any error.
            raise InputError(
                what="the minimiser for output perturbation",
                got="a solution whose certificate is not good enough for its noise",
                needed="one within the certified distance",
                try_="a larger ridge, or another perturbation",
            )
        return self.to_units(solved.matrix)

    def to_units(self, matrix: NDArray[np.float64]) -> NDArray[np.int64]:
        return np.trunc(matrix / Grid.for_bound(self.entry_bound, BITS).step).astype(np.int64)
