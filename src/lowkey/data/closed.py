"""Vault room: what "closed" means for a container of people's rows.

A closed object answers no question about its contents by the usual ways of Python: it has no length, no items,
no arithmetic, no array and no pickle, and its repr is made of public facts. It can be handed around, compared
by identity and copied (a copy is the same object: closed containers never change).
"""

from __future__ import annotations

from typing import Any, NoReturn, Self

from lowkey.errors import ClosedError

_LOOKING_IN = (
    # length, truth and membership: each is (or tells) an exact count or one user's row
    "__len__ __length_hint__ __bool__ __contains__ __iter__ __next__ __reversed__ __getitem__ __setitem__ __delitem__ "
    # arrays and tables
    "__array__ __array_ufunc__ __array_function__ __dataframe__ __arrow_c_array__ __arrow_c_stream__ __buffer__ "
    # arithmetic and conversion
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ __rfloordiv__ "
    "__mod__ __rmod__ __pow__ __rpow__ __matmul__ __rmatmul__ __and__ __rand__ __or__ __ror__ __xor__ __rxor__ "
    "__neg__ __pos__ __abs__ __invert__ __int__ __float__ __complex__ __index__ __round__ "
    # order
    "__lt__ __le__ __gt__ __ge__ "
    # pickling
    "__reduce__ __reduce_ex__ __getstate__ __setstate__"
).split()


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


def _refusal(name: str) -> Any:
    def refused(self: Closed, *args: object, **kwargs: object) -> NoReturn:
        raise ClosedError(
            what=f"{type(self).__name__} is closed",
            got=f"{name}, which would show people's rows",
            needed="no look inside",
            try_="fitting an estimator on it: what may be known comes out through a billboard",
        )

    refused.__name__ = name
    return refused


for _name in _LOOKING_IN:
    setattr(Closed, _name, _refusal(_name))
