"""Lab room: an engine and billboards that note all that a fit asks and posts, or compare it with what was noted before.

Made-up data only: they keep the raw sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from lowkey.engines.local import Engine, kernel_threads
from lowkey.kernels.sweep import Sweep
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.mechanisms import sha256_of
from lowkey.privacy.noise import NoiseSource, SeededNoise
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.privacy.sums import Statistic, Unreleased
from lowkey.testing.exact import share


class Violation(AssertionError):
    """What was found, at which post, and by how much."""


@dataclass
class Entry:
    """One post of the recorded run."""

    statistic: Statistic
    line: Line
    units: np.ndarray  # the raw sum, in grid units
    posted: np.ndarray
    call: int  # the sweep that it came from
    drawn: list[tuple[float, int]]  # what the sampler was asked for: the scale in units of its (refined) grid, and how many


@dataclass
class Call:
    """One sweep of the recorded run, ready to be run again for any user."""

    sweep: Sweep
    statistics: tuple[Statistic, ...]
    local_from: int | None  # the sweep whose local state it was given


@dataclass
class Record:
    plan: Plan
    entries: list[Entry]
    calls: list[Call]
    model: Model
    opened: int  # how many sums were opened, by whoever

    @property
    def adjacency(self) -> Any:
        return self.plan.unit.neighbours


@dataclass
class WatchingEngine(Engine):
    """A plain engine that notes what it was asked, or compares it with what was noted before."""

    block_size: int = 7
    threads: int = 1
    expected: list[Call] | None = None
    calls: list[Call] = field(default_factory=list)
    made: list[tuple[Unreleased, int]] = field(default_factory=list)

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> Any:
        call = Call(_snapshot(sweep), sweep.statistics, None if local is None else local[0])
        if self.expected is not None:
            self._compare(len(self.calls), call)
        sums = {s.name: np.zeros(s.shape, np.int64) for s in call.statistics}
        parts: list[Any] = []
        with kernel_threads(self.threads):
            blocks = [data._open_whole()] if sweep.needs_everyone else data._open_blocks(self.block_size)
            for i, block in enumerate(blocks):
                parts.append(sweep.run(block, None if local is None else local[1][i], sums))
        self.calls.append(call)
        closed = {s.name: Unreleased(s, sums[s.name]) for s in call.statistics}
        self.made += [(u, len(self.calls) - 1) for u in closed.values()]
        return closed, (len(self.calls) - 1, parts)

    def call_of(self, unreleased: Unreleased) -> int:
        return next((call for made, call in self.made if made is unreleased), -1)

    def _compare(self, at: int, call: Call) -> None:
        assert self.expected is not None
        if at >= len(self.expected):
            raise Violation(f"the neighbour's fit runs more than {len(self.expected)} sweeps")
        known = self.expected[at]
        if type(call.sweep) is not type(known.sweep):
            raise Violation(f"sweep {at} is a {type(call.sweep).__name__} after a {type(known.sweep).__name__}")
        for name, value in vars(call.sweep).items():
            if not same(value, vars(known.sweep)[name]):
                kind = type(call.sweep).__name__
                raise Violation(f"sweep {at}: {name} of {kind} depends on the data beyond the posts")
        if call.statistics != known.statistics:
            raise Violation(f"sweep {at}: a sensitivity, grid or shape depends on the data")


class Overheard:
    """A noise source, and what it was asked for."""

    def __init__(self, noise: NoiseSource) -> None:
        self.noise, self.asked = noise, list[tuple[float, int]]()

    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return self.noise.rounded_gaussian(scale, size)

    def discrete_laplace(self, scale: float, size: int) -> np.ndarray:
        self.asked.append((scale, size))
        return self.noise.discrete_laplace(scale, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.noise, name)


class RecordingBillboard(Billboard):
    """The real billboard; it also keeps each raw sum before it is noised, and the draws that were asked for."""

    def __init__(self, noise: NoiseSource, engine: WatchingEngine | None = None) -> None:
        self.overheard: Any = Overheard(noise)
        super().__init__(noise=self.overheard)
        self.engine, self.entries = engine, list[Entry]()

    def _release(self, unreleased: Unreleased, line: Line) -> tuple[Any, str]:
        units = np.array(unreleased._units)
        self.overheard.asked = []
        posted, sha256 = super()._release(unreleased, line)
        call = -1 if self.engine is None else self.engine.call_of(unreleased)
        drawn = self.overheard.asked
        self.entries.append(Entry(unreleased.statistic, line, units, posted, call, drawn))
        return posted, sha256


class ForcingBillboard(Billboard):
    """Posts what the recorded run posted, after comparing what would have been posted with it."""

    def __init__(self, known: Record) -> None:
        super().__init__(noise=SeededNoise(0))
        self.known, self.at, self.shares = known, 0, dict[str, float]()

    @property
    def largest(self) -> float:
        return max(self.shares.values(), default=0.0)

    def begin(self, plan: Plan, then: tuple[Line, ...] = (), settings: str = "") -> None:
        if plan.to_json() != self.known.plan.to_json():
            raise Violation("the plan depends on the data")
        super().begin(plan, then, settings)

    def _release(self, unreleased: Unreleased, line: Line) -> tuple[Any, str]:
        if self.at >= len(self.known.entries):
            raise Violation(f"post {self.at} ({line.name!r}) does not happen on the neighbour")
        entry = self.known.entries[self.at]
        where = f"post {self.at} ({entry.statistic.name!r})"
        if unreleased.statistic != entry.statistic:
            raise Violation(f"{where}: the statistic depends on the data: {unreleased.statistic} after {entry.statistic}")
        if line != entry.line:
            raise Violation(f"{where}: the noise depends on the data: {line} after {entry.line}")
        moved = check_moved(where, entry, unreleased._open() - entry.units, self.known.adjacency)
        self.shares[line.name] = max(moved, self.shares.get(line.name, 0.0))
        self.at += 1
        return entry.posted, sha256_of(entry.posted)


def check_moved(where: str, entry: Entry, moved: np.ndarray, adjacency: Any) -> float:
    """How far a sum moved, as a share of what was declared. Exact where it is close."""
    share = move_share(entry, moved, adjacency)
    if share > 1.0:
        raise Violation(f"{where}: one user moves the sum by {share:.6g} times the declared sensitivity ({adjacency})")
    return share


def move_share(entry: Entry, moved: np.ndarray, adjacency: Any) -> float:
    statistic, moved = entry.statistic, np.atleast_1d(moved)
    if isinstance(entry.line.mechanism, RandomizedResponse):
        return np.count_nonzero(moved) / entry.line.mechanism.signs
    return share(statistic, moved, adjacency)


@contextmanager
def counted_openings() -> Iterator[list[str]]:
    """Names of the sums that anybody opens meanwhile."""
    opened: list[str] = []
    original = Unreleased._open

    def counting(self: Unreleased) -> np.ndarray:
        opened.append(self.statistic.name)
        return original(self)

    Unreleased._open = counting  # type: ignore[method-assign]
    try:
        yield opened
    finally:
        Unreleased._open = original  # type: ignore[method-assign]


def _snapshot(value: Any) -> Any:
    """A sweep with its own copies of its arrays, wherever among its fields they are."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Sweep):
        return replace(value, **{f.name: _snapshot(getattr(value, f.name)) for f in fields(value)})  # type: ignore[arg-type]
    if isinstance(value, dict):
        return {name: _snapshot(part) for name, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_snapshot, value))
    return value


def arrays_in(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The public arrays that a sweep holds, wherever among its fields they are."""
    if isinstance(value, np.ndarray):
        yield name, value
    parts = vars(value) if isinstance(value, Sweep) else value if isinstance(value, dict) else None
    if parts is None and isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = value._asdict()  # pyright: ignore[reportAttributeAccessIssue]
    for key, part in (parts or {}).items():
        yield from arrays_in(part, key)


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, through mappings and sequences."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if hasattr(a, "items") and hasattr(b, "items"):
        return set(a) == set(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is type(b) and hasattr(a, "__dict__"):
        cached = {name for name, part in vars(type(a)).items() if isinstance(part, cached_property)}
        return same(*({name: part for name, part in vars(x).items() if name not in cached} for x in (a, b)))
    return bool(a == b)
