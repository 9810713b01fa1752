"""The replay harness: whole fits on neighbouring data, with the public history of the first forced upon the second.

``record`` runs a fit on D and keeps every raw sum and every post. ``replay`` runs it on a neighbour and posts the same
values again, so both runs see the same billboard. Then everything that is public must be equal (plan, order, noise,
statistics, arguments of the sweeps, the finished model), and the raw sums may differ by the declared sensitivity, which
is compared exactly, in whole grid units. ``contributions`` is the cheap form for many users: by additivity, what a user
adds to a sum is the sum over that user alone. Only the whole replay sees a coupling between users.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from estimators import Row, ratings_of
from numba import get_num_threads, set_num_threads
from scipy import stats

import lowkey as lk
from lowkey.data.ratings import Block
from lowkey.engines.base import Engine, bound
from lowkey.kernels.sweep import Sweep
from lowkey.model import Model
from lowkey.privacy.noise import NoiseSource, SeededNoise
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Statistic, Unreleased

FALSE_ALARM = 1e-9  # of each statistical check of the noise, for noise that is right
ENOUGH_DRAWS = 2000  # for such a check to see a tenth more or less


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
        return self.plan.adjacency


@dataclass
class WatchingEngine(Engine):
    """A plain engine that notes what it was asked, or compares it with what was noted before."""

    block_size: int = 7
    expected: list[Call] | None = None
    calls: list[Call] = field(default_factory=list)
    made: list[tuple[Unreleased, int]] = field(default_factory=list)

    def sweep(self, sweep: Any, data: Any, local: Any = None, public: Any = None) -> Any:
        sweep = bound(sweep, public)
        call = Call(_snapshot(sweep), sweep.statistics, None if local is None else local[0])
        if self.expected is not None:
            self._compare(len(self.calls), call)
        sums = {s.name: np.zeros(s.shape, np.int64) for s in call.statistics}
        parts: list[Any] = []
        for i, block in enumerate(data.blocks(self.block_size)):
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
            if not _equal(value, vars(known.sweep)[name]):
                kind = type(call.sweep).__name__
                raise Violation(f"sweep {at}: {name} of {kind} depends on the data beyond the posts")
        if call.statistics != known.statistics:
            raise Violation(f"sweep {at}: a sensitivity, grid or shape depends on the data")


class RecordingBillboard(lk.Billboard):
    """The real billboard; it also keeps each raw sum before it is noised."""

    def __init__(self, noise: NoiseSource, engine: WatchingEngine) -> None:
        super().__init__(noise=noise)
        self.engine, self.entries = engine, list[Entry]()

    def _release(self, unreleased: Unreleased, line: Line) -> Any:
        units = np.array(unreleased._units)
        posted = super()._release(unreleased, line)
        self.entries.append(Entry(unreleased.statistic, line, units, posted, self.engine.call_of(unreleased)))
        return posted


class ForcingBillboard(lk.Billboard):
    """Posts what the recorded run posted, after comparing what would have been posted with it."""

    def __init__(self, known: Record) -> None:
        super().__init__(noise=SeededNoise(0))
        self.known, self.at, self.largest = known, 0, 0.0

    def begin(self, plan: Plan) -> None:
        if plan.to_json() != self.known.plan.to_json():
            raise Violation("the plan depends on the data")
        super().begin(plan)

    def _release(self, unreleased: Unreleased, line: Line) -> Any:
        if self.at >= len(self.known.entries):
            raise Violation(f"post {self.at} ({line.name!r}) does not happen on the neighbour")
        entry = self.known.entries[self.at]
        where = f"post {self.at} ({entry.statistic.name!r})"
        if unreleased.statistic != entry.statistic:
            raise Violation(f"{where}: the statistic depends on the data: {unreleased.statistic} after {entry.statistic}")
        if line != entry.line:
            raise Violation(f"{where}: the noise depends on the data: {line} after {entry.line}")
        self.largest = max(self.largest, check_moved(where, entry, unreleased._open() - entry.units, self.known.adjacency))
        self.at += 1
        return entry.posted


def record(estimator: Any, domain: lk.Domain, rows: list[Row], keys: np.ndarray, noise: NoiseSource) -> Record:
    """Run a fit on D and keep everything. Raises if its own books do not balance or its noise is not what was booked."""
    engine = WatchingEngine()
    billboard = RecordingBillboard(noise, engine)
    with counted_openings() as openings, one_thread():
        estimator.fit(ratings_of(domain, rows, keys), engine=engine, billboard=billboard)
    assert billboard.plan is not None
    found = Record(billboard.plan, billboard.entries, engine.calls, estimator.model_, len(openings))
    check_books(found)
    if getattr(noise, "factor", 1.0) == 1.0:  # else the noise is wrong on purpose, for another public history
        check_noise(found, noise)
    return found


def replay(known: Record, estimator: Any, domain: lk.Domain, rows: list[Row], keys: np.ndarray) -> float:
    """Run the neighbour against the record; returns the largest move as a share of the declared sensitivity."""
    billboard = ForcingBillboard(known)
    engine = WatchingEngine(block_size=1000, expected=known.calls)
    with one_thread():
        estimator.fit(ratings_of(domain, rows, keys), engine=engine, billboard=billboard)
    if (billboard.at, len(engine.calls)) != (len(known.entries), len(known.calls)):
        raise Violation("the neighbour's fit posts or sweeps less often")
    ours, theirs = estimator.model_, known.model
    for part in ("method", "rule", "settings", "arrays"):
        if not _equal(getattr(ours, part), getattr(theirs, part)):
            raise Violation(f"the model's {part} depend on the data beyond the posts: something was released unbooked")
    return billboard.largest


def check_moved(where: str, entry: Entry, moved: np.ndarray, adjacency: Any) -> float:
    """How far a sum moved, as a share of what was declared. Exact where it is close."""
    share = move_share(entry, moved, adjacency)
    if share > 1.0:
        raise Violation(f"{where}: one user moves the sum by {share:.6g} times the declared sensitivity ({adjacency})")
    return share


def move_share(entry: Entry, moved: np.ndarray, adjacency: Any) -> float:
    statistic, moved = entry.statistic, np.atleast_1d(moved)
    if entry.line.mechanism.kind == "randomized-response":
        return np.count_nonzero(moved) / entry.line.mechanism.signs
    weights = np.ones(moved.shape[-1], np.int64)
    if statistic.layout == "symmetric":
        weights[:] = 2
        weights[diagonal_of(statistic.order)] = 1
    allowed = Fraction(statistic.sensitivity.under(adjacency)) / Fraction(2) ** statistic.grid.exponent
    power = 1 if statistic.sensitivity.norm == "l1" else 2
    rough = float(np.sum(weights * np.abs(moved.astype(np.float64)) ** power)) ** (1 / power) / float(allowed)
    if abs(rough - 1.0) > 1e-6:
        return rough
    exact = sum(int(w) * abs(int(d)) ** power for w, d in np.broadcast(weights, moved))
    return min(rough, 1.0) if exact <= allowed**power else max(rough, 1.0 + 1e-12)


def diagonal_of(order: int) -> np.ndarray:
    """Where the diagonal lies in a packed upper triangle, row by row."""
    rows, columns = np.triu_indices(order)
    return np.flatnonzero(rows == columns)


def check_books(found: Record) -> None:
    """Every opening is a post, every post was reserved and committed at the price of its plan's line."""
    records = found.model.ledger.records
    reserved = [r for r in records if r["kind"] == "reserve"]
    committed = [r["reservation"] for r in records if r["kind"] == "commit"]
    if found.opened != len(found.entries) or len(reserved) != len(found.entries):
        raise Violation(f"{found.opened} private sums were opened, {len(reserved)} were booked: a release is not booked")
    if committed != [r["seq"] for r in reserved]:
        raise Violation("a post was not committed after its reservation")
    planned = {line.name: line for line in found.plan.lines}
    for entry, line in zip(found.entries, found.model.ledger.spent(), strict=True):
        booked, wanted = line.to_json(), {**planned[entry.statistic.name].to_json(), "times": 1}
        if booked != wanted or line.size < entry.statistic.size:
            raise Violation(f"{entry.statistic.name!r} was booked as {booked}, planned as {wanted}")
    for name, line in planned.items():
        posts = sum(entry.statistic.name == name for entry in found.entries)
        if posts > line.times:
            raise Violation(f"{name!r} was posted {posts} times, planned {line.times} times")


