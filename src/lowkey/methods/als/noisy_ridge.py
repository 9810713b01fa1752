"""Public room: noisy Gram matrices of many items, drawn towards the shape that they share, and the ridge they deserve.

A posted matrix is X_j = t_j M + D_j + N_j: M (trace 1) is the second moment of users as such, t_j the item's size, D_j
what is peculiar to those who rated it, of size E|D_j|^2 = h t_j^2 (Frobenius), and N_j symmetric noise: variance std^2 off
the diagonal and twice that on it. In an orthonormal basis of the L = rank (rank + 1)/2 dimensions every coordinate of N_j
has variance 2 std^2, so E|N_j|^2 = 2 L std^2, and the best linear guess is t_j M + s_j D_j with
s_j = h t_j^2/(h t_j^2 + 2 L std^2). M, t_j and h are read off the posts themselves; where the noise is small s_j is 1.

Item j then has A_j v = b_j with noise of variance s^2 on b_j and of variance q_j^2 on A_j, what ``pool`` leaves of it: the
share s_j. If factors have variance t^2 per coordinate and A_j is about diag(a_j1 .. a_jr), the error of v_k without a ridge
has variance (s^2 + rank t^2 q_j^2)/a_jk^2, and the best linear estimate has on coordinate k the ridge
(s^2 + rank t^2 q_j^2)/(t^2 a_jk). t^2 follows from E b_jk^2 = a_jk^2 t^2 + s^2.

Paper: ours; Stein shrinkage with an empirical prior (Ledoit and Wolf 2004 for one matrix), and best linear unbiased
prediction (Henderson 1975).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.packed import diagonal_entries, packed_order, squared_norms, unpack
from lowkey.linalg.psd import solve_projected

Array = NDArray[np.float64]


class Pool(NamedTuple):
    """t_j M (1 - s_j) + s_j X_j is the guess: ``mean`` is M, packed; ``sizes`` t and ``kept`` s are per item."""

    mean: Array
    sizes: Array
    kept: Array


def pool(gram: Array, std: float, active: NDArray[np.bool_] | None = None) -> Pool:
    """What packed matrices with noise ``std`` share. Those that are not ``active`` hold noise alone: their guess is 0."""
    n, length = gram.shape
    diagonal = diagonal_entries(packed_order(length))
    doubled = np.full(length, 2.0)  # <A, B> = sum of doubled * a * b: entries off the diagonal stand twice in the matrix
    doubled[diagonal] = 1.0
    among = np.ones(n) if active is None else active.astype(np.float64)
    sizes = np.maximum(gram[:, diagonal].sum(axis=1), 0.0) * among
    mean = np.zeros(length)
    for _ in range(2):  # towards the leading singular vector of the stack
        mean = sizes @ gram
        trace = float(mean[diagonal].sum())
        if trace > 1e-6 * float(np.abs(mean).sum()):
            mean /= trace
        else:  # all noise: no direction is better than another
            mean[:] = 0.0
            mean[diagonal] = 1.0 / len(diagonal)
        sizes = np.maximum(gram @ (doubled * mean), 0.0) / float(doubled @ mean**2) * among
    if std == 0.0:
        return Pool(mean, sizes, among)
    squares = squared_norms(gram, doubled)
    spread = squares - sizes**2 * float(doubled @ mean**2)  # |X - t M|^2, for t the projection
    noise = 2.0 * length * std**2
    own = max(float(among @ (spread - noise)), 1e-9 * float(among @ squares)) / max(float(sizes @ sizes), 1e-300)
    signal = own * sizes**2
    return Pool(mean, sizes, among * signal / (signal + noise))


Array = NDArray[np.float64]


@dataclass(frozen=True)
class Equations:
    """Posted normal equations: packed Gram matrices, right-hand sides, and the noise on each (off the diagonal)."""

    gram: Array
    rhs: Array
    gram_std: float
    rhs_std: float
    shared: Array | None = None  # a matrix added to every Gram matrix, times the item's weight
    shared_weights: Array | None = None
    active: NDArray[np.bool_] | None = None  # items that have equations at all; None: every item

    @cached_property
    def pooled(self) -> Pool:
        return pool(self.gram, self.gram_std, self.active)

    def traces(self) -> Array:
        return self.gram[:, diagonal_entries(self.rhs.shape[1])].sum(axis=1)

    def curvatures(self) -> Array:
        """a_jk: the diagonal that each matrix has by its size and by what all share, (n, rank)."""
        diagonal = self.pooled.mean[diagonal_entries(self.rhs.shape[1])]
        curvatures = np.outer(self.pooled.sizes, np.maximum(diagonal, 1e-6))
        if self.shared is not None and self.shared_weights is not None:
            curvatures += np.outer(self.shared_weights, np.diag(self.shared))
        return np.maximum(curvatures, max(1e-9 * float(curvatures.max()), 1e-9 * self.gram_std, 1e-30))

    def solve(self, ridge: Array) -> Array:
        """Row j: (positive part of A_j + diag(ridge_j))^-1 b_j, with A_j drawn towards what the items share.

        Positive part in the coordinates in which the ridge is 1: those in which the noise matters alike.
        """
        among, rank = self.pooled, self.rhs.shape[1]
        matrices: list[Array] = [] if self.shared is None else [self.shared]
        weights: list[Array] = [] if self.shared_weights is None else [self.shared_weights]
        if noisy := self.gram_std > 0.0:
            matrices.append(unpack(among.mean))
            weights.append(among.sizes * (1.0 - among.kept))
        return solve_projected(
            self.gram,
            self.rhs,
            ridge,
            kept=among.kept,
            shared=np.array(matrices).reshape(-1, rank, rank),
            weights=np.array(weights).reshape(-1, len(ridge)).T.copy(),
            noisy=noisy,
        )


def noise_aware_ridge(equations: Equations, reg: float | Array, strength: float = 1.0) -> Array:
    """``reg`` plus ``strength`` times the best ridge for the noise, (n, rank); ``reg`` alone where there is none."""
    rhs, a = equations.rhs, equations.curvatures()
    ridge = np.broadcast_to(np.reshape(reg, (-1, 1)), rhs.shape).astype(np.float64)
    if equations.rhs_std == 0.0:
        return ridge
    among = slice(None) if equations.active is None else equations.active
    energy = float(np.sum(rhs[among] ** 2))
    signal = max(energy - rhs[among].size * equations.rhs_std**2, 0.02 * energy)
    prior = signal / float(np.sum(a[among] ** 2))
    noise = equations.rhs_std**2 + rhs.shape[1] * prior * equations.pooled.kept * equations.gram_std**2
    return ridge + strength * noise[:, None] / (prior * a)
