"""Local room: a rule turns histories into scores with released arrays alone; a release names its rule.

A history is a row of observed (item, value) pairs, in CSR form for many callers at once.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.kernels.sign_solve import sign_rows
from lowkey.kernels.user_solve import ridge_rows
from lowkey.linalg.links import link_of
from lowkey.serving.projection import ProjectionRule
from lowkey.serving.replay import ReplayRule
from lowkey.serving.rule import LinearRule, Precision, Rule, Scorer


class FactorRule(LinearRule):
    """score = center + item_bias + offset + item_factors . user_factors.

    The user's side is a ridge regression on the user's own row. ``offset_reg`` (if not None) adds an offset of the
    user's own, as a constant column with its own ridge; ``reg`` is the ridge of the factors. A model of biases alone
    has factors of rank 0. For implicit feedback ``unobserved_weight`` pulls the scores of all items towards zero.
    """

    @cached_property
    def design(self) -> NDArray[np.float64]:
        """Item factors (n_items, rank [+ 1]), with the offset's constant column first."""
        return super().design if self.settings["offset_reg"] is not None else super().design[:, 1:]

    @cached_property
    def item_prior(self) -> NDArray[np.float64]:
        return self.settings["center"] + np.asarray(self.arrays["item_bias"], np.float64)

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        design = self.design
        ridge = np.full(design.shape[1], float(self.settings["reg"]))
        if self.settings["offset_reg"] is not None:
            ridge[0] = self.settings["offset_reg"]
        penalty = np.diag(ridge)
        if weight := self.settings.get("unobserved_weight"):
            penalty += weight * (design.T @ design)
        residuals = histories.data - self.item_prior[histories.indices]
        return ridge_rows(histories.indptr.astype(np.int64), histories.indices, residuals, design, penalty)


class ItemWeightsRule(Rule):
    """On the head, score = (history * input_weights) @ item_weights * output_weights: EASE and its kin.

    Items outside the head come after all of it, ordered by ``tail_scores`` (below zero).
    """

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        seen = scipy.sparse.csr_array(histories[:, self.arrays["head"]])
        seen.data = np.asarray(self.arrays["input_weights"], np.float64)[seen.indices]
        return (seen @ self.arrays["item_weights"]) * self.arrays["output_weights"]

    def scorer(self, histories: scipy.sparse.csr_array, dtype: Precision = np.float64) -> Scorer:
        return lambda part: self._scores(histories[part], dtype)

    def _scores(self, histories: scipy.sparse.csr_array, dtype: Precision) -> NDArray[Any]:
        head = self.transform(histories)
        scores = np.empty((len(head), self.n_items), dtype)
        scores[:] = head.min(axis=1, initial=0.0)[:, None] + self.arrays["tail_scores"]
        scores[:, self.arrays["head"]] = head
        return scores


class ListRule(ItemWeightsRule):
    """score = (1 + k) popularity + what each of the k items of the history that are in the head adds to the head.

    An item of a history adds its row of weights less ``mean_weights``, the row of an average item: an empty history gets
    the most popular, and as noise grows the weights vanish and popularity is left. ``liked``, if any, is the least rating
    that counts as taken.
    """

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """(n_rows, n_head + 1): what the history adds to each item of the head, and 1 + k."""
        histories = self._taken(histories)
        k = np.diff(scipy.sparse.csr_array(histories[:, self.arrays["head"]]).indptr)[:, None]
        return np.hstack([super().transform(histories) - k * self.arrays["mean_weights"], 1.0 + k])

    def _taken(self, histories: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        if self.settings["liked"] is None:
            return histories
        kept = histories.data >= self.settings["liked"]
        ends = np.concatenate([[0], np.cumsum(kept)])[histories.indptr]
        return scipy.sparse.csr_array((histories.data[kept], histories.indices[kept], ends), shape=histories.shape)

    def _scores(self, histories: scipy.sparse.csr_array, dtype: Precision) -> NDArray[Any]:
        users = self.transform(histories)
        scores = np.asarray(users[:, -1:] * np.asarray(self.arrays["popularity"], np.float64), dtype)
        scores[:, self.arrays["head"]] += users[:, :-1].astype(dtype)
        return scores


class SignRule(Rule):
    """score = h(item_factors . user_factors), the probability of a like; one-bit completion.

    The user's side maximises the likelihood of the user's own signs, with a ridge ``reg``.
    """

    STEPS = 80  # a fixed number: stopping when all rows are done would tie them together

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        link = link_of(self.settings["link"])
        factors = np.ascontiguousarray(self.arrays["item_factors"], np.float64)
        signs = np.where(histories.data > self.settings["threshold"], 1.0, -1.0)
        reg, probit = float(self.settings["reg"]), self.settings["link"] == "probit"
        offsets = histories.indptr.astype(np.int64)
        return sign_rows(offsets, histories.indices, signs, factors, reg, link.most_curvature, probit, self.STEPS)

    def scorer(self, histories: scipy.sparse.csr_array, dtype: Precision = np.float64) -> Scorer:
        users, factors = self.transform(histories).astype(dtype), np.asarray(self.arrays["item_factors"], dtype)
        probability = link_of(self.settings["link"]).probability
        return lambda part: probability(users[part] @ factors.T)


RULES: dict[str, type[Rule]] = {
    "factors": FactorRule,
    "item-weights": ItemWeightsRule,
    "lists": ListRule,
    "signs": SignRule,
    "replay": ReplayRule,
    "projection": ProjectionRule,
}
