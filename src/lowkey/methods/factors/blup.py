"""Public room: the items' side of ``DPFactors``: posterior means from posted sums whose noise is known (a BLUP).

A round says of every item's coefficients t_j = (bias, factor): y_j = q_j G t_j + N(0, s^2 D_j^-2 + k q_j G), with G the
posted second moments of what the ratings are regressed on, q_j the item's share of all (weighted) ratings, s the noise of
the post, D_j = diag(b_j, 1, ..., 1) what the bias was scaled by in it, and k the size of the users' own residuals. The
prior is N((bias of the item means, 0), diag(variance, P)); P is estimated from the rounds themselves (empirical Bayes), so
there is no ridge to tune.
Paper: Henderson 1975 (best linear unbiased prediction); Dempster, Laird and Rubin 1977 for P. Deviates: nowhere.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numba import get_num_threads, njit
from numpy.typing import NDArray

from lowkey.linalg.blas import DGEMM, DPOTRF, cholesky, solve_factored
from lowkey.linalg.definite import invert_positive, spare_size
from lowkey.linalg.packed import add_squares, pack, unpack
from lowkey.methods.factors.side import Side, inverse_of
from lowkey.threads import one_blas_thread

Matrix = NDArray[np.float64]
LARGEST_SAMPLE = 500  # items that P is estimated from: those with the largest shares
TURNS = 3  # of prior means and P
STEPS = 4  # of EM for P in a turn: to the end, weak directions die out before they were looked for
BLOCK = 128  # items solved at a time: their matrices stay in the cache


@dataclass(frozen=True)
class Round:
    """What one round posted, in the eigenbasis of its G: y (n, d), eigenvalues (d,), and the map from coefficients."""

    shares: Matrix  # q, (n,)
    targets: Matrix  # y rotated, (n, d)
    values: Matrix  # eigenvalues of G, (d,)
    view: Matrix  # coefficients -> rotated q^-1 E[y], (d, d)
    noise_std: float
    sampling: float  # k
    bias_axis: Matrix  # where the bias points to, (d,)
    bias_lift: Matrix  # s^2 (b^-2 - 1): the noise of the bias beyond that of a factor's coordinate, (n,)

    @classmethod
    def of(
        cls, shares: Matrix, y: Matrix, second_moments: Matrix, scales: Matrix, noise_std: float, sampling: float
    ) -> Round:
        values, rotation = np.linalg.eigh(second_moments)
        values = np.maximum(values, 1e-9 * max(values[-1], 1e-9))  # noise may push a small one below zero
        lift = noise_std**2 * (scales**-2.0 - 1.0)
        return cls(shares, y @ rotation, values, values[:, None] * rotation.T, noise_std, sampling, rotation[0], lift)

    def turned(self, change: Matrix) -> Round:
        """The same round about the factors v' = change v."""
        return replace(self, view=self.view @ _undo(change))

    def evidence(self, rows: NDArray[np.intp]) -> tuple[Matrix, Matrix]:
        """Packed precisions (n, d (d + 1)/2) and precision-weighted targets (n, d) of the items ``rows``."""
        q, (weight, lost, axis) = self.shares[rows, None], self._precision(rows)
        seen, known = axis @ self.view, (axis * self.targets[rows]).sum(axis=1, keepdims=True)
        precision = (weight * q**2) @ self._squares
        add_squares(precision, -(lost * q**2)[:, 0], seen)
        return precision, (weight * q * self.targets[rows]) @ self.view - lost * q * known * seen

    def _precision(self, rows: NDArray[np.intp]) -> tuple[Matrix, Matrix, Matrix]:
        """The inverse covariance of y, rotated, as diag(weight) - lost axis axis^T (Sherman and Morrison)."""
        weight = 1.0 / self._variance(rows)
        lift = self.bias_lift[rows, None]
        return weight, lift / (1.0 + lift * (weight @ self.bias_axis**2)[:, None]), weight * self.bias_axis

    def _variance(self, rows: NDArray[np.intp]) -> Matrix:
        """Of y, rotated, but for what the bias has beyond it."""
        return self.noise_std**2 + self.sampling * self.shares[rows, None] * self.values + 1e-30

    @cached_property
    def _squares(self) -> Matrix:
        """For every row of ``view`` the packed triangle of its product with itself."""
        return pack(self.view[:, :, None] * self.view[:, None, :])

    def start(self, rows: NDArray[np.intp]) -> Matrix:
        """P by moments: the spread of the targets beyond their noise, no direction below one standard error of it."""
        q = self.shares[rows]
        noise = self._variance(rows)
        weights = 1.0 / noise.mean(1)
        lifted = (weights @ self.bias_lift[rows]) * np.outer(self.bias_axis, self.bias_axis)
        spread = (self.targets[rows] * weights[:, None]).T @ self.targets[rows] - np.diag(weights @ noise) - lifted
        back = np.linalg.inv(self.view)
        size = np.sum(weights * q**2)
        values, vectors = np.linalg.eigh((back @ spread @ back.T)[1:, 1:] / size)
        error = np.sqrt(2.0 * len(rows)) / size * np.diag(back @ back.T)[1:].mean()
        return (vectors * np.maximum(values, error)) @ vectors.T


def _undo(change: Matrix) -> Matrix:
    """The inverse of a map of factors, as one of (bias, factor)."""
    whole = np.eye(len(change) + 1)
    whole[1:, 1:] = np.linalg.inv(change)
    return whole


