"""Public room: noisy Gram matrices of many items, each drawn towards the shape that they share.

A posted matrix is X_j = t_j M + D_j + N_j: M (trace 1) is the second moment of users as such, t_j the item's size, D_j
what is peculiar to those who rated it, of size E|D_j|^2 = h t_j^2 (Frobenius), and N_j symmetric noise: variance std^2 off
the diagonal and twice that on it. In an orthonormal basis of the L = rank (rank + 1)/2 dimensions every coordinate of N_j
has variance 2 std^2, so E|N_j|^2 = 2 L std^2, and the best linear guess is t_j M + s_j D_j with
s_j = h t_j^2/(h t_j^2 + 2 L std^2). M, t_j and h are read off the posts themselves; where the noise is small s_j is 1.
Paper: ours; Stein shrinkage with an empirical prior (Ledoit and Wolf 2004 for one matrix).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.linalg.packed import diagonal_entries, packed_order, squared_norms

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
