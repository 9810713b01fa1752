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
LARGEST_SAMPLE = 500  # items that P is estimated from: those with the largest shares
BLOCK = 256  # items solved at a time: their matrices stay in the cache


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

    def start(self, rows: NDArray[np.intp]) -> Matrix:
        """P by moments: the spread of the targets beyond their noise, no direction below one standard error of it."""
        q = self.shares[rows]
        noise = self.noise_std**2 + self.sampling * q[:, None] * self.values + 1e-30
        weights = 1.0 / noise.mean(1)
        spread = (self.targets[rows] * weights[:, None]).T @ self.targets[rows] - np.diag(weights @ noise)
        back = np.linalg.inv(self.view)
        size = np.sum(weights * q**2)
        values, vectors = np.linalg.eigh((back @ spread @ back.T)[1:, 1:] / size)
        error = np.sqrt(2.0 * len(rows)) / size * np.diag(back @ back.T)[1:].mean()
        return (vectors * np.maximum(values, error)) @ vectors.T


class ItemMean(NamedTuple):
    means: Matrix
    variances: Matrix
    counts: Matrix  # at least half the noise, so that powers of them make sense


def item_means(
    sums: Matrix, counts: Matrix, sum_std: float, count_std: float, prior_std: float, residual_std: float
) -> ItemMean:
    """Posterior means and variances from sum = count * mean + N(0, sum_std^2 + count * residual_std^2 / 2).

    The sum of squared weights is at most half of the sum of the weights from four ratings a user on.
    """
    known = np.maximum(counts, 0.0)
    weight = known / (sum_std**2 + residual_std**2 * known / 2.0 + 1e-30)
    variances = 1.0 / (weight * known + prior_std**-2)
    return ItemMean(weight * sums * variances, variances, np.maximum(known, max(count_std / 2.0, 1.0)))


class Posterior(NamedTuple):
    means: Matrix  # (n, d): bias, then factor
    prior: Matrix  # P, (d - 1, d - 1)


def posterior(rounds: Sequence[Round], bias: Matrix, bias_variance: Matrix, steps: int = 10) -> Posterior:
    """The items' coefficients given every round, with the prior covariance that makes the rounds most likely (EM)."""
    shares = rounds[-1].shares
    sample = np.argsort(-shares, kind="stable")[:LARGEST_SAMPLE]
    weights = shares[sample] / shares[sample].sum()
    precision, target = _total(rounds, sample, bias, bias_variance)
    prior = rounds[-1].start(sample)
    for _ in range(steps):
        covariance = np.linalg.inv(_with_prior(precision, prior))
        factors = np.einsum("nab,nb->na", covariance, target)[:, 1:]
        prior = (factors * weights[:, None]).T @ factors + np.einsum("n,nab->ab", weights, covariance[:, 1:, 1:])
        prior = (prior + prior.T) / 2.0
    means = np.empty((len(bias), len(prior) + 1))
    for first in range(0, len(bias), BLOCK):
        block = slice(first, first + BLOCK)
        precision, target = _total(rounds, block, bias, bias_variance)
        means[block] = np.linalg.solve(_with_prior(precision, prior), target[:, :, None])[:, :, 0]
    return Posterior(means, prior)


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
    """Precisions with that of the prior, solvable whatever was posted: no direction below 1e-12 of the largest."""
    values, vectors = np.linalg.eigh(prior)
    whole = precision.copy()
    whole[:, 1:, 1:] += (vectors / np.maximum(values, max(1e-9 * values[-1], 1e-15))) @ vectors.T
    diagonal = np.einsum("nkk->nk", whole)  # a view
    diagonal += 1e-12 * diagonal.sum(1)[:, None]
    return whole


def common_scale(prior: Matrix, seen: Matrix, ratings: float, reg: float) -> Matrix:
    """The map v = change c from coefficients c on factors u to factors of a model in which u has covariance one.

    What the coefficients explain, c . E[u u^T] c', does not depend on how u was scaled. With eigenvalues s_k of it (over
    items, by ``prior`` = E[c c^T]) a user with m ratings of noise variance reg sees the share l/(l + reg) of a direction
    of true size l/m, so m s = l^2/(l + reg), solved for l. At the fixed point the map is the identity.
    """
    values, vectors = np.linalg.eigh(seen)
    root = (vectors * np.sqrt(np.maximum(values, 1e-9 * max(values[-1], 1e-9)))) @ vectors.T
    explained, turn = np.linalg.eigh(root @ prior @ root)
    explained = ratings * np.maximum(explained, 1e-12)
    true = (explained + np.sqrt(explained**2 + 4.0 * explained * reg)) / 2.0
    return (turn * np.sqrt(true / explained)) @ turn.T @ root


def clean_moments(moments: Matrix, noise_std: float, rank: int) -> Matrix:
    """Posted moments of (1, u, ...), with those of u shrunk towards a multiple of one and the means of u towards zero.

    Shrunk by the share of the spread that the known noise explains (Ledoit and Wolf 2004): variance s^2 off the
    diagonal, 2 s^2 on it.
    """
    clean = moments.copy()
    own = slice(1, rank + 1)
    average = np.trace(moments[own, own]) / rank * np.eye(rank)
    rest = moments[own, own] - average
    clean[own, own] = average + rest * max(0.0, 1.0 - rank * (rank + 1) * noise_std**2 / max(np.sum(rest**2), 1e-30))
    means = moments[0, own]
    clean[0, own] = clean[own, 0] = means * max(0.0, 1.0 - rank * noise_std**2 / max(np.sum(means**2), 1e-30))
    return clean
