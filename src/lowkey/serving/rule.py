"""Local room: what a rule is: histories in, scores out, with released arrays alone.

A history is a row of observed (item, value) pairs, in CSR form for many callers at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Settings = Mapping[str, Any]


class Rule(ABC):
    """``arrays`` are released item-side arrays, ``settings`` public numbers."""

    def __init__(self, arrays: Arrays, settings: Settings, n_items: int) -> None:
        self.arrays, self.settings, self.n_items = arrays, settings, n_items

    @abstractmethod
    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """The users' side: one row of factors per history."""

    @abstractmethod
    def scores(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """(n_rows, n_items) expected ratings or scores."""
