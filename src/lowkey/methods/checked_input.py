"""Public room: scikit-learn's checks of X and y, with its words and without the cells that these quote."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from lowkey.errors import InputError, LowkeyError

Result = TypeVar("Result")
# The first lines that scikit-learn is known to write: of shapes, kinds and missing numbers. Cells come in other words
# ("could not convert string to float: ...") or on the lines below ("Expected 2D array, got 1D array instead:\narray=...").
KNOWN = re.compile(
    r"(Complex data not supported|Expected|Input|Found (array|input variables)|X has|y should be a 1d array"
    r"|Sparse (data|input)|Only sparse|The feature names|float\(\) argument must be|Unable to convert array"
    r"|dtype='numeric'|Singleton)"
)
RESHAPE = "Reshape your data"


def without_cells(check: Callable[[], Result]) -> Result:
    """Run a check or a conversion. What it says is passed on if it is known to quote nobody, else dropped."""
    try:
        return check()
    except (LowkeyError, MemoryError):
        raise
    except Exception as error:
        kind, said = type(error), str(error)
    first = said.partition("\n")[0]
    if kind in (ValueError, TypeError) and KNOWN.match(first):
        raise kind(f"{first} {RESHAPE}." if RESHAPE in said else first)  # outside the handler: nothing is attached
    raise InputError(what="X or y", got="entries that are not numbers", needed="numbers", try_="dropping such records")
