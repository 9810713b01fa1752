"""Public room: EASE on a noisy Gram matrix of unit rows, with the noise cleaned out of its spectrum first.

Paper: Steck 2019 (EASE); Ledoit and Peche 2011, Bun, Bouchaud and Potters 2016 (rotation-invariant cleaning).
Deviates: the ridge comes from the matrix itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, inv

Matrix = NDArray[np.float64]
CHUNK = 256  # eigenvalues at a time: bounds the memory of all pairwise differences


@dataclass(frozen=True)
class CleanGram:
    """values (k,) and vectors (n, k) of the cleaned low-rank part; ``own`` is what an item shares with itself alone.

    ``passed`` is how much of a small change of the matrix, such as one row's, comes through the cleaning.
    """

    values: Matrix
    vectors: Matrix
    own: float
    passed: float


def cleaned_values(values: Matrix, std: float) -> Matrix:
    """The best rotation-invariant estimate of the eigenvalues under symmetric noise of standard deviation ``std``.

    y -> y - 2 std^2 n Re m(y), m the Stieltjes transform of the spectrum seen, smoothed by 2 std. There is no edge to
    choose; for a lone spike it gives the usual sqrt(y^2 - 4 std^2 n).
    """
    n = len(values)
    smooth = 4.0 * std**2
    transform = np.empty(n)
    for low in range(0, n, CHUNK):
        d = values[low : low + CHUNK, None] - values
        transform[low : low + CHUNK] = (d / (d * d + max(smooth, 1e-300))).mean(1)
    return values - 2.0 * std**2 * n * transform


def passed_through(values: Matrix, clean: Matrix, energies: Matrix) -> float:
    """Of z z^T added to a matrix with these eigenvalues, how much is left once they are cleaned.

    In the basis of eigenvectors a function of the matrix moves by (f_i - f_j)/(y_i - y_j) of each entry of its change
    (Daleckii and Krein 1965). If z lies in no special direction all entries of z z^T are alike, and it is the mean of
    that. If z lies as people do, of whom the leading directions are made, entries are as ``energies``, what people have
    in each direction. The truth is between: half way, on crowds without tastes, of whom nothing must seem foretold.
    """
    totals, weights, n = np.zeros(2), np.full(2, 1e-300), len(values)
    for low in range(0, n, CHUNK):
        part = slice(low, low + CHUNK)
        apart = values[part, None] - values
        moved = np.divide(clean[part, None] - clean, apart, where=apart != 0.0, out=np.zeros_like(apart))
        for k, size in enumerate((np.ones(n), energies)):
            entries = np.outer(size[part], size) * (np.arange(n)[part, None] != np.arange(n))
            totals[k] += float(np.sum(entries * moved))
            weights[k] += float(np.sum(entries))
    return min(max(float(np.mean(totals / weights)), 0.0), 1.0)


def clean_gram(gram: Matrix, std: float, rounds: int = 4) -> CleanGram:
    """gram = low-rank part + diagonal + noise. The diagonal (an item with itself) would pass for signal, so it is taken
    out and filled in from the low-rank part, in turns."""
    own = np.maximum(np.diag(gram), 0.0)
    hollow = gram.copy()
    np.fill_diagonal(hollow, 0.0)
    values, vectors = np.zeros(0), np.zeros((len(gram), 0))
    filled, seen, clean, basis = np.zeros(len(gram)), np.zeros(0), np.zeros(0), np.zeros((len(gram), 0))
    for _ in range(rounds):
        np.fill_diagonal(hollow, filled)
        seen, basis = eigh(hollow)
        clean = cleaned_values(seen, std)
        keep = clean > 0.0
        values, vectors = clean[keep][::-1], basis[:, keep][:, ::-1]
        filled = np.minimum((vectors**2) @ values, 0.9 * own)
    energies = np.maximum(clean, 0.0) + (own - filled) @ basis**2
    passed = passed_through(seen, np.maximum(clean, 0.0), energies)
    own_mean = float(np.mean(np.diag(gram) - (vectors**2) @ values))
    # A user adds a matrix of norm 1, so chance alone gives an entry the variance trace/n^2: its spectrum ends at this.
    chance = 2.0 * math.sqrt(max(float(np.trace(gram)), 0.0) / len(gram))
    return CleanGram(values, vectors, max(own_mean, chance, std), passed)


def ease_weights(clean: CleanGram, ridge: float) -> Matrix:
    """Item-item weights B with a zero diagonal: EASE on the cleaned Gram plus ``ridge`` times ``own`` on the diagonal."""
    gram = (clean.vectors * clean.values) @ clean.vectors.T
    gram[np.diag_indices_from(gram)] += ridge * clean.own
    inverse = inv(gram, overwrite_a=True)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights
