"""Local room: which arrays and numbers each rule works with, so that a stranger's are looked at before they are used.

A rule indexes its arrays in compiled code, which trusts every length. So names, lengths and kinds are fixed here, by the
rule and the catalogue alone; a letter that stands in several places of a rule has one value. Numbers are finite and below
``LARGEST``, far above what any fit leaves and far below where scores overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ITEMS = "items"
LARGEST = 1e15
MOST_COLUMNS = 1 << 12  # of factors, or the catalogue where that is larger

Shape = tuple[str, ...]
Names = Mapping[str, Shape]
Test = Callable[[Any], bool]

_FACTORS: Names = {"item_factors": (ITEMS, "rank")}
_BIASES: Names = {"item_bias": (ITEMS,)}
_WEIGHTS: Names = {
    "head": ("head",),
    "input_weights": ("head",),
    "item_weights": ("head", "head"),
    "output_weights": ("head",),
}
_TAKEN: Names = {"taken": ("rank", "rank"), "taken_middle": ("rank",)}  # where what was taken tells a taste
_RANKED: Names = {"ranking": (ITEMS,)}  # where ratings are ranked with popularity in mind
POSITIONS = ("head",)  # whole numbers, each a position in the catalogue; all other arrays are floats


def _ranked(*kinds: Names) -> tuple[Names, ...]:
    return (*kinds, *({**names, **_RANKED} for names in kinds))


# For each rule the sets of arrays that it can have: one, but for two kinds of replay; ratings may have a ranking, too.
ARRAYS: Mapping[str, tuple[Names, ...]] = {
    "factors": _ranked({**_FACTORS, **_BIASES}, {**_FACTORS, **_BIASES, **_TAKEN}),
    "item-weights": ({**_WEIGHTS, "tail_scores": (ITEMS,)},),
    "lists": ({**_WEIGHTS, "usual": ("head", "rungs"), "popularity": (ITEMS,)},),
    "signs": (_FACTORS,),
    "replay": _ranked({**_FACTORS, "ridge": ("rank",)}, {**_FACTORS, "gains": ("rank",), "decays": ("rank",)}),
    "projection": _ranked(_FACTORS),
}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST  # also false for nan


def _not_negative(value: Any) -> bool:
    return _number(value) and value >= 0.0


def _range(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_number, value)) and value[0] < value[1]


def _or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


_LINEAR: Mapping[str, Test] = {"center": _number, "offset_reg": _or_none(_not_negative), "rating_range": _or_none(_range)}
SETTINGS: Mapping[str, Mapping[str, Test]] = {
    "factors": {**_LINEAR, "reg": _not_negative},
    "item-weights": {},
    "lists": {"liked": _or_none(_number)},
    "signs": {"reg": _not_negative, "threshold": _number, "link": lambda name: name in ("logistic", "probit")},
    "replay": {**_LINEAR, "row_norm": _not_negative},
    "projection": {**_LINEAR, "scaling": _or_none(_not_negative)},
}
OPTIONAL: Mapping[str, Test] = {
    "unobserved_weight": _or_none(_not_negative),
    "rating_range": _or_none(_range),
    "ranking_scale": _not_negative,
}


def wrong_shapes(rule: str, shapes: Mapping[str, Any], n_items: int) -> str | None:
    """What is wrong with the names or lengths of a rule's arrays; None if nothing is."""
    expected = next((names for names in ARRAYS[rule] if set(names) == set(shapes)), None)
    if expected is None:
        return f"other arrays than the rule {rule!r} works with"
    lengths = {ITEMS: n_items}
    for name, letters in expected.items():
        shape = shapes[name]
        if len(shape) != len(letters) or any(type(length) is not int or length < 0 for length in shape):
            return f"{name!r} that is no array of {len(letters)} dimensions"
        for letter, length in zip(letters, shape, strict=True):
            if length != lengths.setdefault(letter, length):
                return f"{name!r} of {length} {letter}, where {lengths[letter]} belong"
    if lengths.get("rungs", 1) < 1:
        return "nothing that is usual"
    if lengths.get("head", 0) > n_items or lengths.get("rank", 0) > max(n_items, MOST_COLUMNS):
        return "more columns than a model of this catalogue has"
    return None


def wrong_values(arrays: Mapping[str, NDArray[Any]], n_items: int) -> str | None:
    """What is wrong with the numbers in arrays of the right shapes; None if nothing is."""
    for name, array in arrays.items():
        if array.dtype.kind != ("i" if name in POSITIONS else "f"):
            return f"{name!r} of another kind of numbers"
        if name in POSITIONS:
            if array.size and not 0 <= array.min() <= array.max() < n_items:
                return f"{name!r} with positions outside the catalogue"
            if len(np.unique(array)) < len(array):
                return f"{name!r} with a position twice"
        elif array.size and not max(-array.min(), array.max()) <= LARGEST:  # also false for nan
            return f"{name!r} with numbers that are not finite, or above {LARGEST:g}"
    return None


def wrong_settings(rule: str, settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the numbers that a rule reads beside its arrays; None if nothing is."""
    for name, test in SETTINGS[rule].items():
        if name not in settings or not test(settings[name]):
            return f"a setting {name!r} that is missing or that the rule {rule!r} can't use"
    for name, test in OPTIONAL.items():
        if name in settings and not test(settings[name]):
            return f"a setting {name!r} that the rule {rule!r} can't use"
    return None
