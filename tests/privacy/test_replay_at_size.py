"""Whole fits at size, replayed on neighbours: long rows, a large catalogue, rank 16, two threads, several blocks.

The record checks the noise of every post: what the sampler was asked for exactly, and what came out by its own draws, of
which there are a thousand and more in nearly every post here (a tenth too little is seen from 1,000 draws on).
"""

from __future__ import annotations

import numpy as np
import pytest
from estimators import Case
from replay import Record, Violation, WatchingEngine, record, replay
from sized import BLOCK, N_USERS, SIZED_CASES, THREADS, long_rows, sized_keys, sized_rows

import lowkey as lk
from lowkey.privacy.noise import SeededNoise

NEWCOMER = np.uint64(0x5EED_0F_A_57A6E12)
NEIGHBOURS = {  # who comes, and where
    "add-remove": [("everything, alternating", 0), ("calm, then loud beyond 256", N_USERS // 2)],
    "replace-one": [("401 items, from the end", N_USERS - 1), ("loud, then calm beyond 128", 4)],
}


def recorded(case: Case, adjacency: str) -> Record:
    engine = WatchingEngine(BLOCK, threads=THREADS)
    data = case.domain, sized_rows(case.feedback), sized_keys()
    return record(case.make(adjacency=adjacency), *data, SeededNoise(11), engine)


@pytest.mark.parametrize("adjacency", NEIGHBOURS)
@pytest.mark.parametrize("case", SIZED_CASES, ids=str)
def test_no_long_row_moves_a_post_further_than_declared(case: Case, adjacency: str) -> None:
    known = recorded(case, adjacency)
    shares = []
    for name, place in NEIGHBOURS[adjacency]:
        rows, keys = list(sized_rows(case.feedback)), sized_keys()
        if adjacency == "add-remove":
            rows.insert(place, long_rows(case.feedback)[name])
            keys = np.insert(keys, place, NEWCOMER)
        else:
            rows[place], keys[place] = long_rows(case.feedback)[name], NEWCOMER
        shares.append(replay(known, case.make(adjacency=adjacency), case.domain, rows, keys, THREADS))
    # A product with a drawn direction of 1,030 coordinates moves by a tenth; all others by most of what they may.
    assert max(shares) > (0.05 if case.note == "power" else 0.5)


class HalfOfLaterDraws(SeededNoise):
    """The sampler is asked for the right scale and answers with half of it, from the second draw on."""

    later = False

    def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
        draws = super().rounded_gaussian(scale, size)
        draws = draws // 2 if self.later else draws
        self.later = True
        return draws


def test_half_the_noise_is_seen_at_any_post() -> None:
    case = SIZED_CASES[0]
    assert case.estimator is lk.DPBias  # three posts of one line
    data = case.domain, sized_rows(case.feedback), sized_keys()
    with pytest.raises(Violation, match=r"post \d .*the noise is 0\.[45]\d* times as wide"):
        record(case.make(), *data, HalfOfLaterDraws(3))
