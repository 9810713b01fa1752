"""The replay harness is itself tested: an honest little method passes, and each of nine seeded bugs is caught."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from adversaries import aligned, gallery
from estimators import DOMAINS, base_keys, base_rows
from replay import Violation, record, replay
from test_replay import neighbour

from lowkey.kernels.bounding import shrink_factor, to_units
from lowkey.kernels.sweep import Sweep
from lowkey.methods.base import Recommender, Released, Settings
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.plan import Request
from lowkey.privacy.sums import Grid, Sensitivity, Statistic

GRID = Grid.for_bound(1.0, 26)
DOMAIN = DOMAINS["ratings"]
BOUND = 3.0


@dataclass(frozen=True)
class HonestSums(Sweep):
    """Per item the sum of ratings, a user's row clipped to norm BOUND; and the scalar sum of all of a user's ratings,
    at most ``top`` ratings of 5 each."""

    bound: float = BOUND
    top: int = 4

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        peak = GRID.units(5.0 * DOMAIN.n_items)
        return (
            Statistic("by_item", (DOMAIN.n_items,), GRID, Sensitivity.of_vectors(self.bound), peak),
            Statistic("total", (1,), GRID, Sensitivity.of_vectors(self.scalar_bound()), peak),
        )

    def scalar_bound(self) -> float:
        return self.top * 5.0

    def row(self, items: np.ndarray, values: np.ndarray, block: Any, u: int) -> np.ndarray:
        return values.astype(np.float64) * shrink_factor(float(values.astype(np.float64) @ values), self.bound)

    def run(self, block: Any, local: Any, sums: Any) -> None:
        for u in range(len(block.offsets) - 1):
            part = slice(block.offsets[u], block.offsets[u + 1])
            items, values = block.items[part], block.values[part]
            for item, value in zip(items, self.row(items, values, block, u), strict=True):
                sums["by_item"][item] += to_units(value, GRID.step)
            for value in values[: self.top]:
                sums["total"][0] += to_units(value, GRID.step)


class Honest(Recommender):
    """Posts the sums twice; the model is what was posted."""

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, adjacency: str = "add-remove") -> None:
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency

    def _settings(self, domain: Any, budget: Any) -> Settings:
        return Settings(domain=domain, budget=budget)

    def _requests(self, settings: Any) -> list[Request]:
        return [Request("by_item", settings.n_items, 1.0, times=2), Request("total", 1, 0.5, times=2)]

    def sweep(self, ratings: Any) -> Sweep:
        return HonestSums()

    def ask(self, sweep: Sweep, curator: Any) -> Any:
        return curator.ask(sweep)

    def _run(self, settings: Any, curator: Any) -> Released:
        posted = []
        for _ in range(2):
            posts = self.ask(self.sweep(curator._data), curator)
            posted += [posts["by_item"], posts["total"]]
        return Released("factors", {f"post_{i}": np.asarray(p) for i, p in enumerate(posted)}, {})


# 1. Half the noise -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class HalfGaussian(Gaussian):
    def noise_std(self, statistic: Any, adjacency: Any) -> float:
        return super().noise_std(statistic, adjacency) / 2.0


class HalfTheNoise(Honest):
    def plan_of(self, settings: Any) -> Any:
        plan = super().plan_of(settings)
        lines = [replace(line, mechanism=HalfGaussian(line.mechanism.noise_multiplier)) for line in plan.lines]
        return replace(plan, lines=tuple(lines))


POSTED: set[str] = set()


@dataclass(frozen=True)
class HalfLaterGaussian(Gaussian):
    """Right at the first post of each line, half of it later."""

    def apply(self, units: Any, statistic: Any, adjacency: Any, noise: Any) -> Any:
        again = statistic.name in POSTED
        POSTED.add(statistic.name)
        kind = HalfGaussian if again else Gaussian
        return kind(self.noise_multiplier).apply(units, statistic, adjacency, noise)


class HalfTheNoiseLater(Honest):
    def plan_of(self, settings: Any) -> Any:
        POSTED.clear()
        plan = super().plan_of(settings)
        lines = [replace(line, mechanism=HalfLaterGaussian(line.mechanism.noise_multiplier)) for line in plan.lines]
        return replace(plan, lines=tuple(lines))


# 2. A missing clip -----------------------------------------------------------------------------------------------------
class UnclippedSums(HonestSums):
    def row(self, items: Any, values: Any, block: Any, u: int) -> Any:
        return values.astype(np.float64)


class MissingClip(Honest):
    def sweep(self, ratings: Any) -> Sweep:
        return UnclippedSums()


# 3. sqrt(k) for a scalar sum -------------------------------------------------------------------------------------------
class RootOfK(HonestSums):
    def scalar_bound(self) -> float:
        return math.sqrt(self.top) * 5.0


class RootForAScalar(Honest):
    def sweep(self, ratings: Any) -> Sweep:
        return RootOfK()


# 4. Reused noise -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class SameAgain(Gaussian):
    def apply(self, units: Any, statistic: Any, adjacency: Any, noise: Any) -> Any:
        if hasattr(noise, "noise"):  # the source that the harness listens to
            noise.noise = SeededNoise(4)
        return super().apply(units, statistic, adjacency, noise)


class ReusedNoise(Honest):
    def plan_of(self, settings: Any) -> Any:
        plan = super().plan_of(settings)
        lines = [replace(line, mechanism=SameAgain(line.mechanism.noise_multiplier)) for line in plan.lines]
        return replace(plan, lines=tuple(lines))


# 5. A scale that depends on the number of users ------------------------------------------------------------------------
class ScaleFromUsers(Honest):
    def sweep(self, ratings: Any) -> Sweep:
        return HonestSums(bound=90.0 / len(ratings._open_keys()))


# 6. A release that is not booked ---------------------------------------------------------------------------------------
class NotBooked(Honest):
    def ask(self, sweep: Sweep, curator: Any) -> Any:
        sums, _ = curator._engine.sweep(sweep, curator._data)
        return {"by_item": sums["by_item"]._open() * GRID.step, "total": curator.billboard.post(sums["total"])}


class NotBookedPeeking(Honest):
    """Without opening a sum: the finished model carries something that no post was made of."""

    def _run(self, settings: Any, curator: Any) -> Released:
        released = super()._run(settings, curator)
        return released._replace(settings={"users": len(curator._data._open_keys())})


# 7. A normaliser from exact user counts --------------------------------------------------------------------------------
@dataclass(frozen=True)
class NormalisedSums(HonestSums):
    """Each user's row times (own count / mean count of all), clipped after: every single row is within its bound."""

    mean_count: float = 1.0

    def row(self, items: Any, values: Any, block: Any, u: int) -> Any:
        scaled = values.astype(np.float64) * len(values) / self.mean_of(block) / 10.0
        return scaled * shrink_factor(float(scaled @ scaled), self.bound)

    def mean_of(self, block: Any) -> float:
        return self.mean_count


