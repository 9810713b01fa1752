"""Vault room: are users and items exchanged? Then items would be protected, and people published.

The ids decide, before anything is spent. A column fits a catalogue as far as the catalogue occurs in it, times the share of
its rows that the catalogue knows; where the users' column fits better than the items', the two are taken for exchanged.

What a refusal tells: one bit about the ids in the data, which one person may turn. It goes to whoever runs the command on
the data, as every error does, and is outside the guarantee (docs/privacy.md); it shows neither an id nor a count.
"""

from __future__ import annotations

from collections.abc import Iterable

import numba
import numpy as np
import numpy.typing as npt

from lowkey.data.assemble import read_only
from lowkey.errors import refuse

Places = npt.NDArray[np.int32]  # in the catalogue, -1 where it does not have the id
EVERY = np.zeros(0, np.int32)  # in place of the places of codes: the codes are places


class Axes:
    """What both columns have shown so far."""

    def __init__(self, n_items: int) -> None:
        self._items, self._users = _Fit(n_items), _Fit(n_items)

    def see(self, items: Places, codes: Places, users: Places) -> None:
        """The catalogue's places of both columns' ids: of items row by row, of users by the codes that the rows have."""
        self._items.see(items, EVERY)
        self._users.see(codes, users)

    def check(self, user: str, item: str) -> None:
        if self._users.good > self._items.good:
            refuse(
                f"columns {user!r} and {item!r}",
                got="a catalogue that fits the users' column better than the items', so that they look exchanged",
                needed="the people in user=, as they are who is protected",
                try_=f"user={item!r}, item={user!r}; or check_axes=False if they are right",
            )


class PartOfAxes(Axes):
    """What a part of the rows shows, on an executor: it says nothing by itself, and travels to the others as bytes."""

    def check(self, user: str, item: str) -> None:
        pass

    def packed(self) -> bytes:
        return self._items.packed() + self._users.packed()

    @staticmethod
    def together(n_items: int, parts: Iterable[bytes]) -> Axes:
        found = Axes(n_items)
        for part in parts:
            half = len(part) // 2
            found._items.add(part[:half])
            found._users.add(part[half:])
        return found


class _Fit:
    def __init__(self, n_items: int) -> None:
        self._there, self._known, self._rows = np.zeros(n_items, np.bool_), 0, 0

    def see(self, codes: Places, places: Places) -> None:
        self._known += _seen(read_only(codes), read_only(places), self._there)
        self._rows += len(codes)

    @property
    def good(self) -> float:
        return float(self._there.mean()) * self._known / max(self._rows, 1)

    def packed(self) -> bytes:
        return np.array([self._known, self._rows], np.int64).tobytes() + np.packbits(self._there).tobytes()

    def add(self, part: bytes) -> None:
        known, rows = np.frombuffer(part[:16], np.int64).tolist()
        self._there |= np.unpackbits(np.frombuffer(part[16:], np.uint8), count=len(self._there)).astype(np.bool_)
        self._known, self._rows = self._known + known, self._rows + rows


@numba.njit(cache=True, nogil=True)
def _seen(codes, places, there):  # pyright: ignore
    """How many rows have an id of the catalogue; without ``places`` the codes are its places."""
    known = 0
    for code in codes:
        place = code if places.size == 0 else places[code]
        if place >= 0:
            there[place] = True
            known += 1
    return known
