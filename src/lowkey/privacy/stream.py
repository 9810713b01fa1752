"""Gate room: a horizon of releases at the price of one: what each post holds of each cohort, exactly, and how to decode.

A user speaks once, at a release s that follows from the user's own row and the calendar, with a contribution of norm at
most the sensitivity. Post t is E_t = sum over s <= t of C_ts x_s + fresh noise, x_s the sum over those who speak at s.
C is kept as whole numbers of 2^-24, so that the norms of its columns are compared without rounding, and a term is
floor(c_ts x_s / 2^24) in the sum's own grid units. One user's d moves it by c_ts d / 2^24 + e with |e| < 1 where d is not
0. Over all T posts of n numbers (off-diagonal ones count twice) that is at most |C_s| |d| + sqrt(2 T n) steps, and twice
the steps where a user is replaced. So columns have norm 1 - ``SPARE`` at most, and the steps have to fit into what is
spared (``check_fits``). Somebody who speaks again every ``again`` releases moves post t by at most the sum of |c_ts| over
those s, times the sensitivity: then it is the norms of these sums of columns that are held. docs/refresh.md has the
theorem. Nothing here may wrap around, as floor(c x) of a sum that did would not: no contribution has more than 2^40
units, and no more than ``MOST_SPEAKERS`` speak at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.errors import PlanError
from lowkey.privacy import factorisations
from lowkey.privacy.sums import WEIGHT_BITS, Adjacency, Statistic

ONE = 1 << WEIGHT_BITS
SPARE = 2.0**-10
LARGEST_NORM = int((1.0 - SPARE) * ONE)  # of a column, in units of 2^-24
MOST_UNITS = 1 << 40
ROOT_TWO = math.sqrt(2.0) * (1.0 + 2.0**-50)
MOST_SPEAKERS = 1 << 22

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Schedule:
    """C of a stream, and which sums it is for. ``name`` is drawn when the stream is made: it tells streams apart."""

    name: str
    half_life: float | None  # in releases
    window: int | None
    coefficients: tuple[tuple[int, ...], ...]  # row t - 1: c_t1 ... c_tt
    again: int = 0  # a user speaks again after so many releases, and again; 0: never

    def __post_init__(self) -> None:
        rows = self.coefficients
        if not rows or any(len(row) != t + 1 or row[t] < 1 for t, row in enumerate(rows)):
            raise _no_schedule("coefficients that are not a lower triangle with a positive diagonal")
        for s in range(min(len(rows), self.again or len(rows))):  # exact: Python's whole numbers
            if sum(sum(map(abs, self._spoken(row, s))) ** 2 for row in rows) > LARGEST_NORM**2:
                raise _no_schedule(f"column {s + 1} of a norm above {LARGEST_NORM / ONE:.6f}")

    def _spoken(self, row: tuple[int, ...], first: int) -> tuple[int, ...]:
        """What a post holds of somebody who spoke first at a release (counted from 0)."""
        return row[first :: self.again] if self.again else row[first : first + 1]

    @classmethod
    def optimal(
        cls, name: str, horizon: int, half_life: float | None = None, window: int | None = None, again: int = 0
    ) -> Schedule:
        encoder = factorisations.optimal(horizon, half_life, window)
        encoder = encoder / factorisations.loudest(encoder, again)
        # Towards zero: a column's norm can only fall. (2^-40: what floating point may add to it.)
        units = np.trunc(encoder * (LARGEST_NORM * (1.0 - 2.0**-40))).astype(np.int64).tolist()
        return cls(name, half_life, window, tuple(tuple(row[: t + 1]) for t, row in enumerate(units)), again)

    @property
    def horizon(self) -> int:
        return len(self.coefficients)

    @cached_property
    def encoder(self) -> Array:
        found = np.zeros((self.horizon, self.horizon))
        for t, row in enumerate(self.coefficients):
            found[t, : t + 1] = np.array(row) / ONE
        return found

    @cached_property
    def wanted(self) -> Array:
        """A: how much of each cohort is wanted in the sum of each release."""
        return factorisations.wanted(self.horizon, self.half_life, self.window)

    @cached_property
    def decoder(self) -> Array:
        """B: of the C that is really used, so that decoding is exact whatever was rounded."""
        return factorisations.decoder(self.wanted, self.encoder)

    @cached_property
    def noise(self) -> Array:
        """Of each decoded sum the noise's standard deviation over that of one post."""
        return factorisations.noise(self.decoder)

    def weights(self, release: int) -> tuple[int, ...]:
        """c_t1 ... c_tt; releases are numbered from 1."""
        self.check_release(release)
        return self.coefficients[release - 1]

    def check_release(self, release: int) -> None:
        if not 1 <= release <= self.horizon:
            raise PlanError(
                what="a release outside of the stream",
                got=f"release {release}",
                needed=f"1 to {self.horizon}: the price was fixed for these",
                try_="a new stream, whose price adds to this one's for everybody who speaks in both",
            )

    def statistic_of(self, statistic: Statistic) -> Statistic:
        """A sum over users as a stream has to pay for it: whoever replaces somebody may speak in another week.

        a at s in place of b at r: |C_s|^2 |a|^2 + |C_r|^2 |b|^2 - 2 (C_s . C_r) a . b is linear in C_s . C_r, which lies in
        [0, 1] if no coefficient is negative: between |a|^2 + |b|^2 <= 2 bound^2 and |a - b|^2. So replace-one is sqrt(2)
        times add/remove at least.
        """
        bound = statistic.sensitivity
        wider = replace(bound, replace_one=max(bound.replace_one, ROOT_TWO * bound.add_remove))
        return replace(statistic, sensitivity=wider)

    def check_fits(self, statistic: Statistic, adjacency: Adjacency) -> None:
        """Refuse a sum on too coarse or too fine a grid for the argument above."""
        sensitivity, step = statistic.sensitivity, statistic.grid.step
        times = math.ceil(self.horizon / self.again) if self.again else 1
        rounding = times * 2.0 * math.sqrt(2.0 * self.horizon * statistic.size) * step
        if rounding > SPARE * sensitivity.add_remove or sensitivity.add_remove > MOST_UNITS * step:
            raise _no_schedule(f"{statistic.name!r}, whose grid is too coarse or too fine for a stream")
        if sensitivity.norm != "l2" or statistic.max_keys is not None:
            raise _no_schedule(f"{statistic.name!r}, which is not a sum of vectors bounded in the L2 norm")
        negative = any(c < 0 for row in self.coefficients for c in row)
        if adjacency == "replace-one" and (negative or self.again or self.statistic_of(statistic) != statistic):
            raise _no_schedule("replace-one with negative coefficients, as windows need them, or people who speak again")

    def decoded(self, release: int, posts: Iterable[Array]) -> Array:
        """S_t from E_1 ... E_t: public arithmetic."""
        total: Any = 0.0
        for weight, post in zip(self.decoder[release - 1, :release].tolist(), posts, strict=True):
            total += weight * post
        return total

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "half_life": self.half_life,
            "window": self.window,
            "coefficients": [list(row) for row in self.coefficients],
            **({"again": self.again} if self.again else {}),
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Schedule:
        rows = tuple(tuple(int(c) for c in row) for row in fields["coefficients"])
        return cls(fields["name"], fields["half_life"], fields["window"], rows, int(fields.get("again", 0)))


def _no_schedule(got: str) -> PlanError:
    return PlanError(
        what="a stream whose price would not be that of one release",
        got=got,
        needed="columns of norm at most 1, and sums that are weighted without loss",
        try_="Schedule.optimal",
    )
