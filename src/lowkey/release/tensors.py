"""Public room: the arrays of a release in safetensors format, looked at before they are believed.

The format is eight bytes with the length of a JSON header, the header, and the bare numbers. Everything in the header is
checked against the file's size and the manifest before a single array is allocated. Arrays are stored as the method left
them (floats or item positions), so that a loaded model predicts the same to the last bit. The posts that a model was made
from are such arrays too, by the number of their reservation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from lowkey.errors import InputError
from lowkey.origin import Origin
from lowkey.release.folder import POSTS, broken
from lowkey.serving.arrays import wrong_settings, wrong_shapes, wrong_values

if TYPE_CHECKING:  # a model writes itself by this module
    from lowkey.model import Model

DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8")}
MAX_HEADER = 1 << 16  # bytes: a release has a handful of arrays


def describe(model: Model) -> dict[str, Any]:
    """What the manifest says of a model's arrays: exactly what whoever loads it will ask for."""
    names, arrays, n_items = {dtype: name for name, dtype in DTYPES.items()}, model.arrays, model.domain.n_items
    found = wrong_shapes(model.rule, {name: array.shape for name, array in arrays.items()}, n_items)
    if found is None and any(array.dtype not in names for array in arrays.values()):
        found = "numbers of an unusual type"
    found = found or wrong_values(arrays, n_items) or wrong_settings(model.rule, model.settings)
    if found is not None:
        raise InputError(
            what=f"this {model.method}, which can't be released",
            got=found,
            needed="the arrays of its rule, with finite numbers",
            try_="a fit whose factors are finite",
        )
    return {name: {"dtype": names[array.dtype], "shape": list(array.shape)} for name, array in arrays.items()}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)


def check_header(path: Path, described: Mapping[str, Any]) -> None:
    """The header says what the manifest says, and the numbers fill the rest of the file exactly."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > MAX_HEADER or length > size - 8:
            broken(f"{path.name} with a header of {length} bytes", f"a safetensors header of at most {MAX_HEADER} bytes")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            found = {
                name: {"dtype": entry["dtype"], "shape": entry["shape"], "at": entry["data_offsets"]}
                for name, entry in header.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            broken(f"{path.name} whose header can't be read", "a safetensors file")
    end = 0
    if any(type(at) is not int for entry in found.values() for at in _pair(entry["at"])):
        broken(f"{path.name} with places that are no numbers", "byte offsets")
    for name, entry in sorted(found.items(), key=lambda item: item[1]["at"]):
        if {"dtype": entry["dtype"], "shape": entry["shape"]} != described.get(name):
            broken(f"{path.name} with an array that the manifest does not describe", "the arrays of the manifest")
        if entry["at"] != [end, end + _bytes(entry)]:
            broken(f"{path.name} with gaps or overlaps", "arrays that fill the file")
        end += _bytes(entry)
    if set(found) != set(described) or end != size - 8 - length:
        broken(f"{path.name} with arrays missing or bytes left over", "exactly the arrays of the manifest")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file that ``check_header`` has passed, read-only. Their numbers are still anybody's."""
    try:
        arrays = safetensors.numpy.load_file(path)
    except SafetensorError:  # a header that one parser of JSON takes and another does not
        broken(f"{path.name} whose header can't be read", "a safetensors file")
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def _pair(places: Any) -> list[Any]:
    return places if isinstance(places, list) and len(places) == 2 else [None]


def _bytes(entry: Mapping[str, Any]) -> int:
    shape, dtype = entry["shape"], entry["dtype"]
    if dtype not in DTYPES or not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**31 for n in shape):
        broken("an array of an unknown kind", " or ".join(DTYPES) + " and a plain shape")
    return math.prod(shape) * DTYPES[dtype].itemsize


def describe_origin(origin: Origin) -> dict[str, Any]:
    """What the manifest says of it."""
    posts = {str(seq): {"dtype": "F64", "shape": list(post.shape)} for seq, post in origin.posts.items()}
    return {"parameters": dict(origin.parameters), "posts": posts}


def write_posts(folder: Path, origin: Origin) -> None:
    write_arrays(folder / POSTS, {str(seq): post for seq, post in origin.posts.items()})


def read_origin(folder: Path, manifest: dict[str, Any]) -> Origin | None:
    """The parameters and posts of a folder that has them. Whether they are the ledger's is not looked at here."""
    made = manifest.get("made")
    if made is None:
        return None
    described = made.get("posts")
    if len(made) != 2 or not isinstance(made.get("parameters"), dict) or not isinstance(described, dict):
        broken("an origin that can't be read", "parameters and posts")
    if not all(name.isascii() and name.isdecimal() and len(name) < 10 for name in described):
        broken("posts that have no number", "the number of each post's reservation")
    check_header(folder / POSTS, described)
    arrays = read_arrays(folder / POSTS)
    return Origin(made["parameters"], {int(name): arrays[name] for name in sorted(arrays, key=int)})
