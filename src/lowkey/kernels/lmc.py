"""Kernel room: the users' half of DPLMC: each moves the own row down the gradient and adds to the items' gradient.

| letter | meaning | our word |
|---|---|---|
| u | the user's own row, projected to norm alpha_1 | user_norm; kept by the user between rounds |
| v_j | item j's row | item_factors |
| e_j | u . v_j less the user's target at item j: rating - center - item bias - own offset | residual |
| w_j | public weight of item j, 1 in the paper | item_weights |
| G | bound on the norm of the row (w_j e_j)_j | residual_norm |
| R | U^T U / n_users - V^T V / n_items, what is out of balance | imbalance |

Paper: DPLMC (Wang, Zhao and Kolar 2023), Algorithm 1 lines 3-9 and 13-17. Deviates: the start is projected too
(without that, the first round has no bound); rows are centred and may be weighted; the unit of length is such that
user and item rows are alike in size, where the paper balances U^T U with V^T V, so all sums become averages.
"""
# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from lowkey.data.ratings import Block
from lowkey.kernels.bounding import drop_beyond, fits, shrink_factor
from lowkey.kernels.spectral_start import own_offset
from lowkey.kernels.sweep import Local, Sums, Sweep
from lowkey.linalg.packed import pack
from lowkey.privacy.sums import Grid, Sensitivity, Statistic, symmetric_shape

BITS = 18  # of a coordinate; products have 36, so that float64 sums over 2^17 users are exact
PEAK = 1 << (2 * BITS)
SLICE = 64  # users dealt to a thread at a time
Rows = tuple[Any, Any, Any, Any, Any]  # offsets, items, values, what is expected of each item, item weights


class RowStart(NamedTuple):
    """Where users' rows begin: a public map of their own rows, or, without one, a draw of this size by their own key."""

    user_map: NDArray[np.float64] | None
    std: float = 0.0
    seed: int = 0


class RowStep(NamedTuple):
    """How users move their rows after a round, Algorithm 1 line 14: all of it was posted."""

    factors: NDArray[np.float64]  # of the round before
    pull: NDArray[np.float64]  # (step/2) R
    size: float
    least_ratings: float  # a row counts as at least so many ratings: the paper's p n_items
    own_counts: bool  # or as its own number, where that is more


@dataclass(frozen=True, eq=False)
class GradientRound(Sweep):
    """The users' Gram matrix, the sum of u u^T, and the items' gradient, the sum of (w_j e_j)_j u^T.

    u is projected to norm a = ``user_norm`` in every round, the first included, and truncated to a grid; the row
    (w_j e_j)_j is clipped to norm G = ``residual_norm`` and truncated; products are exact. Gram: |u u^T|_F = |u|^2 <=
    a^2, and two of them have a non-negative inner product: replace-one sqrt(2) a^2, where the paper books 2 a^2.
    Gradient: |(w e) u^T|_F = |w e| |u| <= G a, replace-one 2 G a: the triangle inequality on two matrices of rank one.
    (The paper's chain bounds the same difference by 4 G a and then books 2 sqrt(2) G a.)
    """

    prior: NDArray[np.float64]  # what is expected of each item
    item_weights: NDArray[np.float64]
    item_factors: NDArray[np.float64]
    move: RowStart | RowStep  # the first round starts, later ones step
    user_norm: float
    residual_norm: float
    offset_reg: float  # infinite: no offset of the user's own

    keeps_state = True

    @property
    def grids(self) -> tuple[Grid, Grid]:
        return Grid.for_bound(self.user_norm, BITS), Grid.for_bound(self.residual_norm, BITS)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        n_items, rank = self.item_factors.shape
        of_users, of_rows = self.grids
        gram = Sensitivity.of_acute_vectors(self.user_norm**2)
        gradient = Sensitivity.of_vectors(self.user_norm * self.residual_norm)
        products = Grid(of_users.exponent + of_rows.exponent)
        return (
            Statistic("user_gram", symmetric_shape(rank), of_users.squared, gram, PEAK, "symmetric"),
            Statistic("item_gradient", (n_items, rank), products, gradient, PEAK),
        )

    def run(self, block: Block, local: Local, sums: Sums) -> Local:
        prior = np.ascontiguousarray(self.prior, np.float64)
        weights = np.ascontiguousarray(self.item_weights, np.float64)
        rows = (block.offsets, block.items, block.values, prior, weights)
        if isinstance(self.move, RowStart):
            own = self._start(self.move, rows, block.keys)
        else:
            own = local.copy()
            _step(*rows, *self.move, own)
        _project(own, self.user_norm)
        threads, factors = get_num_threads(), np.ascontiguousarray(self.item_factors, np.float64)
        gradients = np.zeros((threads, *factors.shape))
        of_users, of_rows = self.grids
        units = _whole_rows(own, self.user_norm, of_users.step)
        _add_gradients(*rows, own, units, factors, self.residual_norm, of_rows.step, gradients)
        sums["item_gradient"] += gradients.sum(axis=0).astype(np.int64)
        sums["user_gram"] += pack(units.T @ units).astype(np.int64)
        return own

    def _start(self, start: RowStart, rows: Rows, keys: NDArray[np.uint64]) -> NDArray[np.float64]:
        """(n_users, 1 + rank): the own offset, then the row."""
        own = np.zeros((len(keys), 1 + self.item_factors.shape[1]))
        if start.user_map is not None:
            _map_rows(*rows, self.offset_reg, np.ascontiguousarray(start.user_map, np.float64), own)
        else:
            _draw_rows(*rows, self.offset_reg, keys, np.uint64(start.seed), start.std, own)
        return own


