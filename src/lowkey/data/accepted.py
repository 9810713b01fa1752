"""Vault room: what ``fit`` accepts: the container, CSR rows, or a table with its columns named."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import numpy as np
import scipy.sparse

from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.readers import from_frame
from lowkey.errors import refuse


class FrameColumns(TypedDict, total=False):
    """What `fit` may be told of a frame, as `from_frame` takes it."""

    user: str
    item: str
    rating: str | None
    time: str | None
    duplicates: str | None
    unknown_items: str
    missing: str
    check_axes: bool


def as_ratings(
    X: Any,
    domain: Domain | None = None,
    **columns: Unpack[FrameColumns],
) -> Ratings:
    """What `fit` accepts, as `Ratings`: a `Ratings`, a SciPy CSR matrix, or a frame with its columns named."""
    named = isinstance(X, Ratings) or scipy.sparse.issparse(X)
    if named and columns.keys() - {"duplicates"}:
        refuse("columns", got="no frame", needed="a frame that has them", try_="leaving user=, item= and rating= out")
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
        return Ratings.from_csr(X, domain, duplicates=columns.get("duplicates"))
    if isinstance(X, (np.ndarray, list, tuple)):
        refuse(
            "X",
            got="a dense array, where a zero may be a rating or a gap",
            needed="observed entries only",
            try_="scipy.sparse.csr_array, rows users and columns items",
        )
    if "user" not in columns or "item" not in columns:
        refuse(
            "X",
            got="a table whose columns are not named",
            needed="Ratings, a scipy.sparse.csr_array, or a table with named columns",
            try_="fit(frame, domain=domain, user=..., item=..., rating=...)",
        )
    return from_frame(X, domain, **columns)
