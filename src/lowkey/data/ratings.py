"""Vault room: the users' rows, CSR by user, checked against a domain, closed.

`Ratings` is what estimators are fitted on. It is cut into `Block`s of whole users for the engine, and it shows its
domain and nothing else. Within a row items rise and none occurs twice; offsets are int64, so 2**31 ratings are
no limit; arrays are read-only, so no kernel can change them by accident.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from lowkey.data.assemble import check_duplicates_word, check_values, read_only, tidy_rows
from lowkey.privacy.closed import Closed
from lowkey.data.domain import Domain
from lowkey.data.ids import splitmix64
from lowkey.errors import refuse


class Block(NamedTuple):
    """Some whole users. User `u` of the block has the entries `offsets[u]:offsets[u + 1]`."""

    offsets: npt.NDArray[np.int64]  # (n_users + 1,), starts at 0
    items: npt.NDArray[np.int32]  # (n_entries,), catalogue positions, rising within a user
    values: npt.NDArray[np.float32]  # (n_entries,), ratings within the range; all 1 for binary feedback
    keys: npt.NDArray[np.uint64]  # (n_users,), a hash of each user's id: the seed of per-user draws


class Rows(Closed):
    """Users' rows over numbered items; what `Ratings` and its uncatalogued sibling share."""

    __slots__ = ("_items", "_keys", "_offsets", "_values")

    def __init__(
        self,
        offsets: npt.NDArray[np.int64],
        items: npt.NDArray[np.int32],
        values: npt.NDArray[np.float32] | None,
        keys: npt.NDArray[np.uint64],
    ) -> None:
        self._offsets, self._items, self._keys = read_only(offsets), read_only(items), read_only(keys)
        # binary feedback keeps no values: a block's ones are made when the block is cut
        self._values = None if values is None else read_only(values)

    def blocks(self, max_users: int) -> Iterator[Block]:
        """The rows as blocks of at most `max_users` whole users, in order. For engines only: blocks are bare."""
        if max_users < 1:
            refuse("max_users", got="less than one", needed="at least one user per block", try_="max_users=1000")
        for first in range(0, len(self._keys), max_users):
            yield self._cut(first, min(first + max_users, len(self._keys)))

    def _cut(self, first: int, last: int) -> Block:
        begin, end = self._offsets[first], self._offsets[last]
        values = np.ones(end - begin, np.float32) if self._values is None else self._values[begin:end]
        return Block(
            read_only(self._offsets[first : last + 1] - begin),
            self._items[begin:end],
            read_only(values),
            self._keys[first:last],
        )


class Ratings(Rows):
    """The users' rows over a public catalogue. Made by `read_ratings`, `from_frame` and `from_csr`."""

    __slots__ = ("_domain",)

    def __init__(
        self,
        domain: Domain,
        offsets: npt.NDArray[np.int64],
        items: npt.NDArray[np.int32],
        values: npt.NDArray[np.float32] | None,
        keys: npt.NDArray[np.uint64],
    ) -> None:
        """For the readers: the arrays are taken over unchecked."""
        super().__init__(offsets, items, values, keys)
        self._domain = domain

    @classmethod
    def from_csr(
        cls,
        csr: Any,
        domain: Domain,
        keys: npt.NDArray[np.uint64] | None = None,
        duplicates: str = "error",
    ) -> Ratings:
        """Rows of a SciPy CSR matrix: row = user, column = catalogue position.

        Every stored entry counts as observed, also an explicit zero; for binary feedback each becomes 1. A user
        without entries is fine. Without `keys` a user's id is the row number; then the neighbour of a data set is
        the one with that row emptied, and removing the row instead would give other users another key.
        """
        check_duplicates_word(duplicates)
        what = "CSR matrix"
        _check_shape(csr, domain)
        offsets = np.array(csr.indptr, dtype=np.int64)
        _check_structure(offsets, csr)
        stored = offsets[-1]  # SciPy may hold spare room behind the last entry
        items = np.array(csr.indices[:stored], dtype=np.int32)
        values = None
        if domain.feedback == "ratings":
            values = _as_float32(csr.data[:stored])
            if duplicates != "sum":
                check_values(values, domain.scale, what)
        offsets, items, values = tidy_rows(offsets, items, values, duplicates, what)
        if values is not None and duplicates == "sum":
            check_values(values, domain.scale, what)
        return cls(domain, offsets, items, values, _checked_keys(keys, len(offsets) - 1))

    @property
    def domain(self) -> Domain:
        return self._domain

    def _public_facts(self) -> str:
        return f"{self._domain.n_items} items, {self._domain.scale}"

    def _open_csr(self) -> scipy.sparse.csr_array:
        """The bare rows (n_users, n_items). For vault and lab only; an architecture test lists the callers."""
        whole = self._cut(0, len(self._keys))
        shape = (len(self._keys), self._domain.n_items)
        return scipy.sparse.csr_array((whole.values, whole.items, whole.offsets), shape=shape)

    def _open_keys(self) -> npt.NDArray[np.uint64]:
        """The users' keys, in the order of the rows of `_open_csr`. For vault and lab only."""
        return self._keys


def as_ratings(
    X: Any,
    domain: Domain | None = None,
    *,
    user: str | None = None,
    item: str | None = None,
    rating: str | None = None,
    duplicates: str = "error",
) -> Ratings:
    """What `fit` accepts, as `Ratings`: a `Ratings`, a SciPy CSR matrix, or a frame with its columns named."""
    if isinstance(X, Ratings):
        if domain is not None and domain != X.domain:
            refuse(
                "domain",
                got="another domain than the ratings were checked against",
                needed="the same domain",
                try_="leaving domain out",
            )
        return X
    if domain is None:
        refuse(
            "domain",
            got="none",
            needed="the public facts: items, and the rating range or feedback='binary'",
            try_="domain=lk.Domain(items=catalogue, rating_range=(0.5, 5.0))",
        )
    if scipy.sparse.issparse(X):
        return Ratings.from_csr(X, domain, duplicates=duplicates)
    if isinstance(X, (np.ndarray, list, tuple)):
        refuse(
            "X",
            got="a dense array, where a zero may be a rating or a gap",
            needed="observed entries only",
            try_="scipy.sparse.csr_array, rows users and columns items",
        )
    if user is None or item is None:
        refuse(
            "X",
            got="a table whose columns are not named",
            needed="Ratings, a scipy.sparse.csr_array, or a table with named columns",
            try_="fit(lk.from_frame(frame, domain, user=..., item=..., rating=...))",
        )
    from lowkey.data.readers import from_frame  # readers stand on this module

    return from_frame(X, domain, user=user, item=item, rating=rating, duplicates=duplicates)


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


def _checked_keys(keys: npt.NDArray[np.uint64] | None, n_users: int) -> npt.NDArray[np.uint64]:
    if keys is None:
        return splitmix64(np.arange(n_users, dtype=np.uint64))
    checked = np.array(keys)
    if checked.dtype != np.uint64 or checked.shape != (n_users,) or len(np.unique(checked)) != n_users:
        refuse(
            "keys",
            got="something else",
            needed="a uint64 array with one distinct key per row",
            try_="lowkey.data.ids.user_keys(ids)",
        )
    return checked
