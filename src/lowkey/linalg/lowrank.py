"""Public room: matrices of fixed rank: their tangent spaces in orthonormal coordinates, and the way back (retraction).

With M = U diag(values) V^T and V_c an orthonormal basis of the complement of V, the tangent space at M consists of
A V^T + U B V_c^T, with A (d1, rank) and B (rank, d2 - rank) arbitrary: rank (d1 + d2 - rank) numbers. The coordinates of
the projection of X are A = X V and B = U^T X V_c, and the two parts are orthogonal, so the coordinates have its norm.
V_c is never formed: it is the last columns of a block reflector I - G Z^T, kept as two (d2, rank) factors.

Paper: Vandereycken 2013, section 2 (tangent space); Schreiber and Parlett 1988 (block reflectors); Gavish and Donoho
2017 (optimal shrinkage of singular values). Deviates: nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FixedRank:
    """left @ diag(values) @ right.T, with orthonormal columns; a value may be 0 and still keep its direction."""

    left: Array  # (d1, rank)
    values: Array  # (rank,), falling
    right: Array  # (d2, rank)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FixedRank):
            return NotImplemented
        mine, theirs = (self.left, self.values, self.right), (other.left, other.values, other.right)
        return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def tangent_size(self) -> int:
        return tangent_size(self.shape, self.rank)

    def matrix(self) -> Array:
        return (self.left * self.values) @ self.right.T

    @property
    def complement(self) -> tuple[Array, Array]:
        return complement(self.right)

    def coordinates(self, matrix: Array) -> Array:
        """The coordinates of the tangent projection of ``matrix``; one flat array, A^T before B."""
        reflector, dual = self.complement
        rows = self.left.T @ matrix  # (rank, d2)
        across = rows[:, self.rank :] - (rows @ reflector) @ dual[self.rank :].T
        return np.concatenate([(matrix @ self.right).T.ravel(), across.ravel()])

    def halves(self, coordinates: Array) -> tuple[Array, Array]:
        """A (d1, rank) and K = V_c B^T (d2, rank): the tangent vector is A V^T + U K^T."""
        (d1, d2), rank = self.shape, self.rank
        along = coordinates[: d1 * rank].reshape(rank, d1).T
        reflector, dual = self.complement
        across = coordinates[d1 * rank :].reshape(rank, d2 - rank).T
        padded = np.vstack([np.zeros((rank, rank)), across])
        return along, padded - reflector @ (dual[rank:].T @ across)

    def tangent_vector(self, coordinates: Array) -> Array:
        along, across = self.halves(coordinates)
        return along @ self.right.T + self.left @ across.T

    def moved(self, coordinates: Array, largest: float = math.inf) -> FixedRank:
        """The nearest matrix of this rank to M + the tangent vector, its singular values at most ``largest``.

        M + A V^T + U K^T = [U diag(values) + A, U] [V, K]^T has rank 2 rank: two thin QRs and one small SVD do.
        """
        along, across = self.halves(coordinates)
        q1, r1 = np.linalg.qr(np.hstack([self.left * self.values + along, self.left]))
        q2, r2 = np.linalg.qr(np.hstack([self.right, across]))
        left, values, right = np.linalg.svd(r1 @ r2.T, full_matrices=False)
        keep = slice(0, self.rank)
        return FixedRank(q1 @ left[:, keep], np.minimum(values[keep], largest), q2 @ right[keep].T)


def tangent_size(shape: tuple[int, int], rank: int) -> int:
    return rank * (shape[0] + shape[1] - rank)


def truncated(matrix: Array, rank: int) -> FixedRank:
    """The nearest matrix of this rank."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return FixedRank(left[:, :rank], values[:rank], right[:rank].T)


def complement(basis: Array) -> tuple[Array, Array]:
    """(G, Z): the columns of I - G Z^T after the first ``rank`` are an orthonormal basis of the complement of V.

    Let V1 = A diag(s) B^T be the SVD of the first rank rows of V, E = A B^T on top of zeros, G = V + E. Then G^T G =
    2 (I + B diag(s) B^T) is well conditioned, and the reflector I - 2 G (G^T G)^-1 G^T takes V to -E: its last
    columns are orthogonal to V.
    """
    rank = basis.shape[1]
    a, s, bt = np.linalg.svd(basis[:rank])
    reflector = basis.copy()
    reflector[:rank] += a @ bt
    return reflector, reflector @ ((bt.T / (1.0 + s)) @ bt)


def shrunk_values(values: Array, noise_std: float, shape: tuple[int, int]) -> Array:
    """Singular values of signal + white noise, shrunk to what is best in Frobenius norm; inside the bulk they are 0."""
    if noise_std == 0.0:
        return values
    scale = noise_std * math.sqrt(max(shape))
    aspect = min(shape) / max(shape)
    y2 = np.maximum((values / scale) ** 2, (1.0 + math.sqrt(aspect)) ** 2)  # at the bulk's edge the root is 0
    return scale * np.sqrt(np.maximum((y2 - aspect - 1.0) ** 2 - 4.0 * aspect, 0.0)) / np.sqrt(y2)
