"""Vault room: the users' rows, CSR by user, checked against a domain, closed.

`Ratings` is what estimators are fitted on: a public domain, and users' `Rows`. Held in memory they are `HeldRows`;
`stored.py` has rows on disk, `spark_rows.py` rows on a cluster. Which it is changes no sum: a contribution depends on
one user's row and key alone. Rows are cut into `Block`s of whole users for the engine, and ratings show their domain
and nothing else. Within a row items rise and none occurs twice; offsets are int64, so 2**31 ratings are no limit;
arrays are read-only, so no kernel can change them by accident.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
from numba import njit

from lowkey.data.assemble import read_only, settle, settled_duplicates, tidy_rows
from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.data.scratch import Scratch
from lowkey.errors import quotes_nobody, refuse
from lowkey.privacy.closed import Closed

ROW_SEED = np.uint64(0x10_3E7_0F_A_2085)  # the key of an empty row; any number would do
_scrambled: Any = njit(cache=True, nogil=True)(splitmix64)
NO_KEYS = read_only(np.zeros(0, np.uint64))


class Block(NamedTuple):
    """Some whole users. User `u` of the block has the entries `offsets[u]:offsets[u + 1]`."""

    offsets: npt.NDArray[np.int64]  # (n_users + 1,), starts at 0
    items: npt.NDArray[np.int32]  # (n_entries,), catalogue positions, rising within a user
    values: npt.NDArray[np.float32]  # (n_entries,), ratings within the range; all 1 for binary feedback
    keys: npt.NDArray[np.uint64]  # (n_users,), a hash of each user's id or items: seeds per-user draws
    item_keys: npt.NDArray[np.uint64] = NO_KEYS  # (n_items,), a hash of each item's id, where the catalogue is private


class Rows(Closed):
    """Users' rows. For engines and readers only: blocks are bare."""

    __slots__ = ()

    @abstractmethod
    def blocks(self, max_users: int) -> Iterator[Block]:
        """The rows as blocks of at most `max_users` whole users, the same ones in the same order every time."""

    @abstractmethod
    def over(self, places: npt.NDArray[np.int32]) -> Rows:
        """The same users over other items: item `i` becomes `places[i]`, and is left out where that is -1."""

    def whole(self) -> Block:
        """All rows in one block."""
        blocks = list(self.blocks(1 << 40))
        if len(blocks) == 1:
            return blocks[0]
        none = [np.zeros(0, np.int32)], [np.zeros(0, np.float32)], [np.zeros(0, np.uint64)]
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(block.offsets) for block in blocks)])
        joined: list[Any] = [np.concatenate([*empty, *(b[at] for b in blocks)]) for at, empty in enumerate(none, 1)]
        return Block(read_only(np.cumsum(counts)), *map(read_only, joined))

    def scratch_for_state(self) -> Scratch | None:
        """Room on disk for what these users keep between passes, None where that is held in memory."""
        return None

    def _public_facts(self) -> str:
        return "users' rows"


class HeldRows(Rows):
    """Users' rows in memory."""

    __slots__ = ("_items", "_keys", "_offsets", "_values")

    def __init__(
        self,
        offsets: npt.NDArray[np.int64],
        items: npt.NDArray[np.int32],
        values: npt.NDArray[np.float32] | None,
        keys: npt.NDArray[np.uint64],
    ) -> None:
        """The arrays are taken over unchecked."""
        self._offsets, self._items, self._keys = read_only(offsets), read_only(items), read_only(keys)
        # binary feedback keeps no values: a block's ones are made when the block is cut
        self._values = None if values is None else read_only(values)

    def blocks(self, max_users: int) -> Iterator[Block]:
        check_max_users(max_users)
        for first in range(0, len(self._keys), max_users):
            yield self._cut(first, min(first + max_users, len(self._keys)))

    def over(self, places: npt.NDArray[np.int32]) -> HeldRows:
        positions = places[self._items]
        kept = positions >= 0
        before = np.concatenate([[0], np.cumsum(kept)])  # entries kept before each entry
        offsets, items = before[self._offsets].astype(np.int64), positions[kept]
        values = None if self._values is None else self._values[kept].copy()
        # items rise within a row here, and in another order there
        return HeldRows(*tidy_rows(offsets, items, values, "error", "ratings"), self._keys)

    def whole(self) -> Block:
        return self._cut(0, len(self._keys))

    def _cut(self, first: int, last: int) -> Block:
        begin, end = self._offsets[first], self._offsets[last]
        values = np.ones(end - begin, np.float32) if self._values is None else self._values[begin:end]
        return Block(
            read_only(self._offsets[first : last + 1] - begin),
            self._items[begin:end],
            read_only(values),
            self._keys[first:last],
        )


def check_max_users(max_users: int) -> None:
    if max_users < 1:
        refuse("max_users", got="less than one", needed="at least one user per block", try_="max_users=1000")


def row_keys(offsets: npt.NDArray[np.int64], items: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
    """One 64-bit key per row, for users who have no id: a hash of its items, which rise within the row.

    What is drawn for a user must not change when somebody else comes or goes. A row number does: everybody behind a user
    who leaves moves up. The items of the own row do not, in whatever order the rows stand. They are counted in catalogue
    order, so a row has the same key wherever it was read. Two users with the same items share a key, and so what is drawn
    for them: each still adds what follows from the own row, the own key and public values alone, which is all that a bound
    rests on. Ratings have no part in the key: where positions are public and values are protected, the key is public.
    """
    keys: Any = _row_keys(offsets, items)
    return keys


@njit(cache=True, nogil=True)
def _row_keys(offsets, items):
    keys = np.empty(len(offsets) - 1, np.uint64)
    for u in range(len(keys)):
        key = ROW_SEED
        for at in range(offsets[u], offsets[u + 1]):
            key = _scrambled(key ^ _scrambled(np.uint64(items[at])))
        keys[u] = key
    return keys


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
        leave them out, and a user's key is made from the items of the own row (data/ratings.py).
        """
        duplicates = settled_duplicates(domain.scale, duplicates)
        _check_shape(csr, domain)
        offsets = np.array(csr.indptr, dtype=np.int64)
        _check_structure(offsets, csr)
        stored = offsets[-1]  # SciPy may hold spare room behind the last entry
        items = np.array(csr.indices[:stored], dtype=np.int32)
        values = None
        if domain.rating_range is not None:
            values = _as_float32(csr.data[:stored])
        offsets, items, values = settle(offsets, items, values, domain.scale, duplicates, rows="CSR matrix")
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