def check_noise(found: Record, noise: NoiseSource) -> None:
    """The noise that was really added is as wide as its price says (within about 10 %), and no draw was used twice."""
    drawn: list[tuple[str, np.ndarray]] = []
    first: dict[str, Entry] = {}
    for at, entry in enumerate(found.entries):
        if entry.line.mechanism.kind in ("none", "randomized-response", "thresholded-gaussian"):
            continue
        first.setdefault(entry.statistic.name, entry)
        scaled = standardised_noise(entry, entry.posted, found.adjacency)
        rows = scaled.reshape(-1, scaled.shape[-1]) if scaled.shape[-1] >= 16 else scaled.reshape(1, -1)
        drawn += [(f"post {at} ({entry.statistic.name!r})", row) for row in rows]
    for i, (where, row) in enumerate(drawn):
        for other, earlier in drawn[:i]:
            n = min(row.size, earlier.size)
            # Of independent rows of 16 numbers or more, a correlation above 0.999 has a chance below 1e-15.
            if n >= 16 and abs(np.corrcoef(row[:n], earlier[:n])[0, 1]) > 0.999:
                raise Violation(f"{where} uses the noise of {other} again")
    for entry in first.values():
        _check_width(entry, found.adjacency, noise)


def _check_width(entry: Entry, adjacency: Any, noise: NoiseSource) -> None:
    """The post's own draw and more of the same mechanism, the diagonal of a symmetric matrix apart."""
    diagonal = diagonal_of(entry.statistic.order) if entry.statistic.layout == "symmetric" else np.zeros(0, np.int64)
    draws, posted = list[np.ndarray](), entry.posted
    while len(draws) * (len(diagonal) or entry.units.size) < ENOUGH_DRAWS:
        draws.append(standardised_noise(entry, posted, adjacency))
        posted = entry.line.mechanism.apply(entry.units.copy(), entry.statistic, adjacency, noise)
    every = np.stack(draws)
    laplace = entry.line.mechanism.kind == "laplace"
    for where, part in (("", np.delete(every, diagonal, axis=-1)), (" on the diagonal", every[..., diagonal])):
        if part.size == 0:
            continue
        # Sums of n squared standard normals, or of n absolute values of a unit Laplace: chi-square laws.
        degrees, size = (2 * part.size, 2.0 * np.abs(part).sum()) if laplace else (part.size, float(np.sum(part**2)))
        if not FALSE_ALARM / 2 < stats.chi2.sf(size, degrees) < 1 - FALSE_ALARM / 2:
            width = size / degrees if laplace else math.sqrt(size / degrees)
            raise Violation(f"{entry.statistic.name!r}{where}: the noise is {width:.3g} times as wide as its price says")


