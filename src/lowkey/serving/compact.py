"""Local room: a release's arrays in few bytes, for the devices that will use them, and back.

Matrices are stored as float16 with a factor per column, or as int8 with a factor per column and per row; vectors stay
float32. Item-item weights that would be too large become bytes (one half of them), or two thin matrices. `expand` gives
what `web/lowkey.js` computes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from lowkey.errors import refuse

BYTES = {"float32": 4, "float16": 2, "int8": 1}
MOST_WEIGHT_BYTES = 1_200_000  # of item-item weights: the page holds them twice, once as text, and all of it is below 5 MB
NEGLIGIBLE = {"float32": 1e-12, "float16": 1e-7, "int8": 1e-5}  # of the sum of squares
FILL_RANKS = (32, 32, 32, 32)
STEPS_TRIED = 64
ROWS, COLUMNS = ".rows", ".columns"

Arrays = Mapping[str, NDArray[Any]]


def compact(arrays: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """The arrays, smaller. What is lost is measured by whoever calls this."""
    if precision not in BYTES:
        refuse("--precision", got=repr(precision), needed=" or ".join(BYTES), try_="--precision float16")
    weights = arrays.get("item_weights")
    if weights is not None and weights.size * BYTES[precision] > MOST_WEIGHT_BYTES:
        return {**_vectors(arrays), **_small_weights(arrays, precision)}
    matrices = {name: array for name, array in arrays.items() if array.ndim > 1}
    return {
        **_vectors(arrays),
        **{k: v for name, array in matrices.items() for k, v in _short(name, array, precision).items()},
    }


def _vectors(arrays: Arrays) -> dict[str, NDArray[Any]]:
    flat = {name: array for name, array in arrays.items() if array.ndim < 2}
    return {name: array.astype(np.int32 if array.dtype.kind == "i" else np.float32) for name, array in flat.items()}


def expand(stored: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays for `serving.rules` from compact ones: factors are multiplied in, thin weights are one matrix again."""
    arrays = {name: array for name, array in stored.items() if not name.endswith((ROWS, COLUMNS))}
    for name in arrays:
        if name + COLUMNS in stored:
            arrays[name] = arrays[name].astype(np.float32) * stored[name + COLUMNS]
        if name + ROWS in stored:
            arrays[name] = arrays[name] * stored[name + ROWS][:, None]
    if "half" in arrays:
        size = len(arrays["input_weights"])
        upper = np.zeros((size, size))
        upper[np.triu_indices(size, 1)] = arrays.pop("half")
        arrays["item_weights"] = upper + upper.T
    if "left" in arrays:
        left, right = (arrays.pop(name).astype(np.float64) for name in ("left", "right"))
        weights = left @ right.T
        np.fill_diagonal(weights, 0.0)
        ones = np.ones(len(weights))
        arrays |= {"item_weights": weights, "input_weights": ones, "output_weights": ones}
    return arrays


