"""Vault room: rows over a catalogue that is not public.

Which items occur is then itself private. The rows are kept over codes that mean nothing outside; a private
selection (noisy counts over a threshold, posted on the billboard) decides which ids may be named, and
`with_items` gives the rows over those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowkey.data.domain import Domain, Scale
from lowkey.data.ids import user_keys
from lowkey.data.ratings import Block, Ratings, Rows
from lowkey.privacy.closed import Closed


class UncataloguedRatings(Closed):
    """The users' rows over private item codes. Made by `read_uncatalogued`."""

    __slots__ = ("_item_ids", "_rows", "_scale")

    def __init__(self, scale: Scale, item_ids: pa.Array, rows: Rows) -> None:
        """For the readers: rows held wherever, taken over unchecked."""
        self._scale, self._item_ids, self._rows = scale, item_ids, rows

    @property
    def scale(self) -> Scale:
        return self._scale

    def with_items(self, ids: Any, *, expected_users: int | None = None) -> Ratings:
        """The rows over the items in `ids`, which must be public by now; all other entries are left out.

        An id that occurs nowhere is fine (the items of a catalogue need not occur). A user who loses every entry
        stays, as a user without ratings.
        """
        domain = Domain(ids, self._scale.rating_range, self._scale.feedback, expected_users)
        return Ratings(domain, self._rows.over(domain.positions(self._item_ids)))

    def _public_facts(self) -> str:
        return f"private catalogue, {self._scale}"

    def _open_blocks(self, max_users: int) -> Iterator[Block]:
        """The bare rows over the codes, with a key for every code. For engines only, as `_open_rows` and `_open_ids`."""
        keys = self._open_item_keys()
        return (block._replace(item_keys=keys) for block in self._rows.blocks(max_users))

    def _open_rows(self) -> Rows:
        """Where the rows are held. An architecture test lists the callers."""
        return self._rows

    def _open_ids(self) -> pa.Array:
        """The ids of the codes, as many as items occur."""
        return self._item_ids

    def _open_item_keys(self) -> npt.NDArray[np.uint64]:
        """From each item's id alone: a code shifts when somebody leaves who alone had an item."""
        return user_keys(self._item_ids)
