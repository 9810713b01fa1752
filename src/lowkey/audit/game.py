"""Lab room: the canaries' game: whole passes over the crowd and those whom the coins let in, and real posts of them.

In every run each sweep of the history is run by the engine over crowd and canaries, and each sum goes through the
billboard: plan, ledger, opening, noise. The auditor knows all but the coins: takes away what the crowd and the others add,
and looks at what is left along each canary's own contribution. That the sums really are those of the crowd and of the
members, to the last unit, is compared on the way: a user who counts twice, or with another's state, is found at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.audit.bounds import Scores
from lowkey.audit.canaries import Array, Canaries, History
from lowkey.engines.local import LocalEngine
from lowkey.privacy.noise import NoiseSource
from lowkey.testing.watching import RecordingBillboard, Violation


@dataclass(frozen=True, eq=False)
class Played:
    """What the runs of a game leave: who was in, and every post's noise in units of what is claimed."""

    canaries: Canaries
    inside: NDArray[np.bool_]  # (runs, pairs)
    along: list[Array]  # for each post (runs, pairs): the noise along each pair's own direction there; NaN if it has none
    together: Array  # (runs, chosen): the noise along the whole contribution
    noise: NDArray[np.float32]  # (runs, numbers): the noise itself
    last: list[tuple[Array, Array]]  # the raw sums of the last run in grid units, and what was posted of them

    def scores(self) -> Scores:
        """Of the chosen canaries, for all posts together."""
        inside = self.inside[:, : self.canaries.chosen]
        return Scores(self.together + inside * self.canaries.mu, inside, self.canaries.mu)


def play(history: History, canaries: Canaries, runs: int, rng: np.random.Generator, noise: NoiseSource) -> Played:
    """``runs`` independent runs; raises a ``Violation`` where a sum is not that of the people in it."""
    crowd = history.crowd
    alone = np.concatenate([units.ravel() for units, _ in _posts(history, crowd, noise)])
    inside = rng.random((runs, len(canaries.firsts))) < 0.5
    left, posts = np.empty((runs, history.scale.size)), list[tuple[Array, Array]]()
    for r, coins in enumerate(inside):
        members = [first for first, coin in zip(canaries.firsts, coins, strict=True) if coin]
        members += [second for second, coin in zip(canaries.seconds, ~coins, strict=False) if coin]
        posts = _posts(history, [*crowd, *members], noise)
        expected = alone + canaries.shift.T @ coins + canaries.base.sum(axis=0)
        if not np.array_equal(np.concatenate([units.ravel() for units, _ in posts]), expected):
            raise Violation("a sum is not the sum of what each user adds alone: users are not told apart")
        steps = [entry.statistic.grid.step for entry in history.known.entries]
        posted = np.concatenate([(real / step).ravel() for (_, real), step in zip(posts, steps, strict=True)])
        left[r] = (posted - expected) * history.scale
    return _read(history, canaries, inside, left, posts)


def _read(history: History, canaries: Canaries, inside: NDArray[np.bool_], left: Array, last: Any) -> Played:
    along, reach = [], canaries.reach
    together = np.zeros(inside.shape)
    for post, span in enumerate(history.spans):
        inner = left[:, span] @ (canaries.shift[:, span] * history.scale[span]).T
        together += inner
        with np.errstate(invalid="ignore"):
            along.append(np.where(reach[:, post] > 0.0, inner / reach[:, post], np.nan))
    together = together[:, : canaries.chosen] / canaries.mu
    return Played(canaries, inside, along, together, left.astype(np.float32), last)


def _posts(history: History, people: list[Any], noise: NoiseSource) -> list[tuple[Array, Array]]:
    """Every sum of the history's sweeps over these people, and what the billboard makes of it."""
    data = history.data(people)
    engine, billboard = LocalEngine(n_jobs=1), RecordingBillboard(noise)
    billboard.begin(history.known.plan)
    closed: list[dict[str, Any]] = []
    states: list[Any] = []
    for call in history.known.calls:
        sums, state = engine.sweep(call.sweep, data, None if call.local_from is None else states[call.local_from])
        closed.append(sums)
        states.append(state)
    for entry in history.known.entries:
        billboard.post(closed[entry.call][entry.statistic.name])
    return [(entry.units, entry.posted) for entry in billboard.entries]