def standardised_noise(entry: Entry, posted: np.ndarray, adjacency: Any) -> np.ndarray:
    """What was added, in units of what the booked price demands (from mu or epsilon, not from the mechanism's code)."""
    statistic, mechanism = entry.statistic, entry.line.mechanism
    added = np.atleast_1d(posted - entry.units * statistic.grid.step)
    bound = statistic.sensitivity.under(adjacency)
    if mechanism.kind == "laplace":
        return added * mechanism.epsilon / bound
    width = np.full(added.shape[-1], bound / mechanism.mu)
    if mechanism.kind == "symmetric-gaussian":
        off = np.ones(added.shape[-1], bool)
        off[diagonal_of(statistic.order)] = False
        width[off] /= math.sqrt(2.0)
    return added / width


def contributions(known: Record, row: Row, key: int) -> list[np.ndarray]:
    """What one user adds to each posted sum of the recorded run, in grid units."""
    items, values = row
    block = Block(np.array([0, len(items)]), items, np.asarray(values, np.float32), np.array([key], np.uint64))
    sums: list[dict[str, np.ndarray]] = []
    locals_: list[Any] = []
    with one_thread():
        for call in known.calls:
            parts = {s.name: np.zeros(s.shape, np.int64) for s in call.statistics}
            local = None if call.local_from is None else locals_[call.local_from]
            locals_.append(call.sweep.run(block, local, parts))
            sums.append(parts)
    return [sums[entry.call][entry.statistic.name] for entry in known.entries]


@contextmanager
def one_thread() -> Iterator[None]:
    """For tiny data: handing a few rows to a second thread takes longer than working on them."""
    before = get_num_threads()
    set_num_threads(1)
    try:
        yield
    finally:
        set_num_threads(before)


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
        parts = value._asdict()
    for key, part in (parts or {}).items():
        yield from arrays_in(part, key)


def _equal(a: Any, b: Any) -> bool:
    """Equal to the bit, through mappings and sequences."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if hasattr(a, "items") and hasattr(b, "items"):
        return set(a) == set(b) and all(_equal(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is type(b) and hasattr(a, "__dict__"):
        cached = {name for name, part in vars(type(a)).items() if isinstance(part, cached_property)}
        return _equal(*({name: part for name, part in vars(x).items() if name not in cached} for x in (a, b)))
    return bool(a == b)
