"""Every method of the table, replayed on neighbours: no user moves a posted sum further than declared.

The number of users per case: 2,000 from hypothesis through ``contributions``, and over a hundred whole replays (gallery,
aligned with the posts, climbing, and a sample of hypothesis), each inserted at the front, in the middle or at the end.
"""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from adversaries import aligned, climb, crossed_pairs, gallery, generated_crowds
from estimators import CASES, N_USERS, Case, Row, as_row, base_keys, base_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from replay import Record, Violation, check_moved, contributions, move_share, record, replay

from lowkey.privacy.noise import NoiseSource, SeededNoise

NEWCOMER = 0x5EED_0F_A_57A6E12  # the key of the user who is added
CROWD = 25  # users per example of hypothesis
EXAMPLES = 80  # times CROWD: 2,000 users per case
BOTH = ["add-remove", "replace-one"]


class WildNoise(SeededNoise):
    """Ten million times as wide as planned, as far as the grid goes."""

    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        wide = SeededNoise(int(self.words(1)[0])).rounded_gaussian(scale, size) * 1e7
        return np.clip(wide, -(2.0**61), 2.0**61).astype(np.int64)


# Bounds must hold for every public history, not for the likely ones alone.
HISTORIES = {
    "usual": lambda: SeededNoise(11),
    "without noise": lambda: SeededNoise(11, factor=0.0),
    "wild": lambda: WildNoise(11, factor=1e7),
}


@cache
def recorded(case: Case, adjacency: str, history: str = "usual") -> Record:
    estimator = case.make(adjacency=adjacency)
    return record(estimator, case.domain, base_rows(case.domain), base_keys(), HISTORIES[history]())


def neighbour(rows: list[Row], row: Row, adjacency: str, place: int, key: int = NEWCOMER) -> tuple[list[Row], np.ndarray]:
    """D with ``row`` put in at ``place``; under replace-one it takes the place of the user there."""
    keys = base_keys(len(rows))
    if adjacency == "add-remove":
        return [*rows[:place], row, *rows[place:]], np.insert(keys, place, np.uint64(key))
    changed = keys.copy()
    changed[place] = key
    return [*rows[:place], row, *rows[place + 1 :]], changed


