"""Public room: the items' side of ``DPFactors``: posterior means from posted sums whose noise is known (a BLUP).

A round says of every item's coefficients t_j = (bias, factor): y_j = q_j G t_j + N(0, s^2 I + k q_j G), with G the posted
second moments of what the ratings are regressed on, q_j the item's share of all (weighted) ratings, s the noise of the
post and k the size of the users' own residuals. The prior is N((bias of the item means, 0), diag(variance, P)); P is
estimated from the rounds themselves (empirical Bayes), so there is no ridge to tune.
Paper: Henderson 1975 (best linear unbiased prediction); Dempster, Laird and Rubin 1977 for P. Deviates: nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
LARGEST_SAMPLE = 1000  # items that P is estimated from: those with the largest shares


@dataclass(frozen=True)
class Round:
    """What one round posted, in the eigenbasis of its G: y (n, d), eigenvalues (d,), and the map from coefficients."""

    shares: Matrix  # q, (n,)
    targets: Matrix  # y rotated, (n, d)
    values: Matrix  # eigenvalues of G, (d,)
    view: Matrix  # coefficients -> rotated q^-1 E[y], (d, d)
    noise_std: float
    sampling: float  # k

    @classmethod
    def of(cls, shares: Matrix, y: Matrix, second_moments: Matrix, noise_std: float, sampling: float) -> Round:
        values, rotation = np.linalg.eigh(second_moments)
        values = np.maximum(values, 1e-9 * max(values[-1], 1e-9))  # noise may push a small one below zero
        return cls(shares, y @ rotation, values, values[:, None] * rotation.T, noise_std, sampling)

    def turned(self, change: Matrix) -> Round:
        """The same round about the factors v' = change v."""
        whole = np.eye(len(self.values))
        whole[1:, 1:] = np.linalg.inv(change)
        return replace(self, view=self.view @ whole)

    def evidence(self, rows: NDArray[np.intp] | slice) -> tuple[Matrix, Matrix]:
        """Precision (n, d, d) and precision-weighted target (n, d) of the items ``rows``."""
        q = self.shares[rows, None]
        weight = q / (self.noise_std**2 + self.sampling * q * self.values + 1e-30)
        precision = np.einsum("nk,ka,kb->nab", weight * q, self.view, self.view, optimize=True)
        return precision, (weight * self.targets[rows]) @ self.view


class Posterior(NamedTuple):
    means: Matrix  # (n, d): bias, then factor
    prior: Matrix  # P, (d - 1, d - 1)


def posterior(rounds: Sequence[Round], bias: Matrix, bias_variance: Matrix, steps: int = 30) -> Posterior:
    """The items' coefficients given every round, with the prior covariance that makes the rounds most likely (EM)."""
    shares = rounds[-1].shares
    sample = np.argsort(-shares, kind="stable")[:LARGEST_SAMPLE]
    weights = shares[sample] / shares[sample].sum()
    precision, target = _total(rounds, sample, bias, bias_variance)
    size = precision.shape[1]
    # The start: what the coefficients would be without shrinkage, an upper limit of P.
    ridge = 1e-12 * np.trace(precision.mean(0)) * np.eye(size)
    raw = np.linalg.solve(precision + ridge, target[:, :, None])[:, 1:, 0]
    prior = (raw * weights[:, None]).T @ raw + 1e-12 * np.eye(size - 1)
    for _ in range(steps):
        covariance = np.linalg.inv(_with_prior(precision, prior))
        factors = np.einsum("nab,nb->na", covariance, target)[:, 1:]
        prior = (factors * weights[:, None]).T @ factors + np.einsum("n,nab->ab", weights, covariance[:, 1:, 1:])
        prior = (prior + prior.T) / 2.0 + 1e-12 * np.eye(size - 1)
    precision, target = _total(rounds, slice(None), bias, bias_variance)
    return Posterior(np.linalg.solve(_with_prior(precision, prior), target[:, :, None])[:, :, 0], prior)


def _total(
    rounds: Sequence[Round], rows: NDArray[np.intp] | slice, bias: Matrix, bias_variance: Matrix
) -> tuple[Matrix, Matrix]:
    parts = [r.evidence(rows) for r in rounds]
    precision, target = sum(p for p, _ in parts), sum(t for _, t in parts)
    assert isinstance(precision, np.ndarray)
    assert isinstance(target, np.ndarray)
    precision[:, 0, 0] += 1.0 / bias_variance[rows]
    target[:, 0] += bias[rows] / bias_variance[rows]
    return precision, target


def _with_prior(precision: Matrix, prior: Matrix) -> Matrix:
    whole = precision.copy()
    whole[:, 1:, 1:] += np.linalg.inv(prior)
    return whole


def common_scale(before: Matrix, after: Matrix, seen: Matrix, share: Matrix, ratings: float, reg: float) -> Matrix:
    """The map v = change c that makes the users' factors have covariance one, for coefficients c on factors u = M V^T y.

    For u made from factors V ("before") as M = (m V^T D V + reg)^-1 times m V^T D y, with D the shares of items, theory says
    E[c-side]: R^T R = M m V^T D c seen, where seen = E[u u^T]; the coefficients on factors of covariance one are
    (R^T R)^(-1/2) seen c. At the fixed point it is the identity.
    """
    spread = ratings * (before * share[:, None]).T @ before
    cross = ratings * (before * share[:, None]).T @ after
    square = np.linalg.solve(spread + reg * np.eye(len(spread)), cross) @ seen
    values, vectors = np.linalg.eigh((square + square.T) / 2.0)
    values = np.maximum(values, 1e-2 * max(values[-1], 1e-12))
    return (vectors / np.sqrt(values)) @ vectors.T @ seen
