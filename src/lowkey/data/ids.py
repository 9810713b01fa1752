"""Vault room: ids of items and users as Arrow arrays, what makes two of them the same, and the key of a user.

Ids are integers or text, in whatever container the caller has. Everything else (floats that pandas made out of
integers with gaps, dates, booleans, mixtures) is refused. One rule holds for users and items, in every reader, in a
catalogue and in a history, as two spellings of one id would split one person in two:

- Text is brought to Unicode's normal form C, and white space around it is cut off. What is equal then is one id: one user,
  one item; in a catalogue a repeat, which is refused. What is empty then is missing, and refused as such.
- Nothing else is folded: "Ann" and "ann", "07" and "7" are two.
- An integer is the same id as its plain decimal text: 7 is "7". Text files hold no types, so users are text there, and
  items are numbers exactly if the catalogue's ids are (then "07" is read as 7).
"""

# pyright: reportAttributeAccessIssue=false
# (pyarrow.compute makes its functions when it is imported)

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Set
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowkey.errors import InputError, refuse, without_values

PLAIN_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # as an integer is written, and fits in 64 bits
A_FEW = 10_000  # ids, of a history or an answer
LONG_NUMBER = re.compile(r"-?[1-9][0-9]{18,19}", re.ASCII)  # as an integer is written, and may fit


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_integer(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind)


def plain_values(kind: pa.DataType) -> pa.DataType:
    """The type of the values: that of the dictionary for categorical columns, else the type itself."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def kind_word(kind: pa.DataType) -> str:
    """The name of a type without its details: the fields of a struct and the digits of a decimal come from cells."""
    return re.split(r"[\[(<]", str(kind), maxsplit=1)[0]


def id_array(ids: Any, what: str) -> pa.Array:
    """`ids` as one Arrow array of integers or text, in the caller's type, without nulls."""
    bad_kind = InputError(
        what=what,
        got="values that are not all integers or all text",
        needed="one kind of id, integers or text",
        try_="converting them first, for instance with [str(i) for i in ids]",
    )
    if ids is None or isinstance(ids, (str, bytes, Mapping, Set)):
        raise bad_kind
    array = without_values(lambda: _to_arrow(ids), bad_kind)
    if not (is_integer(array.type) or is_text(array.type)):
        raise bad_kind
    if array.null_count:
        refuse_missing(what)
    if not is_text(array.type):
        return array
    # Arrow has no look-up and no selection for string views yet; polars hands them out.
    tidy = tidy_text(array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array, what)
    if pc.min(pc.binary_length(tidy)).as_py() == 0:
        refuse_missing(what)
    return tidy


def tidy_text(texts: pa.Array, what: str) -> pa.Array:
    """Text ids in their one spelling. (A part of a text in normal form C is in that form too.)"""
    no_text = InputError(
        what=what, got="bytes that are no text", needed="text in UTF-8", try_="reading it in its own encoding first"
    )
    return without_values(lambda: pc.utf8_trim_whitespace(pc.utf8_normalize(texts, form="NFC")), no_text)


def refuse_missing(what: str) -> NoReturn:
    refuse(what, got="missing values", needed="a value in every row", try_="dropping those rows")


def comparable(ids: pa.Array | pa.ChunkedArray, catalogue: pa.Array) -> tuple[Any, pa.Array]:
    """Both sides in one type, so that ids can be looked up. Ids of different kinds are compared by their text."""
    if is_integer(ids.type) and is_integer(catalogue.type):
        if ids.type == catalogue.type:
            return ids, catalogue
        if pa.types.is_uint64(ids.type) or pa.types.is_uint64(catalogue.type):
            if pa.types.is_signed_integer(ids.type) or pa.types.is_signed_integer(catalogue.type):
                return ids.cast(pa.string()), catalogue.cast(pa.string())  # no common integer type holds both
            return ids.cast(pa.uint64()), catalogue.cast(pa.uint64())
        return ids.cast(pa.int64()), catalogue.cast(pa.int64())
    if ids.type == catalogue.type:
        return ids, catalogue
    return ids.cast(pa.large_string()), catalogue.cast(pa.large_string())


def user_keys(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """One 64-bit key per user, a function of the user's id alone.

    Per-user draws are keyed by it: were they read from a stream by row number, one user leaving would shift
    them for everybody after. Integers, also in plain decimal text, go through splitmix64 (a bijection, so keys are
    distinct), other text through blake2b (64 bits: a collision among 10 million users has a chance of about 3e-6, and
    would make two users share their draws, nothing else).
    """
    if is_integer(ids.type):
        numbers = ids.to_numpy(zero_copy_only=False)
        wide = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64)
        return splitmix64(wide.view(np.uint64))
    number = pc.match_substring_regex(ids, PLAIN_NUMBER)
    is_number = number.to_numpy(zero_copy_only=False)
    keys = np.empty(len(ids), np.uint64)
    keys[is_number] = splitmix64(ids.filter(number).cast(pa.int64()).to_numpy(zero_copy_only=False).view(np.uint64))
    keys[~is_number] = [_text_key(text) for text in ids.filter(pc.invert(number)).to_pylist()]
    return keys


def second_keys(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """Another 64 bits, to tell apart people whose ids are text and whose first keys collide; 0 where none can."""
    if is_integer(ids.type):
        return np.zeros(len(ids), np.uint64)
    return np.array([_digest(text, b"lowkey-second") for text in ids.to_pylist()], np.uint64)


def _text_key(text: str) -> int:
    if LONG_NUMBER.fullmatch(text) and -(2**63) <= int(text) < 2**64:  # what an integer column can hold
        return int(splitmix64(np.array([int(text) % 2**64], np.uint64))[0])
    return _digest(text, b"lowkey-user")


def _digest(text: str, purpose: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=purpose).digest(), "little")


def splitmix64(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The output function of splitmix64 (Steele, Lea, Flood 2014) after one step from each number."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def int64_array(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """As pa.array makes it; but that imports pandas where there is one, and a single answer would wait for it."""
    flat = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(flat), [None, pa.py_buffer(flat)])


def numpy_array(array: pa.Array) -> npt.NDArray[Any]:
    """As its to_numpy makes it, without pandas, like ``int64_array``, where it is of integers or short."""
    if is_integer(array.type) and not array.null_count and len(array):
        return np.from_dlpack(array)
    if is_text(array.type) and len(array) <= A_FEW:
        texts = np.empty(len(array), object)
        texts[:] = array.to_pylist()
        return texts
    return array.to_numpy(zero_copy_only=False)


def _few_texts(texts: list[str]) -> pa.Array:
    """A history's ids: as pa.array makes them, without pandas, like ``int64_array``."""
    encoded = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in encoded])])
    if offsets[-1] >= 2**31:
        return pa.array(texts)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(encoded)))


def _to_arrow(ids: Any) -> pa.Array:
    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        array = ids
    elif isinstance(ids, list) and 0 < len(ids) <= A_FEW and set(map(type, ids)) == {str}:
        array = _few_texts(ids)
    elif isinstance(ids, list) and 0 < len(ids) <= A_FEW and set(map(type, ids)) == {np.int64}:  # of a model's answer
        array = int64_array(np.array(ids))
    elif hasattr(ids, "__arrow_c_stream__"):  # polars, pandas, pyarrow and most tables' columns
        array = pa.chunked_array(ids)
    else:
        if isinstance(ids, np.ndarray) and ids.ndim != 1:
            raise ValueError
        try:
            array = pa.array(ids)
        except OverflowError:  # Arrow takes Python's integers for int64
            array = pa.array(ids, pa.uint64())
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
