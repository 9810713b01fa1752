"""Lab room: what a release is measured by: the simplest models, and tuned ones without noise. NOT PRIVATE.

*Trivial* is a global mean and the user's own damped offset, *two ridges* has item effects besides, *EASE* is Steck 2019.
Damping and ridges are the best of a grid for the tested users themselves: they are bounds, not methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from lowkey.evaluation.metrics import recall_at_k
from lowkey.evaluation.splits import Split
from lowkey.linalg.topn import top_n

REGS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0)
EASE_REGS = (10.0, 30.0, 100.0, 300.0, 1000.0)
EASE_ITEMS = 4_000  # above, its matrix takes too long
TURNS = 6  # of items and users in the two-ridge fit
TIES = 1e-6  # of a score: what is taken as often by everybody
LIST = 20  # items recommended, or as many as there are

Limits = tuple[float, float]


def owners(rows: Any) -> Any:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def rmse(prior: Any, offset_reg: float, split: Split, limits: Limits) -> float:
    """Of prior + own damped offset."""
    history, held = split.histories, split.held_out
    rest = np.bincount(owners(history), history.data - prior[history.indices], history.shape[0])
    offsets = rest / (np.diff(history.indptr) + offset_reg)
    guess = np.clip(prior[held.indices] + offsets[owners(held)], *limits)
    return float(np.sqrt(np.mean((guess - held.data) ** 2)))


def trivial(split: Split, limits: Limits) -> float:
    train: Any = split.train._open_csr()
    prior = np.full(train.shape[1], float(train.data.mean()))
    return min(rmse(prior, reg, split, limits) for reg in REGS)


def two_ridges(split: Split, limits: Limits) -> float:
    train: Any = split.train._open_csr()
    who, lengths = owners(train), np.diff(train.indptr)
    counts, center = np.bincount(train.indices, minlength=train.shape[1]), float(train.data.mean())
    found = []
    for offset_reg in REGS:
        for item_reg in REGS:
            effects = np.zeros(train.shape[1])
            for _ in range(TURNS):
                rest = train.data - center - effects[train.indices]
                offsets = np.bincount(who, rest, len(lengths)) / (lengths + offset_reg)
                rest = train.data - center - offsets[who]
                effects = np.bincount(train.indices, rest, len(counts)) / (counts + item_reg)
            found.append(rmse(center + effects, offset_reg, split, limits))
    return min(found)


def ease(split: Split) -> float:
    """The best of its ridges, of who took what; nan where the catalogue is too large. Ties, such as all scores of somebody
    without a history, go to what is popular."""
    train: Any = split.train._open_csr()
    if train.shape[1] > EASE_ITEMS:
        return np.nan
    taken, shown = _ones(train), _ones(split.histories)
    gram, found = (taken.T @ taken).toarray().astype(np.float64), []
    popularity = TIES * np.diag(gram) / train.shape[0]
    for reg in EASE_REGS:
        inverse = scipy.linalg.inv(gram + reg * np.eye(len(gram)))
        weights = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        positions, best = top_n(np.asarray(shown @ weights) + popularity, min(LIST, len(gram)), shown)
        found.append(recall_at_k(np.where(np.isfinite(best), positions, -1), split.held_out))
    return max(found)


def _ones(rows: Any) -> Any:
    return scipy.sparse.csr_array((np.ones(rows.nnz, np.float32), rows.indices, rows.indptr), shape=rows.shape)


OF_RATINGS: dict[str, Callable[[Split, Limits], float]] = {"trivial": trivial, "two ridges": two_ridges}
OF_LISTS: dict[str, Callable[[Split], float]] = {"EASE": ease}
NAMES = (*OF_RATINGS, *OF_LISTS)


def measured(name: str, split: Split) -> dict[str, float]:
    """The figure of a bound by the name of its measure; nothing, where it has none for these data."""
    limits = split.train.domain.rating_range
    if name in OF_LISTS:
        figure = OF_LISTS[name](split)
        return {f"recall@{min(LIST, split.histories.shape[1])}": figure} if np.isfinite(figure) else {}
    return {} if limits is None else {"rmse": OF_RATINGS[name](split, limits)}
