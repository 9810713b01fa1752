"""Public room: a curator whose answers are the sums of a stream: posted in parts, kept, and decoded or averaged.

A method asks as ever, and gets sums over all who have spoken, with the noise that they have; it need not know of cohorts.
A cohort is asked once: with the sweep of the release at which it speaks, whatever is known later. So its sum is the same in
all later posts, and decoding gives the sum over cohorts exactly. What a sweep knows of the posts (centres, shares, a head)
differs between cohorts; methods in streams ask so that this is of second order. Or all are asked anew at each release, and
the posts are averaged (``ask_anew``, ``loudest``). The price holds whatever is asked: it rests on the bound and on when a
user speaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.ratings import Ratings
from lowkey.engines.local import Engine
from lowkey.errors import InputError, LedgerError
from lowkey.kernels.sweep import Sweep
from lowkey.methods.curator import Curator, Posts
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.chain import whole_file
from lowkey.privacy.kept import KeptPosts, unwritten
from lowkey.privacy.mechanisms import sha256_of
from lowkey.privacy.parts import Parts
from lowkey.privacy.sums import UnreleasedPart

Array = NDArray[np.float64]


class Asked:
    """What each cohort was asked, in the folder of posts: as public as they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, release: int, sweep: Sweep) -> None:
        """Once: a release that is made again asks the same."""
        path = self._path(release, sweep)
        if path.exists():
            return
        try:
            with whole_file(path) as file:
                np.savez_compressed(file, **_numbers(sweep))
        except OSError as error:
            raise unwritten(self.folder, error, "nothing was posted to this cohort's question") from None

    def find(self, release: int, sweep: Sweep) -> Sweep:
        """``sweep`` as the cohort of a release was asked it."""
        path = self._path(release, sweep)
        if not path.exists():
            raise _lost(f"what was asked at release {release}")
        try:
            with np.load(path, allow_pickle=False) as held:
                return _with_numbers(sweep, dict(held))
        except Exception:  # whatever numpy makes of a file that is not what was written
            raise _lost(f"what was asked at release {release}, as it was") from None

    def _path(self, release: int, sweep: Sweep) -> Path:
        return self.folder / f"asked-{release}-{sweep.statistics[0].name}.npz"


