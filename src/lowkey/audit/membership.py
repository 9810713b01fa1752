"""Lab room: membership inference against what is published: a likelihood-ratio attack with reference fits.

The attacker has the crowd, and the histories of some targets, but not the coins that let targets in. From reference fits
with coins of the attacker's own it learns how each target moves the published model's predictions (a linear model with
Gaussian noise, per prediction), and then guesses the coins of a fresh release by that likelihood. What it gets right is a
lower bound on what the best attack gets right, so a weak result proves nothing: without noise it must find nearly all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.audit.bounds import lower_mean
from lowkey.audit.canaries import Person
from lowkey.data.domain import Domain
from lowkey.engines.local import LocalEngine
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import NoiseSource, SeededNoise
from lowkey.testing.cases import ratings_of

FITS = 48  # half of them are learnt from, and half attacked


@dataclass(frozen=True)
class Membership:
    success: float  # the share of coins that were guessed right
    lower: float  # of it, at the confidence asked for
    allowed: float  # the largest share that the report's bound allows
    guesses: int

    @property
    def ok(self) -> bool:
        return self.lower <= self.allowed


def attack_membership(
    make: Callable[[], Any],
    domain: Domain,
    crowd: list[Person],
    targets: list[Person],
    rng: np.random.Generator,
    confidence: float,
    noise: NoiseSource | None = None,
    fits: int = FITS,
) -> Membership:
    """Fit with fair coins for all targets; learn from some fits, attack the others. ``noise=no_noise()`` for none."""
    noise = NoiseSource() if noise is None else noise
    coins = rng.random((fits, len(targets))) < 0.5
    histories = _histories(domain, targets)
    seen, allowed = [], 1.0
    for row in coins:
        people = [*crowd, *(target for target, coin in zip(targets, row, strict=True) if coin)]
        rows = [(items, values) for items, values, _ in people]
        data = ratings_of(domain, rows, np.array([key for *_, key in people], np.uint64))
        model = make().fit(data, engine=LocalEngine(n_jobs=1), billboard=Billboard(noise=noise)).model_
        seen.append(np.asarray(model.predict(histories), np.float64).ravel())
        allowed = model.ledger.guarantee().price.best_guess
    right = _guesses(np.stack(seen), coins, fits // 2) == coins[fits // 2 :]
    shares = right.mean(axis=1)
    spread = lower_mean(shares, confidence) if shares.std() > 0.0 else float(shares.mean())
    return Membership(float(shares.mean()), spread, allowed, right.size)


def no_noise() -> NoiseSource:
    """For the control: all posts exact. Whatever it touches is stamped NOT PRIVATE."""
    return SeededNoise(0, factor=0.0)


def _guesses(seen: NDArray[np.float64], coins: NDArray[np.bool_], known: int) -> NDArray[np.bool_]:
    """The coins of the later fits, each the likelier way, from what the earlier ones teach."""
    design = np.column_stack([np.ones(known), coins[:known]])
    effects = np.linalg.lstsq(design, seen[:known], rcond=None)[0]
    left = seen[:known] - design @ effects
    variance = (left**2).sum(axis=0) / max(1, known - design.shape[1])
    variance += 1e-12 + 1e-6 * variance.mean()
    moves = effects[1:] / np.sqrt(variance)
    fresh = (seen[known:] - effects[0]) / np.sqrt(variance)
    # The least squares of all coins at once; a ridge, as some moves are hardly told apart from noise.
    gram = moves @ moves.T
    ridge = 1e-6 * np.trace(gram) / len(gram) + 1e-9
    found = np.linalg.solve(gram + ridge * np.eye(len(gram)), moves @ fresh.T).T
    return found > 0.5


def _histories(domain: Domain, people: list[Person]) -> Any:
    offsets = np.concatenate([[0], np.cumsum([len(items) for items, *_ in people])])
    items = np.concatenate([items for items, *_ in people])
    values = np.concatenate([values for _, values, _ in people])
    return scipy.sparse.csr_array((values, items, offsets), shape=(len(people), domain.n_items))