def _small_weights(arrays: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """Item-item weights within the limit: in bytes, or as ``left`` and ``right``, whichever errs least."""
    exact = weighted(arrays)
    size = len(exact)
    ranks = {kind: max(1, MOST_WEIGHT_BYTES // (2 * size * BYTES[kind])) for kind in {precision, "int8"}}
    tried = []
    if exact.size <= MOST_WEIGHT_BYTES:
        tried.append(_short("item_weights", np.asarray(arrays["item_weights"]), "int8"))
    if size * (size - 1) // 2 <= MOST_WEIGHT_BYTES:
        tried += _half(arrays)
    left, right = thin_weights(arrays, max(ranks.values()))
    masses = np.square(np.square(left).sum(axis=0))
    for kind, rank in ranks.items():
        # What lies below the rounding of the rest is left out: its columns would only make that coarser.
        kept = min(rank, int(np.sum(np.cumsum(masses[::-1])[::-1] > NEGLIGIBLE[kind] * masses.sum())))
        tried.append({**_short("left", left[:, :kept], kind), **_short("right", right[:, :kept], kind)})
    return min(tried, key=lambda stored: float(np.linalg.norm(weighted(expand({**arrays, **stored})) - exact)))


def _half(arrays: Arrays) -> list[dict[str, NDArray[Any]]]:
    """One half of the weights in bytes, if they are a symmetric matrix with its columns divided by ``sides``.

    EASE's are: W_ij = -P_ij/P_jj with P symmetric. Each row and column gets a factor that brings its largest weight to
    1; these factors, and the division, go into the input and output weights.
    """
    weights = np.asarray(arrays["item_weights"])
    pivot = int(np.argmax(np.abs(weights).sum(axis=1)))
    sides = np.abs(weights[:, pivot]) / np.maximum(np.abs(weights[pivot]), np.finfo(np.float64).tiny)
    sides[pivot] = 1.0
    symmetric = weights * sides
    if not np.abs(symmetric - symmetric.T).max() <= 1e-6 * np.abs(symmetric).max():  # also if not finite
        return []
    factors = np.ones(len(weights))
    for _ in range(10):
        largest = np.abs(symmetric / np.outer(factors, factors)).max(axis=1)
        factors *= np.sqrt(np.where(largest > 0.0, largest, 1.0))
    even = symmetric / np.outer(factors, factors)
    tried = [_cut(even, most) for most in np.linspace(0.4, 1.0, 13)]  # cutting the few largest may pay for all others
    whole, step, _ = min(tried, key=lambda made: made[2])
    inputs, outputs = arrays["input_weights"] * factors, arrays["output_weights"] * factors / sides * step
    half = whole[np.triu_indices(len(whole), 1)]
    return [{"half": half, "input_weights": inputs.astype(np.float32), "output_weights": outputs.astype(np.float32)}]


def _cut(even: NDArray[np.float64], most: float) -> tuple[NDArray[np.int8], float, float]:
    """In bytes of which 127 is ``most``: the bytes, their step, and the sum of squared errors."""
    whole = np.clip(np.rint(even * (127.0 / most)), -127, 127)
    return whole.astype(np.int8), most / 127.0, float(np.square(whole * (most / 127.0) - even).sum())


def weighted(arrays: Arrays) -> NDArray[np.float64]:
    """What one item of a history adds to the score of another: the weights with input and output weights in them."""
    return arrays["input_weights"][:, None] * arrays["item_weights"] * arrays["output_weights"]


def thin_weights(arrays: Arrays, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """left, right (head, rank): left @ right.T is input * weights * output, off the diagonal, as near as the rank allows.

    An item has no weight on itself. That diagonal of zeros is far from low rank, so it is filled in from a fit, in turns,
    and whoever multiplies leaves it out. The fits have a small rank: a large one would explain the zeros.
    """
    weights = weighted(arrays)
    left = right = np.zeros((len(weights), 0))
    for most in (*FILL_RANKS, rank):
        np.fill_diagonal(weights, (left * right).sum(axis=1))
        rows, sizes, columns = randomized_svd(weights, min(most, rank, len(weights)), random_state=0)
        left, right = rows * np.sqrt(sizes), columns.T * np.sqrt(sizes)
    return left, right


def _short(name: str, array: NDArray[Any], precision: str) -> dict[str, NDArray[Any]]:
    """array = halves * columns, or = whole numbers * columns * rows."""
    if precision == "float32":
        return {name: array.astype(np.float32)}
    sizes = np.sqrt(np.mean(np.square(array), axis=0)) if array.size else np.zeros(array.shape[1])
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    if precision == "float16":
        columns = sizes.astype(np.float32)
        return {name: (array / columns.astype(np.float64)).astype(np.float16), name + COLUMNS: columns}
    # Columns of equal size use all bits of the small ones, at the price of the large ones: whichever errs less.
    tried = [_in_bytes(array, (sizes**power).astype(np.float32)) for power in (0.0, 0.5, 1.0)]
    whole, columns, rows, _ = min(tried, key=lambda made: made[3])
    return {name: whole, name + COLUMNS: columns, name + ROWS: rows}


def _in_bytes(array: NDArray[Any], columns: NDArray[np.float32]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], float]:
    """Whole numbers, the factors of columns and rows, and the sum of squared errors.

    A row's factor is, of many that are a little larger than need be, the one whose rounding errs least: the errors of a
    short row vary a lot from one to the next, so the best of 64 has about half the squared error.
    """
    even = array / columns.astype(np.float64)
    largest = np.abs(even).max(axis=1, initial=0.0)
    finest = np.where(largest > 0.0, largest, 1.0) / 127.0
    whole = np.zeros(array.shape, np.int8)
    rows, least = finest.astype(np.float32), np.full(len(array), np.inf)
    for factor in np.linspace(0.98, 1.2, STEPS_TRIED):
        steps = (finest * factor).astype(np.float32)
        wide = steps[:, None].astype(np.float64)
        rounded = np.clip(np.rint(even / wide), -127, 127)
        errors = np.square((rounded * wide - even) * columns).sum(axis=1)
        better = errors < least
        whole[better], rows[better], least[better] = rounded[better], steps[better], errors[better]
    return whole, columns, rows, float(least.sum())
