"""Lab room: does a recorded fit keep its own books, and is its noise as wide as booked?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from lowkey.privacy.noise import MIN_SCALE, NoiseSource
from lowkey.testing.watching import Entry, Record, Violation

FALSE_ALARM = 1e-9  # of each statistical check of the noise, for noise that is right
ENOUGH_DRAWS = 2000  # for such a check to see a tenth more or less


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
    wanted = np.unique(widths(entry, adjacency)) / statistic.grid.step
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
    return np.atleast_1d(posted - entry.units * statistic.grid.step) / widths(entry, adjacency)


def widths(entry: Entry, adjacency: Any) -> np.ndarray:
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


def diagonal_of(order: int) -> np.ndarray:
    """Where the diagonal lies in a packed upper triangle, row by row."""
    rows, columns = np.triu_indices(order)
    return np.flatnonzero(rows == columns)
