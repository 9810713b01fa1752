"""Public room: a private spectral start for methods with factors: one noisy Gram matrix, its leading directions.

Paper: DPLMC (Wang, Zhao and Kolar 2023), Algorithm 2. Deviates: see ``balanced_start``.

A method that wants it adds ``start_request`` to its plan and calls ``spectral_start``, or ``start_factors`` if it only
takes the items' side, before its rounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse.linalg
from numpy.typing import NDArray

from lowkey.kernels.moments import RowMoments
from lowkey.kernels.spectral_start import StartGram
from lowkey.linalg.leading import leading_eigenpairs
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.curator import Curator
from lowkey.methods.moments.ease import clean_gram
from lowkey.methods.moments.head import WEIGHT_POWER, most_counted, places
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

Array = NDArray[np.float64]
LARGEST_ROWS = 2048  # items of the Gram matrix for binary feedback: its eigenvectors take the cube of this
LEAST_SHARE = 0.1  # an item that is seen less than this share of the average counts as seen this often
LANCZOS_ITEMS = 1000  # above, a few leading eigenpairs are found without the others


def start_request(n_items: int, share: float) -> Request:
    """A line of the plan: one symmetric matrix of order ``n_items``, for ``share`` of mu^2 if the others' add up to 1."""
    note = "of the rows, for the start"
    return Request("start_gram", packed_length(n_items), share / (1.0 - share), mechanism=SymmetricGaussian, note=note)


def observed_shares(weights: Array, counts: Array | None) -> Array:
    """How often each item is seen, times its weight, in units of the average item; all alike without posted counts."""
    shares = np.ones(len(weights)) if counts is None else counts / counts.mean()
    return np.maximum(weights * shares, LEAST_SHARE)


class Start(NamedTuple):
    """``item_factors`` V (n_items, rank); a user with the weighted row y starts at ``user_map``^T y."""

    item_factors: Array
    user_map: Array


def spectral_start(sweep: StartGram, rank: int, n_users: float, observed: Array, curator: Curator) -> Start:
    """Post the Gram matrix and take it apart, given how many users there are and which share of each item they show."""
    return balanced_start(unpack(curator.ask(sweep)["start_gram"]), rank, n_users, observed)


def start_factors(
    prior: Array,
    weights: Array,
    counts: Array | None,
    row_bound: float,
    offset_reg: float | None,
    rank: int,
    curator: Curator,
) -> Array:
    """The items' side alone, with rows of length 1 in the root mean square: neither p nor the number of users is needed.

    ``row_bound`` bounds the root mean square of a user's weighted residuals. Dropped columns (see ``balanced_start``)
    stay zero.
    """
    sweep = StartGram(prior, weights, row_bound, math.inf if offset_reg is None else offset_reg, per_rating=True)
    factors = spectral_start(sweep, rank, 1.0, observed_shares(weights, counts), curator).item_factors
    return factors / max(float(np.sqrt((factors**2).sum(axis=1).mean())), 1e-300)


def binary_start_request(n_head: int, share: float) -> Request:
    """The line for ``binary_start_factors``: it gets ``share`` of mu^2 if the others' shares add up to 1."""
    line = start_request(min(n_head, LARGEST_ROWS), share)
    return replace(line, name="row_gram", note="of rows of norm 1, for the start")


def binary_start_factors(rank: int, active: NDArray[np.bool_], counts: Array | None, curator: Curator) -> Array:
    """Factors from the Gram matrix of users' rows of norm 1 over the most frequent ``active`` items (``RowMoments``).

    Rows are weighted by posted count^-WEIGHT_POWER, which is taken back from the factors; its noise is cleaned out of the
    spectrum. Columns beyond what is left of it, and items beyond ``LARGEST_ROWS``, are zero. V^T V has mean eigenvalue 1.
    """
    known = np.ones(len(active)) if counts is None else np.maximum(counts, 1.0)
    head = np.flatnonzero(active)
    head = head[most_counted(known[head], LARGEST_ROWS)]
    weights = known[head] ** -WEIGHT_POWER
    posts = curator.ask(RowMoments(places(head, len(active)), weights))
    clean = clean_gram(unpack(posts["row_gram"]), posts.stds["row_gram"])
    kept = min(rank, len(clean.values))
    factors = np.zeros((len(active), rank))
    factors[head, :kept] = clean.vectors[:, :kept] * np.sqrt(clean.values[:kept]) / weights[:, None]
    return factors / max(math.sqrt(float(np.sum(factors**2)) / rank), 1e-300)


def balanced_start(gram: Array, rank: int, n_users: float, observed: Array) -> Start:
    """The leading directions of X, from A = the sum of y y^T over ``n_users`` rows y of which item j shows ``observed_j``.

    With D = diag(observed), M = D^-1 A D^-1 / (n_users n_items) estimates X^T X / (n_users n_items), apart from its
    diagonal, which a missing entry inflates by 1/p and the ratings' own noise raises too. That adds about a multiple of
    the identity: what the eigenvalues beyond the ``rank`` leading ones average is subtracted. Eigenvalues at or below
    zero are dropped: their columns are zero. With M = Q s^2 Q^T, V = sqrt(n_items) Q sqrt(s), so that V^T V / n_items
    = s, and the users' U = Y D^-1 Q / sqrt(n_items s) has U^T U / n_users = s too. The paper takes s in place of sqrt(s)
    (its Sigma^1/2, Sigma being the singular values of A, not of X): the same product, but V holds all of the scale.
    """
    n_items = len(gram)
    inverse = 1.0 / np.maximum(observed, 1e-12)
    scaled = gram * inverse[:, None] * inverse[None, :] / (max(n_users, 1.0) * n_items)
    values, vectors = _leading(scaled, rank)
    rest = (float(np.trace(scaled)) - float(values.sum())) / max(n_items - rank, 1)
    squares = values - max(rest, 0.0)
    kept = squares > 1e-9 * max(float(values[0]), 1e-300)
    s = np.sqrt(np.where(kept, squares, 1.0))
    factors = math.sqrt(n_items) * vectors * np.where(kept, np.sqrt(s), 0.0)
    user_map = inverse[:, None] * vectors * np.where(kept, 1.0 / np.sqrt(n_items * s), 0.0)
    return Start(np.ascontiguousarray(factors), np.ascontiguousarray(user_map))


def _leading(matrix: Array, rank: int) -> tuple[Array, Array]:
    """The ``rank`` largest eigenvalues, falling, and their vectors; the same for the same matrix."""
    if len(matrix) <= max(LANCZOS_ITEMS, 4 * rank):
        return leading_eigenpairs(matrix, rank)
    values, vectors = scipy.sparse.linalg.eigsh(matrix, rank, which="LA", v0=np.ones(len(matrix)))
    order = np.argsort(-values)
    return values[order], vectors[:, order]
