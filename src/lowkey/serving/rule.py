"""Local room: what a rule is: histories in, scores out, with released arrays alone.

A history is a row of observed (item, value) pairs, in CSR form for many callers at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Settings = Mapping[str, Any]
Precision = type[Any]  # np.float64 or np.float32
Scorer = Callable[[slice], NDArray[Any]]


class Rule(ABC):
    """``arrays`` are released item-side arrays, ``settings`` public numbers."""

    def __init__(self, arrays: Arrays, settings: Settings, n_items: int) -> None:
        self.arrays, self.settings, self.n_items = arrays, settings, n_items

    @abstractmethod
    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """The users' side: one row of factors per history."""

    @abstractmethod
    def scorer(self, histories: scipy.sparse.csr_array, dtype: Precision = np.float64) -> Scorer:
        """What gives, for a slice of the histories, (n_rows, n_items) scores to rank by; expected ratings are these,
        clipped to the range."""


class LinearRule(Rule):
    """score = item_prior + design . transform, computed as one matrix product."""

    @cached_property
    def design(self) -> NDArray[np.float64]:
        """(n_items, width of transform). By default a constant for the user's own offset, then the item factors."""
        return np.hstack([np.ones((self.n_items, 1)), np.asarray(self.arrays["item_factors"], np.float64)])

    @cached_property
    def item_prior(self) -> NDArray[np.float64]:
        return np.full(self.n_items, float(self.settings["center"]))

    @cached_property
    def item_vectors(self) -> NDArray[np.float64]:
        """(n_items, width + 1): a score is the inner product with (transform, 1)."""
        return np.hstack([self.design, self.item_prior[:, None]])

    def scorer(self, histories: scipy.sparse.csr_array, dtype: Precision = np.float64) -> Scorer:
        users = self.transform(histories)
        users = np.hstack([users, np.ones((len(users), 1))]).astype(dtype)
        items = self.item_vectors.astype(dtype).T
        return lambda part: users[part] @ items