class Normaliser(Honest):
    def sweep(self, ratings: Any) -> Sweep:
        return NormalisedSums(mean_count=float(np.diff(ratings._open_csr().indptr).mean()))


class HiddenNormalisedSums(NormalisedSums):
    """The same inside the kernel, where no field shows it; it takes all users to be one block."""

    def mean_of(self, block: Any) -> float:
        return float(np.diff(block.offsets).mean())


class HiddenNormaliser(Honest):
    def sweep(self, ratings: Any) -> Sweep:
        return HiddenNormalisedSums()


# 8. Per-row public randomness ------------------------------------------------------------------------------------------
class RowSeededSums(HonestSums):
    """Each user keeps a random half of the row, drawn by the row's number."""

    def row(self, items: Any, values: Any, block: Any, u: int) -> Any:
        keep = np.random.default_rng(u).random(DOMAIN.n_items)[items] < 0.5
        return super().row(items, np.where(keep, values, 0.0), block, u)


class PerRowRandomness(Honest):
    def sweep(self, ratings: Any) -> Sweep:
        return RowSeededSums()


def attack(method: type[Honest], adjacency: str = "add-remove") -> int:
    """The harness as the table's methods get it: a record, then whole replays of gallery and aligned users."""
    rows = base_rows(DOMAIN)
    known = record(method(adjacency=adjacency), DOMAIN, rows, base_keys(), SeededNoise(3))
    users = [*gallery(DOMAIN, rows).items(), *aligned(DOMAIN, known)]
    for place, (_, row) in enumerate(users):
        changed, keys = neighbour(rows, row, adjacency, place % len(rows))
        replay(known, method(adjacency=adjacency), DOMAIN, changed, keys)
    return len(users)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_an_honest_method_passes(adjacency: str) -> None:
    assert attack(Honest, adjacency) > 20


@pytest.mark.parametrize(
    ("bug", "finding"),
    [
        (HalfTheNoise, "post 0 .*the sampler was asked for another scale"),
        (HalfTheNoiseLater, "post 2 .*the sampler was asked for another scale"),
        (MissingClip, "'by_item'.*one user moves the sum by 1.66667 times the declared"),  # one rating of 5, bound 3
        (RootForAScalar, "'total'.*one user moves the sum by 2 times the declared"),  # k / sqrt(k)
        (ReusedNoise, "uses the noise of .* again"),
        (ScaleFromUsers, "bound of HonestSums depends on the data beyond the posts"),
        (NotBooked, "a release is not booked"),
        (NotBookedPeeking, "settings depend on the data beyond the posts: something was released unbooked"),
        (Normaliser, "mean_count of NormalisedSums depends on the data beyond the posts"),
        (HiddenNormaliser, "'by_item'.*one user moves the sum by .* times the declared"),
        (PerRowRandomness, "'by_item'.*one user moves the sum by .* times the declared"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_seeded_bug_is_caught(bug: type[Honest], finding: str) -> None:
    with pytest.raises(Violation, match=finding):
        attack(bug)


def test_additivity_alone_would_miss_the_couplings() -> None:
    """Why whole fits are replayed: every single contribution of these two is within its bound."""
    for sweep in (HiddenNormalisedSums(), RowSeededSums()):
        for row in gallery(DOMAIN, base_rows(DOMAIN)).values():
            sums = {s.name: np.zeros(s.shape, np.int64) for s in sweep.statistics}
            block = type("Block", (), {"offsets": np.array([0, len(row[0])]), "items": row[0], "values": row[1]})
            sweep.run(block, None, sums)
            assert np.linalg.norm(sums["by_item"] * GRID.step) <= BOUND
