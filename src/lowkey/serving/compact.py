"""Local room: a release's arrays in few bytes, for the devices that will use them, and back.

Matrices are stored as float16 with a factor per column, or as int8 with a factor per column and per row and, where asked
for, planes of further bits: one bit of every number each, which halves the step. Vectors stay float32. Item-item weights
become one half of themselves where they are a symmetric matrix with a factor per row and column, or two thin matrices
where they would be too large. `expand` gives what `web/lowkey.js` computes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from lowkey.errors import refuse

BYTES = {"float32": 4, "float16": 2, "int8": 1}
MOST_PLANES = 8
MOST_WEIGHT_BYTES = 1_200_000  # of item-item weights: the page holds them twice, once as text, and all of it is below 5 MB
MOST_EXACT_BYTES = 16_000_000  # of the same in float32, for whoever wants the numbers as they are, whatever they weigh
NEGLIGIBLE = {"float32": 1e-12, "float16": 1e-7, "int8": 1e-5}  # of the sum of squares
FILL_RANKS = (32, 32, 32, 32)
STEPS_TRIED = 64
FINEST = 2.0**-14  # the smallest number that has all of float16's bits
SMALL = ("usual", "taken")  # matrices of so few columns that they stay as they are, as vectors do
ROWS, COLUMNS, FINE = ".rows", ".columns", ".fine"

Arrays = Mapping[str, NDArray[Any]]


def compact(arrays: Arrays, precision: str, planes: int = 0) -> dict[str, NDArray[Any]]:
    """The arrays, smaller; int8 has so many ``planes`` of further bits. What is lost is measured by whoever calls this."""
    if precision not in BYTES:
        refuse("--precision", got=repr(precision), needed=" or ".join(BYTES), try_="--precision float16")
    weights = arrays.get("item_weights")
    most = MOST_EXACT_BYTES if precision == "float32" else MOST_WEIGHT_BYTES
    if weights is not None and weights.size * BYTES[precision] > most:
        return {**_vectors(arrays), **_small_weights(arrays, precision, planes if precision == "int8" else MOST_PLANES)}
    if weights is not None and precision == "int8" and (half := _half(arrays, planes)):
        return {**_vectors(arrays), **half}
    matrices = {name: array for name, array in arrays.items() if array.ndim > 1 and name not in SMALL}
    return {
        **_vectors(arrays),
        **{k: v for name, array in matrices.items() for k, v in _short(name, array, precision, planes).items()},
    }


def _vectors(arrays: Arrays) -> dict[str, NDArray[Any]]:
    flat = {name: array for name, array in arrays.items() if array.ndim < 2 or name in SMALL}
    return {name: array.astype(np.int32 if array.dtype.kind == "i" else np.float32) for name, array in flat.items()}


def expand(stored: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays for `serving.rules` from compact ones: factors are multiplied in, thin weights are one matrix again."""
    arrays = {name: array for name, array in stored.items() if not name.endswith((ROWS, COLUMNS, FINE))}
    for name in arrays:
        if name + FINE in stored:
            arrays[name] = _joined(arrays[name], stored[name + FINE])
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