def whole_replay(case: Case, adjacency: str, row: Row, place: int, history: str = "usual") -> float:
    rows, keys = neighbour(base_rows(case.domain), row, adjacency, place)
    return replay(recorded(case, adjacency, history), case.make(adjacency=adjacency), case.domain, rows, keys)


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gallery_and_aligned_users_in_whole_fits(case: Case, adjacency: str) -> None:
    known = recorded(case, adjacency)
    users = [*gallery(case.domain, base_rows(case.domain)).items(), *aligned(case.domain, known)]
    places = itertools.cycle([0, N_USERS // 2, N_USERS - 1])
    largest = {name: whole_replay(case, adjacency, row, next(places)) for name, row in users}
    assert len(largest) > 20 or case.estimator.__name__ == "DPLists"  # which posts no direction over the whole catalogue
    # The attack is one: somebody comes within half of what is declared, at some post.
    assert max(largest.values()) > 0.5, largest


@pytest.mark.parametrize("history", ["without noise", "wild"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_other_public_histories(case: Case, history: str) -> None:
    """Posts ten million times as noisy as planned, and posts without noise: the bounds must hold there too."""
    for adjacency in BOTH:
        known = recorded(case, adjacency, history)
        users = [*gallery(case.domain, base_rows(case.domain)).values(), *(row for _, row in aligned(case.domain, known))]
        for place, row in enumerate(users[::2]):
            whole_replay(case, adjacency, row, place % N_USERS, history)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_user_leaves(case: Case) -> None:
    """The other half of add/remove: every user of D in turn is taken out."""
    rows, keys = base_rows(case.domain), base_keys()
    for gone in range(0, N_USERS, 3):
        kept = [row for u, row in enumerate(rows) if u != gone]
        replay(recorded(case, "add-remove"), case.make(), case.domain, kept, np.delete(keys, gone))


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_generated_users_in_whole_fits(case: Case, adjacency: str) -> None:
    @settings(max_examples=60)
    @given(generated_crowds(case.domain, 1), st.integers(0, N_USERS - 1))
    def attack(levels: np.ndarray, place: int) -> None:
        whole_replay(case, adjacency, as_row(case.domain, levels[0]), place)

    attack()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_thousand_generated_users(case: Case) -> None:
    """What each adds to every posted sum, alone; and, for replace-one, the furthest pairs of the same crowd."""
    seen = 0
    kinds = [recorded(case, "add-remove"), recorded(case, "replace-one", "wild")]

    @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
    @given(generated_crowds(case.domain, CROWD), st.integers(0, 2**64 - 1 - CROWD))
    def attack(crowd: np.ndarray, key: int) -> None:
        nonlocal seen
        seen += len(crowd)
        for known in kinds:
            added = [contributions(known, as_row(case.domain, user), key + i) for i, user in enumerate(crowd)]
            for at, entry in enumerate(known.entries):
                stack = [of_user[at] for of_user in added]
                where = f"post {at} ({entry.statistic.name!r})"
                for moved in stack:
                    check_moved(where, entry, moved, "add-remove")
                for moved in furthest_differences(stack):
                    check_moved(where, entry, moved, "replace-one")

    attack()
    assert seen >= 2000


@pytest.mark.parametrize("case", CASES, ids=str)
def test_climbing_users(case: Case) -> None:
    """For every post somebody who climbed towards its bound, alone and then in a whole fit."""
    known = recorded(case, "add-remove")
    rng = np.random.default_rng(5)
    for at, entry in enumerate(known.entries):
        if at and entry.statistic.name == known.entries[at - 1].statistic.name and at > 3:
            continue  # four posts of one kind are enough

        def reach(levels: np.ndarray, at: int = at, entry: Any = entry) -> float:
            moved = contributions(known, as_row(case.domain, levels), NEWCOMER)[at]
            return check_moved(f"post {at} ({entry.statistic.name!r})", entry, moved, "add-remove")

        best = climb(rng.integers(-1, 10, case.domain.n_items), reach, rng, steps=80)
        whole = whole_replay(case, "add-remove", as_row(case.domain, best), int(rng.integers(N_USERS)))
        assert whole >= reach(best) - 1e-12  # the sum of the whole fit moved at least as far as at this post


@pytest.mark.parametrize("case", CASES, ids=str)
def test_climbing_pairs(case: Case) -> None:
    """For replace-one, two users who climb away from each other: what one shares and the other lacks is found here."""
    known = recorded(case, "replace-one")
    rng, n = np.random.default_rng(6), case.domain.n_items
    kinds = {entry.statistic.name: at for at, entry in enumerate(known.entries)}
    for at in list(kinds.values())[-4:]:
        entry = known.entries[at]

        def apart(levels: np.ndarray, at: int = at, entry: Any = entry) -> float:
            one, other = (
                contributions(known, as_row(case.domain, part), NEWCOMER)[at] for part in (levels[:n], levels[n:])
            )
            return check_moved(f"post {at} ({entry.statistic.name!r})", entry, one - other, "replace-one")

        starts = [np.where(rng.random(2 * n) < 0.25, rng.integers(0, 10, 2 * n), -1), *crossed_pairs(n)]
        climb(max(starts, key=apart), apart, rng, steps=250)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_contributions_are_what_whole_fits_add(case: Case) -> None:
    """The cheap form and the whole replay agree, so the 2,000 users above stand for whole fits."""
    known = recorded(case, "add-remove")
    for row in gallery(case.domain, base_rows(case.domain)).values():
        alone = [
            move_share(entry, moved, "add-remove")
            for entry, moved in zip(known.entries, contributions(known, row, NEWCOMER), strict=True)
        ]
        assert whole_replay(case, "add-remove", row, 4) == max(alone)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_fits_never_share_noise(case: Case) -> None:
    """With the real noise source, through the same check that finds reused noise within a fit."""
    rows, keys = base_rows(case.domain), base_keys()
    first, second = (record(case.make(), case.domain, rows, keys, NoiseSource()) for _ in range(2))
    for entry, again in zip(first.entries, second.entries, strict=True):
        assert not np.array_equal(entry.posted, again.posted)


def furthest_differences(stack: list[np.ndarray]) -> list[np.ndarray]:
    """The differences of the three pairs that are furthest apart."""
    table = np.array([part.ravel() for part in stack], np.float64)
    squares = np.sum(table**2, axis=1)
    distance = squares[:, None] + squares[None, :] - 2.0 * (table @ table.T)
    pairs = np.argsort(np.triu(distance, 1), axis=None)[-3:]
    return [stack[i] - stack[j] for i, j in (np.unravel_index(p, distance.shape) for p in pairs)]


def test_a_violation_names_the_post_and_the_size() -> None:
    known = recorded(CASES[0], "add-remove")
    entry = next(e for e in known.entries if e.statistic.name == "item_means")
    moved = np.zeros(entry.statistic.shape, np.int64)
    moved[0, 0] = 3 << 26  # three where less is declared
    share = re.escape(f"{3.0 / entry.statistic.sensitivity.add_remove:.6g}")
    with pytest.raises(Violation, match=rf"post 2 .*item_means.* {share}"):
        check_moved("post 2 ('item_means')", entry, moved, "add-remove")
