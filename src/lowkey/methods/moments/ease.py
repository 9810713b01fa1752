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


def passed_through(values: Matrix, clean: Matrix) -> float:
    """Of z z^T added to a matrix with these eigenvalues, how much is left once they are cleaned; z in no special direction.

    In the basis of eigenvectors a function of the matrix moves by (f_i - f_j)/(y_i - y_j) of each entry of its change
    (Daleckii and Krein 1965); z z^T has them all alike, so it is the mean of that. Noise drowns most of what one row adds.
    """
    total, n = 0.0, len(values)
    for low in range(0, n, CHUNK):
        part = slice(low, low + CHUNK)
        apart = values[part, None] - values
        total += float(np.sum(np.divide(clean[part, None] - clean, apart, where=apart != 0.0, out=np.zeros_like(apart))))
    return min(max(total / max(n * (n - 1), 1), 0.0), 1.0)


def clean_gram(gram: Matrix, std: float, rounds: int = 4) -> CleanGram:
    """gram = low-rank part + diagonal + noise. The diagonal (an item with itself) would pass for signal, so it is taken
    out and filled in from the low-rank part, in turns."""
    own = np.maximum(np.diag(gram), 0.0)
    hollow = gram.copy()
    np.fill_diagonal(hollow, 0.0)
    values, vectors, passed = np.zeros(0), np.zeros((len(gram), 0)), 1.0
    filled = np.zeros(len(gram))
    for _ in range(rounds):
        np.fill_diagonal(hollow, filled)
        seen, basis = eigh(hollow)
        clean = cleaned_values(seen, std)
        keep = clean > 0.0
        values, vectors = clean[keep][::-1], basis[:, keep][:, ::-1]
        filled = np.minimum((vectors**2) @ values, 0.9 * own)
        passed = passed_through(seen, np.maximum(clean, 0.0))
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
