"""Local room: a rule turns histories into scores with released arrays alone; a release names its rule.

A history is a row of observed (item, value) pairs, in CSR form for many callers at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.kernels.user_solve import ridge_rows

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


class FactorRule(Rule):
    """score = center + item_bias + offset + item_factors . user_factors.

    The user's side is a ridge regression on the user's own row. ``offset_reg`` (if not None) adds an offset of the
    user's own, as a constant column with its own ridge; ``reg`` is the ridge of the factors. A model of biases alone
    has factors of rank 0. For implicit feedback ``unobserved_weight`` pulls the scores of all items towards zero.
    """

    def design(self) -> NDArray[np.float64]:
        """Item factors (n_items, rank [+ 1]), with the offset's constant column first."""
        factors = np.asarray(self.arrays["item_factors"], np.float64)
        if self.settings["offset_reg"] is None:
            return factors
        return np.hstack([np.ones((self.n_items, 1)), factors])

    def item_prior(self) -> NDArray[np.float64]:
        return self.settings["center"] + np.asarray(self.arrays["item_bias"], np.float64)

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        design = self.design()
        ridge = np.full(design.shape[1], float(self.settings["reg"]))
        if self.settings["offset_reg"] is not None:
            ridge[0] = self.settings["offset_reg"]
        penalty = np.diag(ridge)
        if weight := self.settings.get("unobserved_weight"):
            penalty += weight * (design.T @ design)
        residuals = histories.data - self.item_prior()[histories.indices]
        return ridge_rows(histories.indptr.astype(np.int64), histories.indices, residuals, design, penalty)

    def scores(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        scores = self.item_prior() + self.transform(histories) @ self.design().T
        if limits := self.settings.get("rating_range"):
            np.clip(scores, *limits, out=scores)
        return scores


class ItemWeightsRule(Rule):
    """score = (history * input_weights) @ item_weights * output_weights: EASE and its kin."""

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        return self.scores(histories)

    def scores(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        weighted = histories.multiply(self.arrays["input_weights"]).tocsr()
        return np.asarray(weighted @ self.arrays["item_weights"]) * self.arrays["output_weights"]


RULES: dict[str, type[Rule]] = {"factors": FactorRule, "item-weights": ItemWeightsRule}