class StreamCurator(Curator):
    """Release ``release`` of a stream. Without ``cohorts`` it is made again from what was posted, and touches no data."""

    def __init__(
        self, billboard: Billboard, posts: KeptPosts, release: int, cohorts: Sequence[Ratings] | None, engine: Engine
    ) -> None:
        super().__init__(cohorts, engine, billboard)
        assert billboard.plan is not None and billboard.plan.schedule is not None  # noqa: PT018
        self._schedule, self._posts, self._release = billboard.plan.schedule, posts, release
        self._asked, self._seen = Asked(posts.folder), set[str]()

    def ask(self, sweep: Sweep, local: Any = None) -> Posts:
        if local is not None:
            raise TypeError(f"{type(sweep).__name__}: users of a stream keep nothing between passes")
        parts = self._posted(sweep, once=True)
        decoded = {s.name: self._schedule.decoded(self._release, self._kept(parts, s.name)) for s in sweep.statistics}
        factor = float(self._schedule.noise[self._release - 1])
        return Posts(decoded, {name: factor * std for name, std in self.noise(sweep).items()})

    def ask_of_model(self, sweep: Sweep) -> Posts:
        """All cohorts are asked the same, and there is nothing to add up: this release's post as it is, in which cohort s
        has the weight C_ts."""
        parts = self._posted(sweep, once=False)
        return Posts({s.name: list(self._kept(parts, s.name))[-1] for s in sweep.statistics}, self.noise(sweep))

    def ask_anew(self, sweep: Sweep) -> None:
        """All cohorts are asked this release's question; ``loudest`` tells what came of all posts so far.

        For windows cohorts are asked once all the same: without negative weights nobody can be left out again.
        """
        self._asked.keep(self._release, sweep)
        self._posted(sweep, once=self.exact)

    def asked(self, sweep: Sweep) -> list[Any]:
        """A sweep as it was asked at every release up to this one at which it was posted."""
        name, posted = sweep.statistics[0].name, self._so_far().posted
        return [self._asked.find(s, sweep) for s in range(1, self._release + 1) if (name, s) in posted]

    @property
    def exact(self) -> bool:
        """Whether sums have to be decoded exactly: every cohort with one contribution, and none beside those wanted."""
        return self._schedule.window is not None

    def posts(self, sweep: Sweep, last: int | None = None) -> Iterator[Array]:
        """Every post of a sweep as it was made, up to this release or an earlier one."""
        return self._kept(self._so_far(), sweep.statistics[0].name, last)

    def loudest(self, sweep: Sweep, cuts: Sequence[tuple[Any, Array]], people: float) -> list[tuple[Array, float]]:
        """Of some numbers of every post the average in which people are loudest beside the noise, and its noise.

        Post s holds heard_s people (those of cohort r count C_sr), and all posts have the same noise. Among all sums of
        b_s E_s that with b = heard has most people over noise, |heard|^2 over |heard| (Cauchy and Schwarz). Everybody is
        in it with a weight (b C)_r, none negative; of what was asked differently at each release there is a part of each.
        A stream that forgets takes older posts for less. The average is as large as a sum over ``people``.
        """
        count, (std,) = len(cuts[0][1]), self.noise(sweep).values()
        wanted = self._schedule.wanted[self._release - 1, :count]
        weights = [wanted * heard * people / max(float(wanted * heard @ heard), 1e-300) for _, heard in cuts]
        if self.exact:
            weights = [self._schedule.decoder[count - 1, :count]] * len(cuts)
        totals: list[Any] = [0.0] * len(cuts)
        for s, post in enumerate(self.posts(sweep, count)):
            totals = [total + of[s] * post[cut] for total, of, (cut, _) in zip(totals, weights, cuts, strict=True)]
        return [(total, std * float(np.linalg.norm(of))) for total, of in zip(totals, weights, strict=True)]

    def _posted(self, sweep: Sweep, *, once: bool) -> Parts:
        """What is posted once this release's part of a sweep is."""
        if sweep.keeps_state or sweep.needs_everyone:
            raise TypeError(f"{type(sweep).__name__}: users of a stream keep nothing between passes")
        names = [statistic.name for statistic in sweep.statistics]
        self._adopt(names)
        parts = self._so_far()
        missing = [name for name in names if (name, self._release) not in parts.posted]
        if not missing:
            return parts
        self._post(sweep, missing, once)
        return self._so_far()

    def noise(self, sweep: Sweep) -> dict[str, float]:
        """Of one post; decoded sums have ``schedule.noise`` times as much."""
        found = {s.name: self.billboard.noise_std(self._schedule.statistic_of(s)) for s in sweep.statistics}
        return {name: std for name, std in found.items() if std is not None}

    def _so_far(self) -> Parts:
        return self.billboard.ledger.parts(self._schedule.name)

    def _adopt(self, names: list[str]) -> None:
        """What a crash left drawn and kept, but not committed, is committed as it is: a second draw would cost more."""
        parts = self._so_far()
        for name in names:
            part = name, self._release
            if part in parts.drawn and part not in parts.posted:
                kept = self._found(parts.drawn[part], name)
                if kept is not None:
                    self.billboard.ledger.commit(parts.drawn[part], sha256_of(kept))

    def _post(self, sweep: Sweep, names: list[str], once: bool) -> None:
        if self._data is None:
            raise InputError(
                what=f"release {self._release}", got="one that is not posted", needed="ratings", try_="release(ratings)"
            )
        found = {s.name: UnreleasedPart(self._schedule, self._release, s) for s in sweep.statistics if s.name in names}
        if once:
            self._asked.keep(self._release, sweep)
        for release, cohort in enumerate(self._data, 1):
            sums = self._engine.sweep(self._asked.find(release, sweep) if once else sweep, cohort)[0]
            for name, part in found.items():
                part.take(sums[name])
        for part in found.values():
            self.billboard.post(part)

    def _kept(self, parts: Parts, name: str, last: int | None = None) -> Iterator[Array]:
        for release in range(1, (self._release if last is None else last) + 1):
            kept, sha256 = self._found(parts.drawn[name, release], name), parts.posted[name, release]
            if kept is None or (sha256 not in self._seen and sha256_of(kept) != sha256):
                raise _lost(f"what was posted as {name!r} at release {release}")
            self._seen.add(sha256)  # hashing takes longer than reading
            yield kept

    def _found(self, seq: int, name: str) -> Array | None:
        """Whatever it was asked: that is on record by itself."""
        return self._posts.find(seq, name, self.billboard.key(seq, ""))


def _lost(what: str) -> LedgerError:
    return LedgerError(
        what=what,
        got="none, or something else",
        needed="the file that was kept: later sums are made with it",
        try_="any copy of the stream's folder of posts, which is public",
    )


def _numbers(sweep: Any, prefix: str = "") -> dict[str, Any]:
    """The numbers among a sweep's public fields, also those of a sweep within it; the rest is the method's for good."""
    found = dict[str, Any]()
    for field in fields(sweep):
        value = getattr(sweep, field.name)
        if is_dataclass(value):
            found |= _numbers(value, f"{prefix}{field.name}.")
        elif isinstance(value, float | np.ndarray):
            found[prefix + field.name] = value
    return found


def _with_numbers(sweep: Any, held: dict[str, Any], prefix: str = "") -> Any:
    changes = dict[str, Any]()
    for field in fields(sweep):
        name, value = prefix + field.name, getattr(sweep, field.name)
        if is_dataclass(value):
            changes[field.name] = _with_numbers(value, held, f"{name}.")
        elif name in held:
            changes[field.name] = float(held[name]) if isinstance(value, float) else held[name]
    return replace(sweep, **changes)
