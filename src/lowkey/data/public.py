"""Vault room: what is public already: ratings that need no protection, and features of items.

Whoever is in here is not protected: everything that a fit makes of it may be published as it is.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse

from lowkey.data.columns import ColumnNames
from lowkey.data.domain import Domain
from lowkey.data.features import as_table
from lowkey.data.formats import format_of, read_columns
from lowkey.data.ids import id_array
from lowkey.data.public_tables import whole_table
from lowkey.data.ratings import Ratings
from lowkey.data.readers import frame_columns
from lowkey.data.sources import existing_path
from lowkey.errors import refuse


class Public:
    """Ratings of people who are not protected, and features of items; both are free for a fit.

    Parameters
    ----------
    ratings : path, table, CSR rows over the same catalogue, or Ratings, optional
        Of people whose ratings are public, or who gave them openly. Items that the catalogue lacks are left out.
    features : path or table, optional
        One row per item: numbers, categories, lists of tags, or vectors. Values and items may be missing.
    user, item, rating : str
        The columns of ``ratings``; ``item`` also names the ids of ``features``.
    rating_range : (float, float), optional
        The scale of these ratings, if it is another: it is mapped to that of the domain, end to end.

    Examples
    --------
    >>> public = lk.Public(ratings="open.parquet", features="films.parquet", item="movieId")  # doctest: +SKIP
    >>> model = lk.DPFactors(epsilon=1.0, delta=1e-6).fit(ratings, public=public)  # doctest: +SKIP
    """

    def __init__(
        self,
        ratings: Any = None,
        features: Any = None,
        *,
        user: str = "user",
        item: str = "item",
        rating: str = "rating",
        rating_range: tuple[float, float] | None = None,
    ) -> None:
        if ratings is None and features is None:
            refuse("Public", got="nothing", needed="ratings, features, or both", try_="lk.Public(features='films.parquet')")
        self._ratings, self._features = ratings, features
        self._names, self._range = ColumnNames(user, item, rating), rating_range

    def rows(self, domain: Domain) -> Any:
        """CSR rows (n_people, n_items) on the domain's catalogue and scale; None without ratings."""
        if self._ratings is None:
            return None
        if isinstance(self._ratings, Ratings):
            rows: Any = self._ratings._open_csr()
            if self._ratings.domain.n_items != domain.n_items:
                refuse("public ratings", got="Ratings on another catalogue", needed="the same", try_="a table, or a file")
        elif scipy.sparse.issparse(self._ratings):
            rows = scipy.sparse.csr_array(self._ratings, dtype=np.float64)
        else:
            rows = self._read(domain)
        if rows.shape[1] != domain.n_items:
            refuse("public ratings", got=f"{rows.shape[1]} columns", needed=f"{domain.n_items}", try_="the same catalogue")
        rows = rows[np.diff(rows.indptr) > 0]
        values = np.ones(rows.nnz) if domain.rating_range is None else self._on_scale(rows.data, domain)
        return scipy.sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)

    def _on_scale(self, values: Any, domain: Domain) -> Any:
        assert domain.rating_range is not None
        (low, high), (lowest, highest) = self._range or domain.rating_range, domain.rating_range
        if not (np.isfinite(values).all() and (values >= low).all() and (values <= high).all() and low < high):
            refuse("public ratings", got="values outside their range", needed=f"{low:g} to {high:g}",
                   try_="rating_range=(lowest, highest) of these ratings")  # fmt: skip
        return lowest + (np.asarray(values, np.float64) - low) / (high - low) * (highest - lowest)

    def _read(self, domain: Domain) -> Any:
        binary = domain.rating_range is None
        names = ColumnNames(self._names.user, self._names.item, None if binary else self._names.rating)
        if isinstance(self._ratings, str | Path):
            file = existing_path(self._ratings, "public ratings")
            table = read_columns(file, format_of(file, None), names, domain.item_ids.type)
        else:
            table = frame_columns(self._ratings, names.as_list())
        at = domain.look_up(id_array(table[names.item], "item ids"))
        people = np.unique(np.asarray(id_array(table[names.user], "user ids")).astype(str), return_inverse=True)[1]
        values = np.ones(len(at)) if names.rating is None else np.asarray(table[names.rating], np.float64)
        pairs = people.astype(np.int64) * domain.n_items + at
        last = len(pairs) - 1 - np.unique(pairs[::-1], return_index=True)[1]  # of a pair that occurs again, the later one
        last = last[at[last] >= 0]
        shape = (int(people.max(initial=-1)) + 1, domain.n_items)
        return scipy.sparse.coo_array((values[last], (people[last], at[last])), shape=shape).tocsr()

    def columns(self, domain: Domain) -> dict[str, list[Any]] | None:
        """The features of the catalogue's items, in its order; None without any."""
        if self._features is None:
            return None
        table, item = self._feature_table, self._names.item
        if item not in table.column_names:
            refuse("item features", got=f"no column {item!r}", needed="a column of item ids", try_="item='movieId'")
        at = domain.look_up(id_array(table.column(item), "item ids"))
        places = np.full(domain.n_items, -1)
        places[at[at >= 0]] = np.flatnonzero(at >= 0)
        if (places < 0).all():
            refuse("item features", got="no item of the catalogue", needed="the same ids", try_="item=, the column of ids")
        taken = pa.array(np.where(places < 0, 0, places), mask=places < 0)
        return as_table({name: table.column(name).take(taken) for name in table.column_names if name != item})

    @cached_property
    def _feature_table(self) -> pa.Table:
        return whole_table(self._features)

    def facts(self, domain: Domain) -> tuple[str, ...]:
        """What the plan, the ledger and the report say of it."""
        found = []
        if self._ratings is not None:
            rows = self.rows(domain)
            found.append(
                f"the ratings of {rows.shape[0]} people who are not protected: they were public, or were given openly "
                f"(sha256 {_hash(self._ratings, rows.indptr, rows.indices, rows.data)})"
            )
        if self._features is not None:
            names = [name for name in self._feature_table.column_names if name != self._names.item]
            parts = [repr(self._feature_table.column(name).to_pylist()).encode() for name in [self._names.item, *names]]
            found.append(f"the items' features {', '.join(names)} (sha256 {_hash(self._features, *parts)})")
        return tuple(found)


def _hash(source: Any, *parts: Any) -> str:
    """Of the file, where there is one; else of the numbers."""
    digest = hashlib.sha256()
    if isinstance(source, str | Path) and Path(source).is_file():
        with open(source, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    else:
        for part in parts:
            digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return digest.hexdigest()
