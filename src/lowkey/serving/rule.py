"""Local room: what a rule is: histories in, scores out, with released arrays alone.

A history is a row of observed (item, value) pairs, in CSR form for many callers at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Settings = Mapping[str, Any]
Precision = type[Any]  # np.float64 or np.float32
Scorer = Callable[[slice], NDArray[Any]]


class Reasons(NamedTuple):
    """score = base + offset + sum of parts, before it is clipped to the scale or goes through a link."""

    base: float  # what somebody new gets
    offset: float  # how this user rates at large
    parts: NDArray[np.float64]  # one for each entry of the history, in its order


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

    @abstractmethod
    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """What one row's entries add to the score of an item. Linear in the ratings of a given set of items."""

    @property
    def scale(self) -> str:
        """What the reasons add up to."""
        return "rating" if self.settings.get("rating_range") else "score"

    @cached_property
    def directions(self) -> NDArray[np.float32]:
        """(n_items, rank): the item factors at length 1; an item without any has zeros."""
        factors = np.asarray(self.arrays["item_factors"], np.float64)
        lengths = np.sqrt(np.square(factors).sum(axis=1, keepdims=True))
        return np.asarray(factors / np.where(lengths > 0.0, lengths, 1.0), np.float32)

    def alike(self, item: int) -> NDArray[Any] | None:
        """(n_items,): how alike every item is to this one, here by the cosine of their factors; None if nothing tells."""
        own = self.directions[item]
        return self.directions @ own if own.any() else None


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

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return np.ascontiguousarray(self.item_vectors.T, np.float32)

    def scorer(self, histories: scipy.sparse.csr_array, dtype: Precision = np.float64) -> Scorer:
        users = self.transform(histories)
        users = np.hstack([users, np.ones((len(users), 1))]).astype(dtype)
        items = self._single if dtype is np.float32 else self.item_vectors.T
        return lambda part: users[part] @ items
