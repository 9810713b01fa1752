"""The posts with which DPALS may start, attacked in whole fits with neighbours that reach their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from estimators import DOMAINS, as_row, base_keys, base_rows
from replay import record, replay
from test_replay import neighbour

import lowkey as lk
from lowkey.privacy.noise import SeededNoise

ROWS = (np.arange(16) % 2 * 9, np.full(16, 9), np.where(np.arange(16) < 2, np.arange(16) * 9, -1))
STARTS = [
    ("ratings", {"start": "spectral"}, ("start_gram",)),
    ("binary", {"start": "spectral"}, ("row_gram",)),
    ("binary", {"start": "random"}, ()),
]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("kind", "settings", "posts"), STARTS)
def test_no_neighbour_moves_a_start_beyond_its_bound(
    kind: str, settings: dict[str, Any], posts: tuple[str, ...], adjacency: str
) -> None:
    domain = DOMAINS[kind]
    make = lambda: lk.DPALS(1.0, 1e-6, adjacency, rank=3, n_iter=1, **settings)
    known = record(make(), domain, base_rows(domain), base_keys(), SeededNoise(4))
    names = [entry.statistic.name for entry in known.entries]
    assert [name for name in names if name in ("start_gram", "row_gram")] == list(posts)
    for levels in ROWS:
        rows, keys = neighbour(base_rows(domain), as_row(domain, levels), adjacency, 4)
        assert replay(known, make(), domain, rows, keys) > 0.5
