"""Kernel room: the items' normal equations, summed item by item in products that are exact in float32 where they can be.

x x^T is a sum of products of whole numbers. In float32 such a sum is exact as long as no partial sum passes 2^24, and by
Cauchy and Schwarz none does if no sum of squares, on the diagonal, does. Those are sums of terms >= 0: once past 2^24 the
rounded sum never comes back below it. So the diagonal of a finished sum says whether all of it is exact. Where it is not,
the sum is made again of fewer users, and where a few are too many already, in float64. To an exact sum more users are
added if a bound on their squares says beforehand that it stays exact. No result depends on which way it was made.
"""

# Bodies compiled by numba are untyped for the checker:
# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import NDArray

from lowkey.kernels.bounding import to_units
from lowkey.kernels.user_factors import AHEAD, CHUNK
from lowkey.linalg.blas import DGEMM, SGEMM, add_gram_float32, add_gram_float64, prefetch_row

EXACT = np.float32(1 << 24)  # float32 holds every whole number up to here
SINGLE_RANK = 32  # from which on float32 is tried
GROUP = 16  # users at a time who stay in the nearest cache, and the fewest who are summed in float32
# A root is lowered by this before it is rounded to float32. That, and its product with a whole number, are each off by a
# factor of at most 1 + 2^-24: what is truncated then is never larger than the exact product.
JUST_BELOW = 1.0 - 2.0**-22


def add_equations(rows, factors, weights, units, gram, rhs):
    """gram_j += the sum of x x^T and rhs_j += that of t x over the users who take item j, all in whole units.

    ``rows`` are offsets, items and targets; ``weights`` roots, root_scale, row_scale, places and cutoff. x = root u and
    t = root row_scale target, root = roots_j root_scale_u <= 1; ``factors`` holds u in its own units, and ``units`` = (of x
    per unit of u, of t per 1). ``gram`` are packed triangles.
    """
    threads = get_num_threads()
    offsets = rows[0]
    cuts = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], threads + 1))  # users, about as many ratings each
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    entries = np.empty((len(rows[1]), 3), np.float32)  # made here: NumPy asks for large pages
    starts = _by_item(entries, cuts, *rows, *weights, *units)
    order, bounds = deal(np.diff(starts), threads)
    largest = np.maximum(factors.max(axis=1), -factors.min(axis=1))
    _add_equations(order, bounds, starts, entries, factors, largest, gram, rhs, SGEMM, DGEMM)


@njit(cache=True, error_model="numpy", parallel=True)
def _by_item(entries, cuts, offsets, items, targets, roots, root_scale, row_scale, places, cutoff, per_factor, per_target):
    """``entries`` becomes what counts, item by item: the user, the root in units of x, and t. Returns where items begin.

    Written as the users come, each thread's next to those of the one before, so that the sums read it in order: looked up
    rating by rating, it would take longer than the products. All three are numbers that float32 holds, side by side.
    """
    n_items, threads = len(roots), len(cuts) - 1
    at = np.zeros((threads, n_items), np.int64)
    for thread in prange(threads):
        for u in range(cuts[thread], cuts[thread + 1]):
            for p in range(offsets[u], offsets[u + 1]):
                at[thread, items[p]] += _counts(roots[items[p]] * root_scale[u], places, p, cutoff[u])
    starts = np.zeros(n_items + 1, np.int64)
    for j in range(n_items):
        end = starts[j]
        for thread in range(threads):
            count = at[thread, j]
            at[thread, j] = end
            end += count
        starts[j + 1] = end
    for thread in prange(threads):
        place = at[thread]
        for u in range(cuts[thread], cuts[thread + 1]):
            for p in range(offsets[u], offsets[u + 1]):
                root = roots[items[p]] * root_scale[u]
                if _counts(root, places, p, cutoff[u]):
                    entry = entries[place[items[p]]]
                    place[items[p]] += 1
                    entry[0], entry[1] = u, np.float32(root * per_factor * JUST_BELOW)
                    entry[2] = _towards_zero(to_units(root * (row_scale[u] * np.float64(targets[p])) * per_target, 1.0))
    return starts


@njit(cache=True, error_model="numpy", inline="always")
def _towards_zero(whole):
    """A whole number in float32, as it is up to 2^24, and beyond a whole number that is smaller in size."""
    return np.float32(whole if abs(whole) <= EXACT else whole * JUST_BELOW)


@njit(cache=True, error_model="numpy", inline="always")
def _counts(root, places, p, cutoff):
    return 0.0 < root <= 1.0 and taken(places, p, cutoff)