class Posterior(NamedTuple):
    means: Matrix  # (n, d): bias, then factor
    prior: Matrix  # P, (d - 1, d - 1)
    spread: Matrix  # E[v v^T] over ratings: P, and what the prior means vary beside it


def posterior(rounds: Sequence[Round], bias: Matrix, bias_variance: Matrix, side: Side) -> Posterior:
    """The items' coefficients given every round, with the prior covariance that makes the rounds most likely (EM).

    What ``side`` knows of the items is the prior mean of their factors, as far as the rounds bear it out.

    Blocks of items go to the threads, each with a BLAS of one thread; they are added in order, so threads leave no trace.
    """
    shares = rounds[-1].shares
    sample = np.argsort(-shares, kind="stable")[:LARGEST_SAMPLE]
    prior = rounds[-1].start(sample) if side.precisions is None else side.spread
    apart = math.inf
    centers = np.zeros((len(bias), len(prior) + 1))  # prior means: of the biases they are in the evidence already

    def evidence(rows: NDArray[np.intp]) -> tuple[Matrix, Matrix]:
        precision, target = private(rows)
        side.add(rows, apart, precision, target)
        return precision, target

    def private(rows: NDArray[np.intp]) -> tuple[Matrix, Matrix]:
        return _total(rounds, rows, bias, bias_variance)

    def solved(rows: NDArray[np.intp]) -> Matrix:
        known = evidence(rows)
        return _solve_all(known[0], known[1] + centers[rows] @ unpack(precision), precision, np.zeros(0), DGEMM, DPOTRF)[0]

    with one_blas_thread(), ThreadPoolExecutor(get_num_threads()) as pool:
        for turn in range(TURNS):
            if turn > 0:
                apart = side.likeliest(private(sample), sample, prior, centers[sample, 1:])
                centers[:, 1:] = side.centers(shares, evidence, prior)
            known = [(*evidence(rows), shares[rows] / shares[sample].sum(), rows) for rows in _blocks(sample)]
            for _ in range(STEPS):
                precision = _prior_precision(prior)
                moments = np.sum(list(pool.map(partial(_second_moments, precision, centers), known)), axis=0)
                prior = (moments + moments.T)[1:, 1:] / 2.0
        precision = _prior_precision(prior)
        found = np.concatenate(list(pool.map(solved, _blocks(np.arange(len(bias))))))
        means = centers[sample, 1:] * np.sqrt(shares[sample] / shares[sample].sum())[:, None]
        return Posterior(found, prior, prior + means.T @ means)


def _blocks(rows: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return [rows[first : first + BLOCK] for first in range(0, len(rows), BLOCK)]


def _second_moments(prior: Matrix, centers: Matrix, known: tuple[Matrix, Matrix, Matrix, NDArray[np.intp]]) -> Matrix:
    """The sum over items of weight E[t t^T], t around its prior mean, for ``known`` = precisions, targets and weights."""
    precision, target, weights, rows = known
    target = target + centers[rows] @ unpack(prior)
    means, covariance = _solve_all(precision, target, prior, weights, DGEMM, DPOTRF)
    means -= centers[rows]
    return (means * weights[:, None]).T @ means + covariance


def _total(rounds: Sequence[Round], rows: NDArray[np.intp], bias: Matrix, bias_variance: Matrix) -> tuple[Matrix, Matrix]:
    """What all rounds say of the items ``rows`` together, with the prior of their biases."""
    precision, target = rounds[0].evidence(rows)
    for r in rounds[1:]:
        more = r.evidence(rows)
        precision += more[0]
        target += more[1]
    precision[:, 0] += 1.0 / bias_variance[rows]
    target[:, 0] += bias[rows] / bias_variance[rows]
    return precision, target


def _prior_precision(prior: Matrix) -> Matrix:
    """The inverse of the prior covariance of (bias, factor), 0 for the bias, solvable whatever was posted; packed."""
    whole = np.zeros((len(prior) + 1, len(prior) + 1))
    whole[1:, 1:] = inverse_of(prior)
    return pack(whole)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _solve_all(precision, target, prior, weights, dgemm, dpotrf):
    """Means (precision_j + prior)^-1 target_j and, with ``weights``, the weighted sum of these inverses.

    No direction is below 1e-12 of the largest. An item whose matrix is not positive definite after all gets nothing.
    Means are solved by Cholesky: an inverse would lose twice the digits where the data is without noise.
    """
    n, d = target.shape
    whole, factor, spare = np.empty((d, d)), np.empty((d, d)), np.empty(spare_size(d))
    means, covariance = np.empty((n, d)), np.zeros((d, d))
    for j in range(n):
        at, trace = 0, 0.0
        for a in range(d):
            to = whole[a, a:]
            for b in range(d - a):
                to[b] = precision[j, at + b] + prior[at + b]
            trace += to[0]
            at += d - a
        for a in range(d):
            whole[a, a] += 1e-12 * trace
        factor[:] = whole
        if not cholesky(factor, d, dpotrf):
            means[j] = 0.0
            continue
        means[j] = target[j]
        solve_factored(factor, d, means[j])
        if len(weights) and invert_positive(whole, spare, dgemm):
            for a in range(d):
                for b in range(d):
                    covariance[a, b] += weights[j] * whole[a, b]
    return means, covariance


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
