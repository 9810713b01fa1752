"""Public room: what is public of the items beside the rounds of ``DPFactors``, trusted as far as the rounds bear it out.

Public people's ratings say of an item's factor v_j what a round does: precision L_j, target h_j. Their crowd may see items
in another way, v_j + N(0, d D), D the spread of their factors over items: then they say (L_j^-1 + d D)^-1, which is L_j -
L_j (L_j + (d D)^-1)^-1 L_j. d is that of the largest likelihood of the private rounds: infinity leaves what they say alone.
P, the spread of private factors, is looked for from D on: a round that is mostly noise says little of it.

Features f_j are a prior mean m_j = W f_j. With A_j all evidence, C_j = (A_j + P^-1)^-1 and t_j the posterior mean for m_j =
0, the log likelihood of m_j is g_j . m_j - m_j . S_j m_j / 2, g_j = P^-1 t_j and S_j = P^-1 - P^-1 C_j P^-1. The slopes
have the prior N(0, l P), l of the largest likelihood. How an item is liked and how often it is taken, as posted, are
features that every fit has: they come first, and public ones are asked for what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.packed import pack, unpack
from lowkey.methods.knowledge import Knowledge

Matrix = NDArray[np.float64]
LARGEST_SAMPLE = 2000  # items that the map is learnt from: those with the largest shares
SCALES = np.geomspace(1e-6, 10.0, 22)  # l
CLEAR = 4.0  # of log likelihood: less may be chance
TINY = 1e-12
MOST_CHANGE = 2.0  # of a direction's scale, from round to round
APART = (math.inf, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)


@dataclass(frozen=True)
class Side:
    """In the coordinates of the rounds: rank directions, those of the public people first."""

    start: Matrix  # (n_items, rank)
    precisions: Matrix | None  # L, (n_items, rank, rank)
    targets: Matrix  # h, (n_items, rank)
    spread: Matrix  # D, (rank, rank)
    features: tuple[Matrix, ...]  # (n_items, k) each: of a source

    @classmethod
    def of(cls, knowledge: Knowledge, start: Matrix, counts: Matrix, known: Matrix) -> Side:
        rank = start.shape[1]
        known = known / np.maximum(np.sqrt(np.mean(known**2, axis=0)), TINY)
        features = (known,) if knowledge.features is None else (known, knowledge.features)
        if knowledge.fit is None:
            return cls(start, None, start, np.eye(rank), features)
        fit = knowledge.fit
        factors = fit.means[:, 1:]
        values, vectors = np.linalg.eigh((factors * counts[:, None]).T @ factors)
        turn = vectors[:, np.argsort(-values)[:rank]]
        kept = turn.shape[1]
        covariance = np.linalg.inv(fit.precisions + np.diag(1.0 / fit.prior))[:, 1:, 1:]  # whatever the bias is
        spread = turn.T @ (fit.prior[1:, None] * turn)
        posterior = np.linalg.inv(turn.T @ covariance @ turn)
        whole = np.zeros((len(start), rank, rank))
        whole[:, :kept, :kept] = posterior - np.linalg.inv(spread)
        targets, begin = np.zeros_like(start), start.copy()
        begin[:, :kept] = factors @ turn
        targets[:, :kept] = np.einsum("nij,nj->ni", posterior, factors @ turn)
        far = np.eye(rank) * float(np.trace(spread)) / kept
        far[:kept, :kept] = spread
        return cls(begin, whole, targets, far, features)

    def gentle(self, change: Matrix) -> Matrix:
        """A change of scale that leaves no direction behind: what the public people know of it would have no place."""
        if self.precisions is None:
            return change
        left, sizes, right = np.linalg.svd(change)
        return (left * np.clip(sizes, 1.0 / MOST_CHANGE, MOST_CHANGE)) @ right

    def turned(self, change: Matrix) -> Side:
        if self.precisions is None:
            return self
        back = np.linalg.inv(change)
        return replace(
            self,
            precisions=back.T @ self.precisions @ back,
            targets=self.targets @ back,
            spread=change @ self.spread @ change.T,
        )

    def said(self, rows: Any, apart: float) -> tuple[Matrix, Matrix]:
        """What the public people say, for a given d."""
        assert self.precisions is not None
        precisions, targets = self.precisions[rows], self.targets[rows]
        gain = precisions @ np.linalg.inv(precisions + np.linalg.inv(apart * self.spread))
        found = precisions - gain @ precisions
        return (found + found.transpose(0, 2, 1)) / 2.0, targets - np.einsum("nij,nj->ni", gain, targets)

    def add(self, rows: Any, apart: float, precision: Matrix, target: Matrix) -> None:
        if self.precisions is None or apart == math.inf:
            return
        more, targets = self.said(rows, apart)
        precision[:, target.shape[1] :] += pack(more)  # behind the row of the bias
        target[:, 1:] += targets

    def likeliest(self, private: tuple[Matrix, Matrix], rows: Any, prior: Matrix, centers: Matrix) -> float:
        """d: how well do the public people, with the prior, foretell what the private rounds say?

        They have foretold the item effects, or they would not be here: so they are heard until the rounds say otherwise.
        """
        if self.precisions is None:
            return math.inf
        precision, target = unpack(private[0]), private[1]
        inverse = inverse_of(prior)
        found = [self._likelihood(precision, target, rows, inverse, centers, apart) for apart in APART]
        best = 1 + int(np.argmax(found[1:]))
        return math.inf if found[0] > found[best] + CLEAR else APART[best]

    def _likelihood(
        self, precision: Matrix, target: Matrix, rows: Any, inverse: Matrix, centers: Matrix, apart: float
    ) -> float:
        before = np.broadcast_to(inverse, (len(target), *inverse.shape))
        said = centers @ inverse
        if apart < math.inf:
            more = self.said(rows, apart)
            before, said = before + more[0], said + more[1]
        whole, both = precision.copy(), target.copy()
        whole[:, 1:, 1:] += before
        both[:, 1:] += said
        gained = np.einsum("ni,ni->n", both, np.linalg.solve(whole, both[:, :, None])[:, :, 0])
        known = np.einsum("ni,ni->n", said, np.linalg.solve(before, said[:, :, None])[:, :, 0])
        sizes = np.linalg.slogdet(before)[1] - np.linalg.slogdet(whole)[1]
        return float(0.5 * np.sum(gained - known + sizes))

    def centers(self, shares: Matrix, evidence: Callable[[Any], tuple[Matrix, Matrix]], prior: Matrix) -> Matrix:
        """(n_items, rank): the prior means that make the evidence most likely."""
        rows = np.argsort(-shares, kind="stable")[:LARGEST_SAMPLE]
        values, basis = solvable(prior)
        root = basis * np.sqrt(values)  # P = root root^T
        undo = np.linalg.inv(root)
        precision, target = evidence(rows)
        whole = unpack(precision)
        whole[:, 1:, 1:] += undo.T @ undo
        whole += 1e-12 * np.trace(whole, axis1=1, axis2=2)[:, None, None] * np.eye(whole.shape[1])  # whatever was posted
        covariance = np.linalg.inv(whole)
        score = np.einsum("nij,nj->ni", covariance, target)[:, 1:] @ undo.T
        information = np.eye(len(prior)) - undo @ covariance[:, 1:, 1:] @ undo.T
        found = np.zeros((len(shares), len(prior)))
        for source in self.features:
            more = source @ _slopes(source[rows], score, information)
            score -= np.einsum("nij,nj->ni", information, more[rows])
            found += more
        return found @ root.T


def solvable(prior: Matrix) -> tuple[Matrix, Matrix]:
    """Eigenvalues of a covariance, none too small to divide by whatever was posted, and eigenvectors."""
    values, vectors = np.linalg.eigh(prior)
    return np.maximum(values, max(1e-9 * values[-1], 1e-15)), vectors


def inverse_of(prior: Matrix) -> Matrix:
    values, vectors = solvable(prior)
    return (vectors / values) @ vectors.T


def _slopes(features: Matrix, score: Matrix, information: Matrix) -> Matrix:
    """(k, rank), in units of P: ridge regression of all directions together, l by the largest likelihood."""
    (n, k), rank = features.shape, score.shape[1]
    squares = (features[:, :, None] * features[:, None, :]).reshape(n, k * k)
    normal = (squares.T @ information.reshape(n, rank * rank)).reshape(k, k, rank, rank).transpose(0, 2, 1, 3)
    sizes, vectors = np.linalg.eigh(normal.reshape(k * rank, k * rank))
    target = vectors.T @ (features.T @ score).reshape(-1)
    ridged = np.maximum(sizes, 0.0) + 1.0 / SCALES[:, None]
    likelihood = (0.5 * target**2 / ridged - 0.5 * np.log(ridged * SCALES[:, None])).sum(axis=1)
    best = int(np.argmax(likelihood))
    if likelihood[best] < likelihood[0] + CLEAR:
        best = 0
    return (vectors @ (target / ridged[best])).reshape(k, rank)
