"""Crowds from hypothesis, crossed pairs and climbers; the users who attack by design live in ``lowkey.testing``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import lowkey as lk
from lowkey.testing.attackers import HIGH, LOW, aligned, gallery

__all__ = ["HIGH", "LOW", "aligned", "climb", "crossed_pairs", "gallery", "generated_crowds"]


def generated_crowds(domain: lk.Domain, users: int) -> st.SearchStrategy[np.ndarray]:
    """Crowds of ``users`` users as levels per item; -1 is not rated. From dense to nearly empty."""
    return st.one_of(
        arrays(np.int64, (users, domain.n_items), elements=st.integers(-1, HIGH), fill=st.just(-1)),
        arrays(np.int64, (users, domain.n_items), elements=st.integers(LOW, HIGH), fill=st.just(HIGH)),
        arrays(np.int64, (users, domain.n_items), elements=st.sampled_from([-1, LOW, HIGH])),
    )


def crossed_pairs(n: int) -> Iterator[np.ndarray]:
    """Two users at the ends of the scale on the items they share, each with indifferent ratings that the other lacks.

    Where values and counts are bounded jointly, this is what moves both the furthest at once.
    """
    for shared in (1, 2, 4):
        for others in (0, 1, 3, (n - shared) // 2):
            pair = np.full((2, n), -1)
            pair[:, :shared] = [[HIGH], [LOW]]
            pair[0, shared : shared + others] = 4
            pair[1, n - others :] = 5
            yield pair.ravel()


def climb(start: np.ndarray, score: Callable[[np.ndarray], Any], rng: np.random.Generator, steps: int) -> np.ndarray:
    """Random one-item changes, kept when the score does not fall."""
    best, best_score = start, score(start)
    for _ in range(steps):
        trial = best.copy()
        trial[rng.integers(len(trial))] = rng.integers(-1, HIGH + 1)
        trial_score = score(trial)
        if trial_score >= best_score:
            best, best_score = trial, trial_score
    return best