@njit(cache=True, error_model="numpy", parallel=True)
def _map_rows(offsets, items, values, prior, weights, offset_reg, user_map, own):
    """Algorithm 2 line 10: the user's zero-filled row times a public matrix."""
    for u in prange(len(offsets) - 1):
        lo, hi = offsets[u], offsets[u + 1]
        own[u, 0] = own_offset(items, values, prior, lo, hi, offset_reg)
        for p in range(lo, hi):
            y = weights[items[p]] * (values[p] - prior[items[p]] - own[u, 0])
            for k in range(user_map.shape[1]):
                own[u, 1 + k] += y * user_map[items[p], k]


@njit(cache=True, error_model="numpy", parallel=True)
def _draw_rows(offsets, items, values, prior, weights, offset_reg, keys, seed, std, own):
    """Gaussian rows from a stream that the user's key opens: the same for this user whoever else is there."""
    for u in prange(len(offsets) - 1):
        own[u, 0] = own_offset(items, values, prior, offsets[u], offsets[u + 1], offset_reg)
        state = _scrambled(keys[u] + _scrambled(seed + np.uint64(1)))
        for k in range(own.shape[1] - 1):
            state += np.uint64(0x9E3779B97F4A7C15)
            first = (np.float64(_scrambled(state) >> np.uint64(11)) + 0.5) * 2.0**-53
            state += np.uint64(0x9E3779B97F4A7C15)
            second = (np.float64(_scrambled(state) >> np.uint64(11)) + 0.5) * 2.0**-53
            own[u, 1 + k] = std * math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@njit(cache=True, error_model="numpy", inline="always")
def _scrambled(z):
    """The finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, error_model="numpy", parallel=True)
def _step(offsets, items, values, prior, weights, factors, pull, user_step, least, own_counts, own):
    """Line 14: u <- u - step/(number of ratings) sum of w_j e_j v_j - pull u; the pull is (step/2) R.

    The number of ratings is the public ``least`` (the paper's p n_items), or the user's own (weighted) where that is more.
    """
    rank = factors.shape[1]
    for u in prange(len(offsets) - 1):
        row, move = own[u, 1:], np.zeros(rank)
        count = 0.0
        for p in range(offsets[u], offsets[u + 1]):
            j = items[p]
            e = prior[j] + own[u, 0] - values[p]
            for k in range(rank):
                e += row[k] * factors[j, k]
            e *= weights[j]
            count += weights[j]
            for k in range(rank):
                move[k] += e * factors[j, k]
        scale = user_step / (max(count, least) if own_counts else least)
        for k in range(rank):
            move[k] *= scale
            for other in range(rank):
                move[k] += pull[k, other] * row[other]
        for k in range(rank):
            row[k] -= move[k]


@njit(cache=True, error_model="numpy", parallel=True)
def _project(own, bound):
    """Line 15: every row onto the ball, a hair inside; one that is not a number becomes zero."""
    for u in prange(len(own)):
        squared = 0.0
        for k in range(1, own.shape[1]):
            squared += own[u, k] * own[u, k]
        shrink = shrink_factor(squared, bound) if squared < math.inf else 0.0
        for k in range(1, own.shape[1]):
            own[u, k] = own[u, k] * shrink if shrink > 0.0 else 0.0


@njit(cache=True, error_model="numpy", parallel=True)
def _whole_rows(own, bound, step):
    """The users' rows in grid units, towards zero."""
    units = np.empty((len(own), own.shape[1] - 1))
    for u in prange(len(own)):
        for k in range(units.shape[1]):
            units[u, k] = np.trunc(own[u, 1 + k] / step)
        drop_beyond(units[u], bound, step)
    return units


@njit(cache=True, error_model="numpy", parallel=True)
def _add_gradients(offsets, items, values, prior, weights, own, units, factors, bound, step, gradients):
    """Lines 7 and 9: clip the row of residuals, truncate it, multiply; whole numbers below 2^53 in float64."""
    threads, _, rank = gradients.shape
    n_users = len(offsets) - 1
    for thread in prange(threads):
        total = gradients[thread]
        e = np.empty(factors.shape[0])
        for part in range(thread, (n_users + SLICE - 1) // SLICE, threads):
            for u in range(part * SLICE, min(n_users, (part + 1) * SLICE)):
                lo = offsets[u]
                row, x = own[u, 1:], units[u]
                squared = 0.0
                for p in range(lo, offsets[u + 1]):
                    j = items[p]
                    residual = prior[j] + own[u, 0] - values[p]
                    for k in range(rank):
                        residual += row[k] * factors[j, k]
                    residual *= weights[j]
                    e[p - lo] = residual
                    squared += residual * residual
                if not squared < math.inf:  # infinite or no number: this user contributes nothing
                    continue
                scale = shrink_factor(squared, bound) / step
                squared = 0.0
                for q in range(offsets[u + 1] - lo):
                    e[q] = np.trunc(scale * e[q])
                    squared += e[q] * e[q]
                if fits(squared, bound, step):
                    for p in range(lo, offsets[u + 1]):
                        t, to = e[p - lo], total[items[p]]
                        for k in range(rank):
                            to[k] += t * x[k]
