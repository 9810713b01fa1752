"""Public room: the error tree. One line per error: what, got, needed, try.

An error is read by people and kept in logs, so it never holds a private value: no rating, no user id, no exact
count, no row number. `got` names the *kind* of trouble ("ratings outside the range"); a column name, a file name
or a fact about the catalogue is public and may be shown.

Libraries below us do quote cells and row numbers in their messages, and `raise ... from None` only hides such a
message: it stays readable in `__context__`. `without_values` drops them for good where trouble is expected, and
`quotes_nobody` around every reader where it is not.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TypeVar

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class LowkeyError(Exception):
    """Everything that lowkey raises on purpose: what went wrong, what it got, what it needed, what to try."""

    def __init__(self, *, what: str, got: str, needed: str, try_: str) -> None:
        self.what, self.got, self.needed, self.try_ = what, got, needed, try_
        super().__init__(f"{what}: got {got}, needed {needed}. Try {try_}.")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from positional arguments by default; ours have none.
        return _rebuild, (type(self), self.what, self.got, self.needed, self.try_)


class InputError(LowkeyError, ValueError):
    """Bad input: the caller can fix it. The command line turns it into exit code 2."""


class AbsentError(InputError, AttributeError):
    """An attribute that is not offered, or not yet: ``hasattr`` is False, and whoever asks is told why."""


class BudgetError(LowkeyError):
    """A release would cost more than what is left of (epsilon, delta)."""


class LedgerError(LowkeyError):
    """The ledger is damaged, locked by somebody else, or cannot be written."""


class PlanError(LowkeyError):
    """A release that the plan does not contain, or a plan that cannot be made."""


class VerifyError(LowkeyError):
    """A release folder does not match its own manifest, ledger or report."""


class ClosedError(LowkeyError, TypeError):
    """Somebody tried to look into a private container."""


def without_values(call: Callable[[], Result], error: LowkeyError) -> Result:
    """Run `call`; if it fails, raise `error` with nothing of the original failure attached."""
    try:
        return call()
    except (LowkeyError, MemoryError):
        raise  # ours hold no values; running out of memory is not the input's fault
    except BaseException as raised:  # Arrow, polars and pandas share no base class
        if not _may_quote(raised):
            raise
    raise error  # leaving the handler first is what keeps the original out of `__context__`


def _may_quote(raised: BaseException) -> bool:
    """Errors, and panics of polars, which are none to Python; but not a user's Ctrl-C or an exit."""
    return isinstance(raised, Exception) or type(raised).__name__ == "PanicException"


def quotes_nobody(read: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """For whatever takes private tables in: a failure that nobody foresaw keeps its kind, and loses its words."""
    signature = inspect.signature(read)

    @functools.wraps(read)
    def guarded(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        signature.bind(*args, **options)  # a wrong call is told as such: it shows no cell
        try:
            return read(*args, **options)
        except (LowkeyError, MemoryError, OSError):
            raise
        except BaseException as raised:
            if not _may_quote(raised):
                raise
            kind = type(raised).__name__
        raise InputError(
            what="private data",
            got=f"an unexpected {kind}, whose text could quote them",
            needed="a table as the documentation has it",
            try_="the same on a few rows that are public",
        )

    return guarded


def printable(text: str, keep: str = "") -> str:
    """Text from a file or a folder, safe to print: what would move the cursor, clear the screen or turn the writing round
    is spelled out. ``keep`` are characters to leave as they are."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def refuse(what: str, *, got: str, needed: str, try_: str) -> NoReturn:
    """Raise an `InputError`; shorter to read at the many places that check input."""
    raise InputError(what=what, got=got, needed=needed, try_=try_)


def _rebuild(kind: type[LowkeyError], what: str, got: str, needed: str, try_: str) -> LowkeyError:
    return kind(what=what, got=got, needed=needed, try_=try_)
