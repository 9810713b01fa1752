"""Local room: a release's arrays in few bytes, for the devices that will use them, and back.

Matrices are stored as float16 with one factor for all, or as int8 with a factor per row; vectors stay float32. Item-item
weights that would be too large become two thin matrices. `expand` gives what `web/lowkey.js` computes with.
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
FILL_ROUNDS = 4
SCALE = ".scale"

Arrays = Mapping[str, NDArray[Any]]


def compact(arrays: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """The arrays, smaller. What is lost is measured by whoever calls this."""
    if precision not in BYTES:
        refuse("--precision", got=repr(precision), needed=" or ".join(BYTES), try_="--precision float16")
    stored: dict[str, NDArray[Any]] = {}
    for name, array in thin_if_large(arrays, precision).items():
        if array.dtype.kind == "i":
            stored[name] = array.astype(np.int32)
        elif array.ndim < 2 or precision == "float32":
            stored[name] = array.astype(np.float32)
        else:
            stored |= _with_scale(name, array, precision)
    return stored


def expand(stored: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays for `serving.rules` from compact ones: factors are multiplied in, thin weights are one matrix again."""
    arrays = {name: array for name, array in stored.items() if not name.endswith(SCALE)}
    for name in arrays:
        if name + SCALE in stored:
            arrays[name] = arrays[name].astype(np.float32) * stored[name + SCALE][:, None]
    if "left" in arrays:
        left, right = arrays.pop("left").astype(np.float64), arrays.pop("right").astype(np.float64)
        weights = left @ right.T
        np.fill_diagonal(weights, 0.0)
        ones = np.ones(len(weights))
        arrays |= {"item_weights": weights, "input_weights": ones, "output_weights": ones}
    return arrays


def thin_if_large(arrays: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """Item-item weights over the limit as ``left`` and ``right``, with input and output weights in them."""
    whole = arrays.get("item_weights")
    if whole is None or whole.size * BYTES[precision] <= MOST_WEIGHT_BYTES:
        return dict(arrays)
    rank = max(1, MOST_WEIGHT_BYTES // (2 * len(whole) * BYTES[precision]))
    left, right = thin_weights(arrays, rank)
    return {"head": arrays["head"], "tail_scores": arrays["tail_scores"], "left": left, "right": right}


def thin_weights(arrays: Arrays, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """left, right (head, rank): left @ right.T is input * weights * output, off the diagonal, as near as the rank allows.

    An item has no weight on itself. That diagonal of zeros is far from low rank, so it is filled in from the fit, in
    turns, and whoever multiplies leaves it out.
    """
    weights = arrays["input_weights"][:, None] * arrays["item_weights"] * arrays["output_weights"]
    left = right = np.zeros((len(weights), 0))
    for _ in range(FILL_ROUNDS):
        np.fill_diagonal(weights, (left * right).sum(axis=1))
        rows, sizes, columns = randomized_svd(weights, min(rank, len(weights)), n_iter=4, random_state=0)
        left, right = rows * np.sqrt(sizes), columns.T * np.sqrt(sizes)
    return left, right


def _with_scale(name: str, array: NDArray[Any], precision: str) -> dict[str, NDArray[Any]]:
    largest = (
        np.abs(array).max(axis=1, initial=0.0) if precision == "int8" else np.abs(array).max(initial=0.0, keepdims=True)[0]
    )
    steps = np.where(largest > 0.0, largest, 1.0).reshape(-1) / (127.0 if precision == "int8" else 1.0)
    scale = steps.astype(np.float32)
    scaled = array / scale[:, None].astype(np.float64)
    whole = np.clip(np.rint(scaled), -127, 127).astype(np.int8) if precision == "int8" else scaled.astype(np.float16)
    return {name: whole, name + SCALE: scale}
