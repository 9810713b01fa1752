"""Public room: a curator whose answers are the running sums of a stream: posted in parts, kept, and decoded.

A method asks as ever, and gets sums over all who have spoken, with the noise that they have; it need not know of cohorts.
What a sweep adds for a user must be the same at every release, else decoding would mix sums of different things. (That is
a matter of sense. The price holds whatever is asked: it rests on the bound and on when a user speaks.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.ratings import Ratings
from lowkey.engines.base import Engine
from lowkey.errors import InputError, LedgerError
from lowkey.kernels.sweep import Sweep
from lowkey.methods.curator import Curator, Posts, fingerprint_of
from lowkey.privacy.billboard import Billboard, sha256_of
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.parts import Parts
from lowkey.privacy.sums import UnreleasedPart

Array = NDArray[np.float64]


class StreamCurator(Curator):
    """Release ``release`` of a stream. Without ``cohorts`` it is made again from what was posted, and touches no data."""

    def __init__(
        self, billboard: Billboard, posts: KeptPosts, release: int, cohorts: Sequence[Ratings] | None, engine: Engine
    ) -> None:
        super().__init__(cohorts, engine, billboard)
        assert billboard.plan is not None and billboard.plan.schedule is not None  # noqa: PT018
        self._schedule, self._posts, self._release = billboard.plan.schedule, posts, release

    def ask(self, sweep: Sweep, local: Any = None) -> Posts:
        if sweep.keeps_state or sweep.needs_everyone or local is not None:
            raise TypeError(f"{type(sweep).__name__}: users of a stream keep nothing between passes")
        fingerprint = fingerprint_of(sweep)
        names = [statistic.name for statistic in sweep.statistics]
        self._adopt(names, fingerprint)
        parts = self._so_far()
        missing = [name for name in names if (name, self._release) not in parts.posted]
        if missing:
            self._post(sweep, missing, fingerprint)
            parts = self._so_far()
        decoded = {name: self._decoded(parts, name, fingerprint) for name in names}
        factor = float(self._schedule.noise[self._release - 1])
        return Posts(decoded, {name: factor * std for name, std in self.noise(sweep).items()})

    def _so_far(self) -> Parts:
        return self.billboard.ledger.parts(self._schedule.name)

    def _adopt(self, names: list[str], fingerprint: str) -> None:
        """What a crash left drawn and kept, but not committed, is committed as it is: a second draw would cost more."""
        parts = self._so_far()
        for name in names:
            part = name, self._release
            if part in parts.drawn and part not in parts.posted:
                kept = self._kept(parts.drawn[part], name, fingerprint)
                if kept is not None:
                    self.billboard.ledger.commit(parts.drawn[part], sha256_of(kept))

    def _kept(self, seq: int, name: str, fingerprint: str) -> Array | None:
        return self._posts.find(seq, name, self.billboard.key(seq, fingerprint))

    def _post(self, sweep: Sweep, names: list[str], fingerprint: str) -> None:
        if self._data is None:
            raise InputError(
                what=f"release {self._release}", got="one that is not posted", needed="ratings", try_="release(ratings)"
            )
        sums = [self._engine.sweep(sweep, cohort)[0] for cohort in self._data]
        for name in names:
            part = UnreleasedPart(self._schedule, self._release, [cohort[name] for cohort in sums])
            self.billboard.post(part, fingerprint)

    def _decoded(self, parts: Parts, name: str, fingerprint: str) -> Array:
        posts = list[Array]()
        for release in range(1, self._release + 1):
            kept = self._kept(parts.drawn[name, release], name, fingerprint)
            if kept is None or sha256_of(kept) != parts.posted[name, release]:
                raise LedgerError(
                    what=f"what was posted as {name!r} at release {release}",
                    got="none, or something else",
                    needed="the file that was kept: later sums are decoded with it",
                    try_="any copy of the stream's folder of posts, which is public",
                )
            posts.append(kept)
        return self._schedule.decoded(self._release, posts)