def deal(counts: NDArray[np.int64], threads: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Items to threads, longest first, each to the least loaded: the order, and where each thread's share begins."""
    order = np.argsort(-counts, kind="stable").astype(np.int64)
    if threads == 1:
        return order, np.array([0, len(order)])
    cost = counts[order] + 24  # about what an item costs beside its ratings
    hand = _least_loaded(cost, threads)
    dealt = np.argsort(hand, kind="stable")
    return order[dealt], np.searchsorted(hand[dealt], np.arange(threads + 1)).astype(np.int64)


@njit(cache=True, error_model="numpy")
def _least_loaded(cost, threads):
    load, hand = np.zeros(threads, np.int64), np.empty(len(cost), np.int64)
    for q in range(len(cost)):
        hand[q] = load.argmin()
        load[hand[q]] += cost[q]
    return hand


@njit(cache=True, error_model="numpy")
def owners(offsets):
    """Per entry the place of its user."""
    owner = np.empty(offsets[-1], np.int32)
    for u in range(len(offsets) - 1):
        owner[offsets[u] : offsets[u + 1]] = u
    return owner


@njit(cache=True, error_model="numpy", inline="always")
def taken(places, p, cutoff):
    """Whether a rating is among those that count: all of them, or the first ones of the user's own order."""
    return len(places) == 0 or places[p] <= cutoff


@njit(cache=True, error_model="numpy", parallel=True)
def _add_equations(order, bounds, starts, entries, factors, largest, gram, rhs, sgemm, dgemm):
    rank = factors.shape[1]
    for thread in prange(len(bounds) - 1):
        x, wide = np.empty((CHUNK, rank), np.float32), np.empty((CHUNK, rank))
        single, double = np.empty((rank, rank), np.float32), np.empty((rank, rank))
        b, rate = np.empty(rank), 1.0
        for q in range(bounds[thread], bounds[thread + 1]):
            j = order[q]
            own = entries[starts[j] : starts[j + 1]]
            b[:] = 0.0
            if rank < SINGLE_RANK:
                _add_item_float64(own, factors, x, wide, double, b, gram[j], dgemm)
            else:
                rate = _add_item(own, factors, largest, x, wide, single, double, b, rate, gram[j], sgemm, dgemm)
            for k in range(rank):
                rhs[j, k] += np.int64(b[k])


@njit(cache=True, error_model="numpy")
def _add_item_float64(own, factors, x, wide, double, b, triangle, dgemm):
    for first in range(0, len(own), CHUNK):
        m = _take_rows(own, first, factors, x, b)
        wide[:m] = x[:m]
        add_gram_float64(wide, len(b), m, 1.0 if first else 0.0, double, dgemm)
    if len(own):
        _add_triangle(double, triangle)


@njit(cache=True, error_model="numpy")
def _add_item(own, factors, largest, x, wide, single, double, b, rate, triangle, sgemm, dgemm):
    """In float32 as long as it is exact, then onto the triangle and on from zero; again with fewer users where it was not.

    ``rate`` is by how much the largest sum of squares grows with a user: how many are tried follows from it. Returns it.
    """
    held = np.float32(0.0)  # the largest sum of squares in ``single``; 0 if that holds nothing
    for first in range(0, len(own), CHUNK):
        m, done = _take_rows(own, first, factors, x, b), 0
        while done < m:
            k = min(m - done, max(GROUP, int(min(0.8 * EXACT / rate, CHUNK)) // GROUP * GROUP))
            if held > 0.0 and not held + _most(own[first + done : first + done + k], largest) < EXACT:
                _add_triangle(single, triangle)
                held = np.float32(0.0)
            begun = held > 0.0
            add_gram_float32(x[done:], len(b), k, np.float32(begun), single, sgemm)
            held = _largest_square(single)
            if k >= GROUP and not begun:
                rate = max(held / k, 1.0)
            if not held < EXACT:
                held = np.float32(0.0)
                if k > GROUP:
                    continue  # fewer than k, by the new rate
                wide[:k] = x[done : done + k]
                add_gram_float64(wide, len(b), k, 0.0, double, dgemm)
                _add_triangle(double, triangle)
            done += k
    if held > 0.0:
        _add_triangle(single, triangle)
    return rate


@njit(cache=True, error_model="numpy")
def _most(own, largest):
    """At least every sum of squares of these users' x. (Each x was rounded once, to float32, before it was truncated.)"""
    most = 0.0
    for i in range(len(own)):
        x = np.float64(own[i, 1]) * largest[np.int64(own[i, 0])]
        most += x * x
    return most * (1.0 + 2.0**-20)


@njit(cache=True, error_model="numpy")
def _largest_square(single):
    found = np.float32(0.0)
    for k in range(len(single)):
        found = max(found, single[k, k])
    return found


@njit(cache=True, error_model="numpy")
def _take_rows(own, first, factors, x, b):
    """x = the factors of CHUNK users, weighted; b += the sum of t x. Returns how many there were."""
    last = min(first + CHUNK, len(own))
    for at in range(first, last, GROUP):
        m = min(GROUP, last - at)
        for i in range(at, at + m):
            prefetch_row(factors, np.int64(own[min(i + AHEAD, len(own) - 1), 0]))
            _take(factors[np.int64(own[i, 0])], own[i, 1], x[i - first])
        _add_rows(x[at - first : at - first + m], own[at : at + m, 2], b)
    return last - first


@njit(cache=True, error_model="numpy")
def _take(factor, root, x):
    """x = the user's factor times ``root``, towards zero."""
    for k in range(len(factor)):
        x[k] = np.float32(np.int32(root * factor[k]))


@njit(cache=True, error_model="numpy")
def _add_rows(x, t, b):
    """b += the sum of t x over the rows of x, two at a time."""
    for i in range(0, len(x), 2):
        after = min(i + 1, len(x) - 1)
        one, two, t_one, t_two = x[i], x[after], np.float64(t[i]), np.float64(t[after]) * (after - i)
        for k in range(len(b)):
            b[k] += np.float64(one[k]) * t_one + np.float64(two[k]) * t_two


@njit(cache=True, error_model="numpy")
def _add_triangle(c, triangle):
    entry, rank = 0, len(c)
    for a in range(rank):
        row, to = c[a, a:], triangle[entry : entry + rank - a]
        for k in range(len(row)):
            to[k] += np.int64(row[k])
        entry += rank - a
