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
from functools import cached_property
from typing import Any

import numpy as np
from bounds import share
from estimators import Row, ratings_of
from numba import get_num_threads, set_num_threads
from scipy import stats

import lowkey as lk
from lowkey.data.ratings import Block
from lowkey.engines.base import Engine, kernel_threads
from lowkey.kernels.sweep import Sweep
from lowkey.model import Model
from lowkey.privacy.noise import MIN_SCALE, NoiseSource, SeededNoise
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
        return self.plan.adjacency


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
            if not _equal(value, vars(known.sweep)[name]):
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


class RecordingBillboard(lk.Billboard):
    """The real billboard; it also keeps each raw sum before it is noised, and the draws that were asked for."""

    def __init__(self, noise: NoiseSource, engine: WatchingEngine) -> None:
        self.overheard: Any = Overheard(noise)
        super().__init__(noise=self.overheard)
        self.engine, self.entries = engine, list[Entry]()

    def _release(self, unreleased: Unreleased, line: Line) -> Any:
        units = np.array(unreleased._units)
        self.overheard.asked = []
        posted = super()._release(unreleased, line)
        call, drawn = self.engine.call_of(unreleased), self.overheard.asked
        self.entries.append(Entry(unreleased.statistic, line, units, posted, call, drawn))
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


def record(
    estimator: Any,
    domain: lk.Domain,
    rows: list[Row],
    keys: np.ndarray,
    noise: NoiseSource,
    engine: WatchingEngine | None = None,
) -> Record:
    """Run a fit on D and keep everything. Raises if its own books do not balance or its noise is not what was booked."""
    engine = WatchingEngine() if engine is None else engine
    billboard = RecordingBillboard(noise, engine)
    with counted_openings() as openings, one_thread():
        estimator.fit(ratings_of(domain, rows, keys), engine=engine, billboard=billboard)
    assert billboard.plan is not None
    found = Record(billboard.plan, billboard.entries, engine.calls, estimator.model_, len(openings))
    check_books(found)
    if getattr(noise, "factor", 1.0) == 1.0:  # else the noise is wrong on purpose, for another public history
        check_noise(found, noise)
    return found


def replay(known: Record, estimator: Any, domain: lk.Domain, rows: list[Row], keys: np.ndarray, threads: int = 1) -> float:
    """Run the neighbour against the record; returns the largest move as a share of the declared sensitivity."""
    billboard = ForcingBillboard(known)
    engine = WatchingEngine(block_size=1000, threads=threads, expected=known.calls)
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
    return share(statistic, moved, adjacency)


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
    """Of every post: the noise that was really added is as wide as its price says, and no draw was used twice.

    What the sampler was asked for is compared exactly, at every post. What came out is measured at every post too, by its
    own draws alone: a post of n numbers with half the noise is seen if n is 80 or more. The first post of each name is
    measured once more, with enough draws of the same mechanism to see a tenth. Each check has a false alarm of FALSE_ALARM.
    """
    drawn: list[tuple[str, np.ndarray]] = []
    first: dict[str, Entry] = {}
    for at, entry in enumerate(found.entries):
        if entry.line.mechanism.kind in ("none", "randomized-response", "thresholded-gaussian"):
            continue
        first.setdefault(entry.statistic.name, entry)
        where = f"post {at} ({entry.statistic.name!r})"
        _check_asked(where, entry, found.adjacency)
        scaled = standardised_noise(entry, entry.posted, found.adjacency)
        _check_spread(where, entry, scaled)
        rows = scaled.reshape(-1, scaled.shape[-1]) if scaled.shape[-1] >= 16 else scaled.reshape(1, -1)
        drawn += [(where, row) for row in rows[:16]]
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
    _check_spread(repr(entry.statistic.name), entry, np.stack(draws))


def _check_spread(where: str, entry: Entry, scaled: np.ndarray) -> None:
    """Standardised draws have a spread of one, the diagonal of a symmetric matrix apart."""
    diagonal = diagonal_of(entry.statistic.order) if entry.statistic.layout == "symmetric" else np.zeros(0, np.int64)
    laplace = entry.line.mechanism.kind == "laplace"
    for place, part in (("", np.delete(scaled, diagonal, axis=-1)), (" on the diagonal", scaled[..., diagonal])):
        if part.size == 0:
            continue
        # Sums of n squared standard normals, or of n absolute values of a unit Laplace: chi-square laws.
        degrees, size = (2 * part.size, 2.0 * np.abs(part).sum()) if laplace else (part.size, float(np.sum(part**2)))
        if not FALSE_ALARM / 2 < stats.chi2.sf(size, degrees) < 1 - FALSE_ALARM / 2:
            width = size / degrees if laplace else math.sqrt(size / degrees)
            raise Violation(f"{where}{place}: the noise is {width:.3g} times as wide as its price says")


def _check_asked(where: str, entry: Entry, adjacency: Any) -> None:
    """At every post the sampler was given the scales of the price, on a grid just as fine as these scales need."""
    statistic = entry.statistic
    wanted = np.unique(_widths(entry, adjacency)) / statistic.grid.step
    finer = np.maximum(0.0, np.ceil(np.log2(MIN_SCALE / wanted)))
    asked = sum(count for _, count in entry.drawn)
    if asked < statistic.size:
        raise Violation(f"{where}: {asked} draws for {statistic.size} numbers")
    for scale, _ in entry.drawn:
        if not np.isclose(scale, wanted * 2.0**finer, rtol=1e-9, atol=0.0).any():
            raise Violation(f"{where}: the sampler was asked for another scale than that of the price")
    lattice = np.asarray(entry.posted, np.float64) / statistic.grid.step * 2.0 ** finer.max()
    if not np.array_equal(lattice, np.round(lattice)):
        raise Violation(f"{where}: what was posted lies on a finer grid than its price needs: the noise is too narrow")


def standardised_noise(entry: Entry, posted: np.ndarray, adjacency: Any) -> np.ndarray:
    """What was added, in units of what the booked price demands (from mu or epsilon, not from the mechanism's code)."""
    statistic = entry.statistic
    return np.atleast_1d(posted - entry.units * statistic.grid.step) / _widths(entry, adjacency)


def _widths(entry: Entry, adjacency: Any) -> np.ndarray:
    """The scale of the noise on each number of the last axis that the booked price demands."""
    statistic, mechanism = entry.statistic, entry.line.mechanism
    bound = statistic.sensitivity.under(adjacency)
    length = statistic.shape[-1] if statistic.shape else 1
    if mechanism.kind == "laplace":
        return np.full(length, bound / mechanism.epsilon)
    width = np.full(length, bound / mechanism.mu)
    if mechanism.kind == "symmetric-gaussian":
        off = np.ones(length, bool)
        off[diagonal_of(statistic.order)] = False
        width[off] /= math.sqrt(2.0)
    return width


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