def _small_weights(arrays: Arrays, precision: str, planes: int) -> dict[str, NDArray[Any]]:
    """Item-item weights within the limit: in bytes, or as ``left`` and ``right``, whichever errs least."""
    exact = weighted(arrays)
    size = len(exact)
    tried = []
    if (fit := _planes_that_fit(exact.size, planes)) >= 0:
        tried.append(_short("item_weights", np.asarray(arrays["item_weights"]), "int8", fit))
    if (fit := _planes_that_fit(size * (size - 1) // 2, planes)) >= 0 and (half := _half(arrays, fit)):
        tried.append(half)
    each = {kind: 1.0 + planes / 8.0 if kind == "int8" else BYTES[kind] for kind in {precision, "int8"}}
    ranks = {kind: max(1, int(MOST_WEIGHT_BYTES / (2 * size * bytes_))) for kind, bytes_ in each.items()}
    left, right = thin_weights(arrays, max(ranks.values()))
    masses = np.square(np.square(left).sum(axis=0))
    for kind, rank in ranks.items():
        # What lies below the rounding of the rest is left out: its columns would only make that coarser.
        least = NEGLIGIBLE[kind] * masses.sum() / (4.0**planes if kind == "int8" else 1.0)
        kept = min(rank, int(np.sum(np.cumsum(masses[::-1])[::-1] > least)))
        thin = {"left": left[:, :kept], "right": right[:, :kept]}
        tried.append({k: v for name, part in thin.items() for k, v in _short(name, part, kind, planes).items()})
    return min(tried, key=lambda stored: float(np.linalg.norm(weighted(expand({**arrays, **stored})) - exact)))


def _planes_that_fit(numbers: int, most: int) -> int:
    """How many planes so many bytes may have within the limit; below zero if not even the bytes fit."""
    return min(most, int(np.floor(8.0 * (MOST_WEIGHT_BYTES / max(numbers, 1) - 1.0))))


def _half(arrays: Arrays, planes: int) -> dict[str, NDArray[Any]]:
    """One half of the weights in bytes and planes, if they are a symmetric matrix with its columns divided by ``sides``.

    EASE's are: W_ij = -P_ij/P_jj with P symmetric. Each row and column gets a factor that brings its largest weight to
    1; these factors, and the division, go into the input and output weights.
    """
    weights = np.asarray(arrays["item_weights"])
    pivot = int(np.argmax(np.abs(weights).sum(axis=1)))
    sides = np.abs(weights[:, pivot]) / np.maximum(np.abs(weights[pivot]), np.finfo(np.float64).tiny)
    sides[(sides == 0.0) | (np.arange(len(sides)) == pivot)] = 1.0
    symmetric = weights * sides
    if not np.abs(symmetric - symmetric.T).max() <= 1e-6 * np.abs(symmetric).max():  # also if not finite
        return {}
    factors = np.ones(len(weights))
    for _ in range(10):
        largest = np.abs(symmetric / np.outer(factors, factors)).max(axis=1)
        factors *= np.sqrt(np.where(largest > 0.0, largest, 1.0))
    even = (symmetric / np.outer(factors, factors))[np.triu_indices(len(weights), 1)]
    parts, steps = 2**planes, np.linspace(0.4, 1.0, 13) / 127.0  # cutting the few largest may pay for all others
    step = min(steps, key=lambda step: float(np.square(_cut(even, step, parts) * (step / parts) - even).sum()))
    inputs, outputs = arrays["input_weights"] * factors, arrays["output_weights"] * factors / sides * step
    half = _split("half", _cut(even, step, parts), planes)
    return {**half, "input_weights": inputs.astype(np.float32), "output_weights": outputs.astype(np.float32)}


def _cut(numbers: NDArray[Any], steps: Any, parts: int) -> NDArray[np.float64]:
    """In whole parts of a step, no more than 127 steps away from zero."""
    return np.clip(np.rint(numbers / (steps / parts)), -127 * parts, 127 * parts)


def _split(name: str, numbers: NDArray[np.float64], planes: int) -> dict[str, NDArray[Any]]:
    """Whole numbers as bytes, the nearest multiples of 2**planes, and the bits of the rest, a plane for each."""
    whole = numbers.astype(np.int32)
    if not planes:
        return {name: whole.astype(np.int8)}
    middle = 1 << (planes - 1)
    rest = (whole + middle) & (2**planes - 1)
    bits = [np.packbits((rest.ravel() >> place & 1).astype(bool)) for place in reversed(range(planes))]
    return {name: ((whole + middle) >> planes).astype(np.int8), name + FINE: np.array(bits)}


def _joined(coarse: NDArray[np.int8], fine: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What `_split` was given, in steps of the bytes."""
    rest = np.zeros(coarse.size, np.float32)
    for bits in fine:
        rest = 2.0 * rest + np.unpackbits(bits, count=coarse.size)
    return (coarse + (rest / 2.0 ** len(fine) - 0.5).reshape(coarse.shape)).astype(np.float32)


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


def _short(name: str, array: NDArray[Any], precision: str, planes: int = 0) -> dict[str, NDArray[Any]]:
    """array = halves * columns, or = whole numbers * columns * rows."""
    if precision == "float32" or not array.size:
        return {name: array.astype(np.float32)}
    sizes = np.sqrt(np.mean(np.square(array), axis=0))
    sizes = np.where(sizes > 0.0, sizes, 1.0)
    if precision == "float16":
        columns = sizes.astype(np.float32)
        return {name: (array / columns.astype(np.float64)).astype(np.float16), name + COLUMNS: columns}
    # Columns of equal size use all bits of the small ones, at the price of the large ones: whichever errs less.
    tried = [_in_bytes(array, (sizes**power).astype(np.float32), planes) for power in (0.0, 0.5, 1.0)]
    whole, columns, rows, _ = min(tried, key=lambda made: made[3])
    return {**_split(name, whole, planes), name + COLUMNS: columns, name + ROWS: rows}


def _in_bytes(
    array: NDArray[Any], columns: NDArray[np.float32], planes: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], float]:
    """Whole numbers of 8 bits and ``planes`` more, the factors of columns and rows, and the sum of squared errors.

    A row's factor is, of many that are a little larger than need be, the one whose rounding errs least: the errors of a
    short row vary a lot from one to the next, so the best of 64 has about half the squared error. It has two bytes, too.
    """
    columns = columns * np.float32(np.abs(array / columns).max(initial=0.0) / 127.0 or 1.0)  # rows have at most 1
    even = array / columns.astype(np.float64)
    finest = np.maximum(np.abs(even).max(axis=1, initial=0.0) / 127.0, FINEST)
    whole, parts = np.zeros(array.shape), 2**planes
    rows, least = finest.astype(np.float16), np.full(len(array), np.inf)
    for factor in np.linspace(0.98, 1.2, STEPS_TRIED):
        steps = (finest * factor).astype(np.float16)
        wide = steps[:, None].astype(np.float64)
        rounded = _cut(even, wide, parts)
        errors = np.square((rounded * (wide / parts) - even) * columns).sum(axis=1)
        better = errors < least
        whole[better], rows[better], least[better] = rounded[better], steps[better], errors[better]
    return whole, columns, rows, float(least.sum())
