"""Vault room: the public calendar of a stream, and at which of its releases a user speaks: by the own row alone.

Times are whole numbers, seconds for instance. A user is first known at the time of the first rating of theirs. They speak
at the first release at which they have been known for ``wait`` and have ``least`` ratings, or have been known for
``patience``; and with the row as it is then. No other user, no post and no clock of the curator's has a part in it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowkey.errors import refuse

Ints = npt.NDArray[np.int64]
NEVER = np.int64(1) << 40  # a release that no stream reaches


@dataclass(frozen=True)
class Calendar:
    """Release t is made on what is known at ``first + (t - 1) * every``.

    Parameters
    ----------
    first, every : int
        The time of the first release, and the time between two.
    wait, patience : int
        People speak so long after their first rating, if they have enough of them, or so long at the latest.
    least : int
        Ratings that are enough.
    again : int
        Releases after which people speak again; 0: never.

    Examples
    --------
    >>> calendar = lk.Calendar.weekly(first=1_767_225_600)  # doctest: +SKIP
    """

    first: int
    every: int
    wait: int
    patience: int
    least: int = 5
    again: int = 0  # whoever has spoken speaks again after so many releases, with the row as it is then; 0: never

    def __post_init__(self) -> None:
        whole = all(isinstance(value, int) for value in asdict(self).values())
        if not whole or self.every < 1 or not 0 <= self.wait <= self.patience or self.least < 1 or self.again < 0:
            refuse(
                "calendar",
                got="other values",
                needed="whole numbers: every above 0, 0 <= wait <= patience, least above 0",
                try_="Calendar.weekly(first=…)",
            )

    @classmethod
    def weekly(cls, first: int, again: int = 0) -> Calendar:
        """Seconds: a release a week; people speak after a week with five ratings, or after four weeks."""
        week = 7 * 86_400
        return cls(first, week, wait=week, patience=4 * week, again=again)

    def time_of(self, release: int) -> int:
        return self.first + (release - 1) * self.every

    def release_at(self, times: Ints) -> Ints:
        """The number of the first release at or after each time; 1 for all that is before the first."""
        return np.maximum(1, -((self.first - times) // self.every) + 1)

    def due(self, now: int) -> int:
        """How many releases can be made at a time."""
        return max(0, (now - self.first) // self.every + 1)

    def speaks_at(self, offsets: Ints, times: Ints) -> Ints:
        """The release of every user, whose ratings' times rise within ``offsets``; users without ratings never speak."""
        counts = np.diff(offsets)
        release = np.full(len(counts), NEVER)
        some = counts > 0
        start = offsets[:-1][some]
        known = times[start]
        patient = self.release_at(known + self.patience)
        release[some] = patient
        many = counts[some] >= self.least
        ready = np.maximum(known[many] + self.wait, times[start[many] + self.least - 1])
        release[np.flatnonzero(some)[many]] = np.minimum(patient[many], self.release_at(ready))
        return release

    def speak(self, first: Ints, release: int) -> Ints:
        """Who speaks at a release, by when each spoke first."""
        since = release - first
        return np.flatnonzero((since == 0) | ((since > 0) & (self.again > 0) & (since % max(self.again, 1) == 0)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
