"""Gate room: what "closed" means for a container of people's rows, and for a sum of them.

A closed object answers no question about its contents by the usual ways of Python: it has no length, no items,
no arithmetic, no array and no pickle, and its repr is made of public facts. It can be handed around, compared
by identity and copied (a copy is the same object: closed containers never change).
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from lowkey.errors import ClosedError

_LOOKING_IN = {
    "its size or a part of it": "len length_hint bool contains iter next reversed getitem setitem delitem",
    "an array or a table": "array array_ufunc array_function dataframe arrow_c_array arrow_c_stream buffer",
    "arithmetic": (
        "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul and rand or ror "
        "xor rxor neg pos abs invert int float complex index round lt le gt ge"
    ),
    "a pickle": "reduce reduce_ex getstate setstate",
}


class Closed:
    """Base of the private containers. A subclass gives `_public_facts()`, the text of its repr."""

    __slots__ = ()

    def _public_facts(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(closed, {self._public_facts()})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _refusal(name: str, of_what: str) -> Any:
    def refused(self: Closed, *args: object, **kwargs: object) -> NoReturn:
        raise ClosedError(
            what=f"{type(self).__name__} is closed",
            got=f"a request for {of_what} ({name})",
            needed="no look at people's rows",
            try_="fitting an estimator on it; what may be known comes out through a billboard",
        )

    refused.__name__ = name
    return refused


for _of_what, _names in _LOOKING_IN.items():
    for _name in _names.split():
        setattr(Closed, f"__{_name}__", _refusal(f"__{_name}__", _of_what))
