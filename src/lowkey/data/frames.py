"""Vault room: histories in a frame, for whoever asks for their recommendations: rows by user, with the users' ids.

Not closed, unlike ``Ratings``: recommendations for somebody are made from that somebody's own row, and go to them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowkey.data.assemble import settle, settled_duplicates
from lowkey.data.columns import (
    catalogue_positions,
    check_known,
    choose_rows,
    encode,
    grouped,
    names_for,
    read_values,
    tidy_columns,
)
from lowkey.data.domain import Domain
from lowkey.data.readers import frame_columns
from lowkey.errors import quotes_nobody, refuse


class FrameHistories(NamedTuple):
    """(values, items, offsets) of the users' rows, the users' ids (None: it is one history), and what was left out."""

    csr: tuple[Any, Any, Any]
    users: pa.Array | None
    ignored: npt.NDArray[np.int64]


@quotes_nobody
def frame_histories(frame: Any, domain: Domain, columns: dict[str, Any], unknown: str) -> FrameHistories:
    """``columns`` are those of `from_frame`; without a user it is one history."""
    user, item, rating, time = (columns.get(name) for name in ("user", "item", "rating", "time"))
    if item is None:
        refuse("item", got="no column name", needed="the column with the item ids", try_="item='movieId'")
    names = names_for(domain.scale, user or "lowkey: the one user", item, rating, time, columns.get("missing", "error"))
    table = frame_columns(frame, [name for name in names.as_list() if user is not None or name != names.user])
    if user is None:
        table[names.user] = pa.chunked_array([pa.nulls(len(table[item]), pa.int8()).fill_null(0)])
    choose_rows(table, names)
    tidy_columns(table, names)
    items, users = catalogue_positions(table.pop(names.item), domain), encode(table.pop(names.user))
    values = read_values(table, names)
    check_known(items, names, "drop" if unknown == "ignore" else "error")
    rows = grouped(users, items, values, domain.scale)
    duplicates = settled_duplicates(domain.scale, columns.get("duplicates"))
    offsets, kept, values = settle(*rows, domain.scale, duplicates, names.rating)
    ignored = np.bincount(users.ranks[users.codes[items < 0]], minlength=len(users.ids))
    data = np.ones(len(kept)) if values is None else values.astype(np.float64)
    return FrameHistories((data, kept, offsets), None if user is None else users.ids, ignored)
