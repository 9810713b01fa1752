"""Vault room: the users' rows, CSR by user, checked against a domain, closed.

`Ratings` is what estimators are fitted on: a public domain, and users' rows in memory, on disk or on a cluster. It is
cut into `Block`s of whole users for the engine, and it shows its domain and nothing else. Within a row items rise and
none occurs twice; offsets are int64, so 2**31 ratings are no limit; arrays are read-only, so no kernel can change them
by accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from lowkey.data.assemble import check_values, settled_duplicates, tidy_rows
from lowkey.data.domain import Domain
from lowkey.data.rows import Block, HeldRows, Rows, row_keys
from lowkey.errors import quotes_nobody, refuse
from lowkey.privacy.closed import Closed

__all__ = ["Block", "Ratings"]


class Ratings(Closed):
    """The users' rows over a public catalogue. Made by `read_ratings`, `from_frame`, `from_csr` and `from_spark`.

    Examples
    --------
    >>> lk.read_ratings("r.parquet", domain, user="u", item="i", rating="r")  # doctest: +SKIP
    >>> lk.Ratings.from_csr(csr, domain)  # doctest: +SKIP
    """

    __slots__ = ("_columns", "_domain", "_rows")

    def __init__(self, domain: Domain, rows: Rows, columns: tuple[str, str] | None = None) -> None:
        """For the readers: rows held wherever, taken over unchecked. ``columns`` are those of the users and the items."""
        self._domain, self._rows, self._columns = domain, rows, columns

    @classmethod
    @quotes_nobody
    def from_csr(
        cls,
        csr: Any,
        domain: Domain,
        keys: npt.NDArray[np.uint64] | None = None,
        duplicates: str | None = None,
    ) -> Ratings:
        """Rows of a SciPy CSR matrix: row = user, column = catalogue position.

        Every stored entry counts as observed, also an explicit zero; for binary feedback each becomes 1. A user
        without entries is fine. What is drawn for a user is drawn by a key: give `keys` made from the users' ids, or
        leave them out, and a user's key is made from the items of the own row (data/rows.py).
        """
        duplicates = settled_duplicates(domain.scale, duplicates)
        what = "CSR matrix"
        _check_shape(csr, domain)
        offsets = np.array(csr.indptr, dtype=np.int64)
        _check_structure(offsets, csr)
        stored = offsets[-1]  # SciPy may hold spare room behind the last entry
        items = np.array(csr.indices[:stored], dtype=np.int32)
        values = None
        if domain.rating_range is not None:
            values = _as_float32(csr.data[:stored])
            if duplicates != "sum":
                check_values(values, domain.scale, what)
        offsets, items, values = tidy_rows(offsets, items, values, duplicates, what)
        if values is not None and duplicates == "sum":
            check_values(values, domain.scale, what)
        users = row_keys(offsets, items) if keys is None else _checked_keys(keys, len(offsets) - 1)
        return cls(domain, HeldRows(offsets, items, values, users))

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def columns(self) -> tuple[str, str] | None:
        """The columns that users and items were read from, as the caller named them."""
        return self._columns

    def _open_blocks(self, max_users: int) -> Iterator[Block]:
        """The bare rows as blocks of at most `max_users` whole users, in order. For engines only, as `_open_rows`."""
        return self._rows.blocks(max_users)

    def _open_whole(self) -> Block:
        """All bare rows in one block. For engines, and for `Positions`, which declares public who rated what."""
        return self._rows.whole()

    def _open_rows(self) -> Rows:
        """Where the rows are held. For engines only; an architecture test lists the callers."""
        return self._rows

    def _public_facts(self) -> str:
        return f"{self._domain.n_items} items, {self._domain.scale}"

    def _open_csr(self) -> scipy.sparse.csr_array:
        """The bare rows (n_users, n_items). For vault and lab only; an architecture test lists the callers."""
        whole = self._rows.whole()
        shape = (len(whole.keys), self._domain.n_items)
        return scipy.sparse.csr_array((whole.values, whole.items, whole.offsets), shape=shape)

    def _open_keys(self) -> npt.NDArray[np.uint64]:
        """The users' keys, in the order of the rows of `_open_csr`. For vault and lab only."""
        return self._rows.whole().keys


def _check_shape(csr: Any, domain: Domain) -> None:
    if not (scipy.sparse.issparse(csr) and csr.format == "csr" and csr.ndim == 2):
        refuse(
            "matrix",
            got="another kind of matrix",
            needed="a SciPy CSR matrix, rows users and columns items",
            try_="matrix.tocsr(), after checking that no entry occurs twice",
        )
    if csr.shape[1] != domain.n_items:
        refuse(
            "CSR matrix",
            got=f"{csr.shape[1]} columns",
            needed=f"{domain.n_items}, one per item of the domain",
            try_="the transpose, if items are in rows, or the domain these columns belong to",
        )
    if csr.dtype.kind not in "fiub":
        refuse("CSR matrix", got="entries that are not real numbers", needed="numbers", try_="matrix.astype('float32')")


def _check_structure(offsets: npt.NDArray[np.int64], csr: Any) -> None:
    # SciPy does not check these by itself, and the compiled loops do not check bounds.
    stored = offsets[-1]
    broken = offsets[0] != 0 or np.any(np.diff(offsets) < 0) or stored > min(len(csr.indices), len(csr.data))
    if not broken and stored:
        used = csr.indices[:stored]
        broken = used.min() < 0 or used.max() >= csr.shape[1]
    if broken:
        refuse("CSR matrix", got="indices that do not fit together", needed="a valid CSR matrix", try_="csr.check_format()")


def _as_float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is refused as such
        return np.array(values, dtype=np.float32)


def _checked_keys(keys: npt.NDArray[np.uint64], n_users: int) -> npt.NDArray[np.uint64]:
    checked = np.array(keys)
    if checked.dtype != np.uint64 or checked.shape != (n_users,):
        refuse(
            "keys",
            got="something else",
            needed="a uint64 array with one key per row, made from that user's id alone",
            try_="lowkey.data.ids.user_keys(ids)",
        )
    return checked
