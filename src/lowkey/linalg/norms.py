"""Public room: exact projections on the nuclear-norm ball and on the box, and a certified one on what they share.

The projection of V on N (nuclear norm <= radius) intersected with B (entries within +-bound) has the dual

    maximise  |V|^2/2 - |V - P - Q|^2/2 - radius |P|_op - bound |Q|_1   over P, Q,

whose blocks are the two exact projections: P = W - proj_N(W) for W = V - Q, then Q = soft(V - P, bound). Alternating is
Dykstra's scheme; here it starts from the last Q and is extrapolated (FISTA with restarts, step 1). Every step gives a
feasible point and a lower bound on the distance, so the gap between the two is known, not guessed.

Paper: none for the intersection (Li et al. 2021 do not say how they project); Dykstra 1983, Beck and Teboulle 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SMALL = 160  # below this many rows or columns a dense SVD is as quick
SPARE = 8  # extra columns in a partial SVD: they speed it up and show where the values fall off


def ball_threshold(values: Array, radius: float) -> float:
    """The theta >= 0 with sum of max(value - theta, 0) = radius; 0 if they already sum to less. ``values`` fall."""
    totals = np.cumsum(values)
    if len(values) == 0 or totals[-1] <= radius:
        return 0.0
    candidates = (totals - radius) / np.arange(1, len(values) + 1)
    kept = int(np.flatnonzero(values > candidates)[-1])
    return max(0.0, float(candidates[kept]))


def leading_svd(
    matrix: Array, rank: int, start: Array | None, tol: float, max_sweeps: int = 12
) -> tuple[Array, Array, Array]:
    """The leading ``rank`` singular triplets by subspace iteration from ``start`` (columns of right vectors).

    The factors are orthonormal to rounding whatever the accuracy; it stops when no value changes by ``tol`` of the first.
    """
    if min(matrix.shape) <= SMALL:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        return left[:, :rank], values[:rank], right[:rank]
    width = min(rank + SPARE, min(matrix.shape))
    missing = width - (0 if start is None else min(width, start.shape[1]))
    fresh = np.random.default_rng(0).standard_normal((matrix.shape[1], missing))  # a fixed, public start
    basis = fresh if start is None else np.hstack([start[:, :width], fresh])
    before = np.full(width, np.inf)
    while True:
        left = np.linalg.qr(matrix @ basis).Q
        small, values, right = np.linalg.svd(left.T @ matrix, full_matrices=False)
        max_sweeps -= 1
        if max_sweeps < 1 or np.abs(values - before)[:rank].max() <= tol * values[0]:
            break
        basis, before = right.T, values
    return (left @ small)[:, :rank], values[:rank], right[:rank]


@dataclass
class NuclearBall:
    """Projects on {X: nuclear norm <= radius}, by a partial SVD where few values stay above the threshold.

    Remembers the last basis: the next matrix is near. ``tol=0`` asks for dense, exact SVDs.
    """

    radius: float
    tol: float = 1e-4
    partial_svds: int = 0
    dense_svds: int = 0
    rank: int = 4
    _basis: Array | None = field(default=None, repr=False)

    def project(self, matrix: Array) -> tuple[Array, float]:
        """The projection and the threshold theta, which is the operator norm of what was cut off."""
        most = min(matrix.shape)
        rank = self.rank + SPARE
        while self.tol > 0.0 and most > SMALL and 3 * rank <= most:
            left, values, right = leading_svd(matrix, rank, self._basis, self.tol)
            self.partial_svds += 1
            self._basis = right.T
            theta = ball_threshold(values, self.radius)
            if values[-1] <= theta:  # so is every value that was not computed
                return self._shrunk(left, values, right, theta), theta
            rank *= 2
        self.dense_svds += 1
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        theta = ball_threshold(values, self.radius)
        if theta == 0.0:
            return matrix.copy(), 0.0
        return self._shrunk(left, values, right, theta), theta

    def _shrunk(self, left: Array, values: Array, right: Array, theta: float) -> Array:
        self.rank = max(1, int(np.sum(values > theta)))
        kept = slice(0, self.rank)
        return (left[:, kept] * np.maximum(values[kept] - theta, 0.0)) @ right[kept]


@dataclass
class Projection:
    """A feasible point near V, with the pieces of the certificate."""

    point: Array
    lower: float  # no feasible point is nearer to V than sqrt(2 lower)
    normal: Array  # P: what the nuclear ball pushes back, of operator norm ``normal_norm``
    normal_norm: float


@dataclass
class Intersection:
    """{X: nuclear norm <= radius, |entries| <= bound}; either may be infinite. Remembers the last multiplier."""

    ball: NuclearBall
    bound: float
    _push: Array | None = field(default=None, repr=False)

    def project(
        self, target: Array, current: Array, step: float = 1.0, enough: float = 0.9, max_steps: int = 60
    ) -> Projection:
        """Nearer to ``target`` than the feasible ``current`` is, by ``enough`` (below 1) of what is possible.

        That is the condition of inexact spectral projected gradients (Birgin, Martinez and Raydan 2003). ``step`` is the
        length of the gradient step that led to ``target``: the multipliers grow in proportion to it.
        """
        if math.isinf(self.bound) or math.isinf(self.ball.radius):
            return self._single(target)
        reach = 0.5 * _square(current - target)
        push = np.zeros_like(target) if self._push is None else self._push * step  # Q
        ahead, pace = push, 1.0
        best_primal, best_dual, point = reach, -math.inf, current
        answer = Projection(current, 0.0, np.zeros_like(target), 0.0)
        for _ in range(max_steps):
            in_ball, theta = self.ball.project(target - ahead)
            normal = target - ahead - in_ball  # P
            rest = target - normal
            in_box = np.clip(rest, -self.bound, self.bound)
            new = rest - in_box  # Q
            dual = (
                0.5 * _square(target)
                - 0.5 * _square(in_box)
                - self.ball.radius * theta
                - self.bound * float(np.abs(new).sum())
            )
            if dual > best_dual:
                best_dual, answer = dual, Projection(point, dual, normal, theta)
            candidate = self._feasible(in_ball)
            primal = 0.5 * _square(candidate - target)
            if primal < best_primal:
                best_primal, point = primal, candidate
            if reach - best_primal >= enough * (reach - best_dual):
                push = new
                break
            # Extrapolate, unless the last step went against the direction of travel (O'Donoghue and Candes 2015).
            if float(np.vdot(ahead - new, new - push)) > 0.0:
                pace = 1.0
            after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * pace * pace))
            ahead = new + (pace - 1.0) / after * (new - push)
            push, pace = new, after
        self._push = push / step
        answer.point, answer.lower = point, best_dual
        return answer

    def _single(self, target: Array) -> Projection:
        """The exact projection where only one of the two binds."""
        if math.isinf(self.ball.radius):
            point, normal, theta = np.clip(target, -self.bound, self.bound), np.zeros_like(target), 0.0
        else:
            point, theta = self.ball.project(target)
            normal = target - point
        return Projection(point, 0.5 * _square(point - target), normal, theta)

    def _feasible(self, in_ball: Array) -> Array:
        """A point of the ball moved into the box too: shrunk, or cut and shrunk, whichever shrinks less.

        Cutting by E adds at most |E|_* to the nuclear norm, and |E|_* <= sqrt(non-zero rows) |E|_F.
        """
        largest = float(np.abs(in_ball).max())
        if largest <= self.bound:
            return in_ball
        shrink = self.bound / largest
        cut = np.clip(in_ball, -self.bound, self.bound)
        excess = in_ball - cut
        rows = min(int(np.any(excess, axis=0).sum()), int(np.any(excess, axis=1).sum()))
        cut_shrink = self.ball.radius / (self.ball.radius + math.sqrt(rows * _square(excess)))
        return cut * cut_shrink if cut_shrink > shrink else in_ball * shrink


def _square(matrix: Array) -> float:
    return float(np.vdot(matrix, matrix))
