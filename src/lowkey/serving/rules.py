"""Local room: a rule turns histories into scores with released arrays alone; a release names its rule.

A history is a row of observed (item, value) pairs, in CSR form for many callers at once.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.kernels.user_solve import PULL, ridge_rows, sign_rows, taken_rows
from lowkey.linalg.links import link_of
from lowkey.serving.projection import ProjectionRule
from lowkey.serving.replay import ReplayRule
from lowkey.serving.rule import LinearRule, Precision, Reasons, Rule, Scorer


class FactorRule(LinearRule):
    """score = center + item_bias + offset + item_factors . user_factors.

    The user's side is a ridge regression on the user's own row. ``offset_reg`` (if not None) adds an offset of the
    user's own, as a constant column with its own ridge; ``reg`` is the ridge of the factors. A model of biases alone
    has factors of rank 0. For implicit feedback ``unobserved_weight`` pulls the scores of all items towards zero.
    With ``taken`` the factors are pulled to taken . z and not to zero, z being the sum of F - ``taken_middle`` over the
    history, over its length and ``PULL``: taste goes with what one takes, whatever one thinks of it.
    """

    @cached_property
    def design(self) -> NDArray[np.float64]:
        """Item factors (n_items, rank [+ 1]), with the offset's constant column first."""
        return super().design if self.settings["offset_reg"] is not None else super().design[:, 1:]

    @cached_property
    def item_prior(self) -> NDArray[np.float64]:
        return self.settings["center"] + np.asarray(self.arrays["item_bias"], np.float64)

    @cached_property
    def penalty(self) -> NDArray[np.float64]:
        """(width, width), on x in the ridge regression: x^T penalty x."""
        ridge = np.full(self.design.shape[1], float(self.settings["reg"]))
        if self.settings["offset_reg"] is not None:
            ridge[0] = self.settings["offset_reg"]
        unobserved = self.settings.get("unobserved_weight") or 0.0
        return np.diag(ridge) + unobserved * (self.design.T @ self.design)

    @cached_property
    def takes(self) -> NDArray[np.float64] | None:
        """What having an item says of the user's side before its rating, summed over the history; like ``design``."""
        if "taken" not in self.arrays:
            return None
        factors, taken = (np.asarray(self.arrays[name], np.float64) for name in ("item_factors", "taken"))
        found = np.zeros_like(self.design)
        found[:, self.design.shape[1] - factors.shape[1] :] = (factors - self.arrays["taken_middle"]) @ taken.T
        return found

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        offsets, items = histories.indptr.astype(np.int64), histories.indices
        residuals = histories.data - self.item_prior[items]
        if self.takes is None:
            return ridge_rows(offsets, items, residuals, self.design, self.penalty)
        before = taken_rows(offsets, items, self.takes)
        residuals -= np.einsum("pk,pk->p", self.design[items], np.repeat(before, np.diff(offsets), axis=0))
        return before + ridge_rows(offsets, items, residuals, self.design, self.penalty)

    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """part_p = (0, F_i) (P + D^T D)^-1 (d_p t_p + P b_p), with d = (1, F) or F, and b_p what having p says."""
        own, influence = self.design[history.indices], self.design[item].copy()
        residuals = history.data - self.item_prior[history.indices]
        offset = 0.0
        if self.settings["offset_reg"] is not None:
            offset, influence[0] = float(self.transform(history)[0, 0]), 0.0
        if not own.size:
            return Reasons(float(self.item_prior[item]), offset, residuals * 0.0)
        pull = np.linalg.solve(self.penalty + own.T @ own, influence)
        parts = own @ pull * residuals
        if self.takes is not None:
            parts += self.takes[history.indices] @ (self.penalty @ pull) / (len(residuals) + PULL)
        return Reasons(float(self.item_prior[item]), offset, parts)


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

    @cached_property
    def slots(self) -> NDArray[np.int64]:
        """(n_items,): every item's place in the head, or -1."""
        slots = np.full(self.n_items, -1)
        slots[self.arrays["head"]] = np.arange(len(self.arrays["head"]))
        return slots

    def weights(self, slots: Any, to: Any) -> NDArray[np.float64]:
        """What an item at one place of the head adds to the score of one at another."""
        weighted = np.asarray(self.arrays["item_weights"][slots, to] * self.arrays["output_weights"][to], np.float64)
        return weighted * self.arrays["input_weights"][slots]

    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """part_p = W_pi on the head. Nothing is known of somebody new; an item outside has only its place behind it."""
        parts, to = np.zeros(len(history.indices)), self.slots[item]
        if to < 0:
            return Reasons(float(self._scores(history, np.float64)[0, item]), 0.0, parts)
        inside = self.slots[history.indices] >= 0
        parts[inside] = self.weights(self.slots[history.indices[inside]], to)
        return Reasons(0.0, 0.0, parts)

    def alike(self, item: int) -> NDArray[np.float64] | None:
        """What having this item adds to the others of the head."""
        if self.slots[item] < 0:
            return None
        found = np.full(self.n_items, -np.inf)
        found[self.arrays["head"]] = self.weights(self.slots[item], np.arange(len(self.arrays["head"])))
        return found


RUNGS_PER_OCTAVE = 2


def rungs(n_head: int) -> NDArray[np.float64]:
    """The numbers of items of the head for which a list's usual scores are released: 1, and so on, to all of them."""
    return 2.0 ** (np.arange(np.ceil(np.log2(n_head) * RUNGS_PER_OCTAVE) + 1) / RUNGS_PER_OCTAVE)


class ListRule(ItemWeightsRule):
    """score = popularity + ``usual`` + the weights of the history's k items, on the head; (1 + k) popularity elsewhere.

    ``usual`` is what k items add whichever they are, more of what is popular less what they add through their weights;
    between the ``rungs`` it is linear in log k. An empty history gets the most popular, and as noise grows the weights
    vanish and popularity is left. ``liked``, if any, is the least rating that counts as taken.
    """

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """(n_rows, n_head + 1): what the history adds to each item of the head, and k."""
        histories = self._taken(histories)
        k = np.diff(scipy.sparse.csr_array(histories[:, self.arrays["head"]]).indptr)
        return np.hstack([super().transform(histories) + self._usual(k), k[:, None]])

    def _usual(self, k: NDArray[Any]) -> NDArray[np.float64]:
        """(n, n_head)."""
        at = RUNGS_PER_OCTAVE * np.log2(np.maximum(k, 1))
        usual = np.asarray(self.arrays["usual"].T, np.float64)
        low = np.minimum(at.astype(np.int64), len(usual) - 1)
        high, part = np.minimum(low + 1, len(usual) - 1), (at - low)[:, None]
        return ((1.0 - part) * usual[low] + part * usual[high]) * (k > 0)[:, None]

    def _taken(self, histories: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        if self.settings["liked"] is None:
            return histories
        kept = histories.data >= self.settings["liked"]
        ends = np.concatenate([[0], np.cumsum(kept)])[histories.indptr]
        return scipy.sparse.csr_array((histories.data[kept], histories.indices[kept], ends), shape=histories.shape)

    def _scores(self, histories: scipy.sparse.csr_array, dtype: Precision) -> NDArray[Any]:
        users, popularity = self.transform(histories), np.asarray(self.arrays["popularity"], np.float64)
        scores = np.asarray((1.0 + users[:, -1:]) * popularity, dtype)
        scores[:, self.arrays["head"]] = (popularity[self.arrays["head"]] + users[:, :-1]).astype(dtype)
        return scores

    def weights(self, slots: Any, to: Any) -> NDArray[np.float64]:
        """Less those of an average item: of one item, popularity is nearly all of what is usual but for these."""
        mean = self.arrays["popularity"][self.arrays["head"][to]] - self.arrays["usual"][to, 0]
        return super().weights(slots, to) - mean

    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """part_p = W_pi + usual_i/k on the head, popularity_i for other items, if p is of the head and counts as taken."""
        liked = -np.inf if self.settings["liked"] is None else self.settings["liked"]
        counts = (self.slots[history.indices] >= 0) & (history.data >= liked)
        popularity, to, k = float(self.arrays["popularity"][item]), self.slots[item], np.array([counts.sum()])
        parts = np.where(counts, popularity, 0.0)
        if to >= 0 and k[0]:
            own = super().weights(self.slots[history.indices[counts]], to)
            parts[counts] = own + self._usual(k)[0, to] / k[0]
        return Reasons(popularity, 0.0, parts)


class SignRule(Rule):
    """score = h(item_factors . user_factors), the probability of a like; one-bit completion.

    The user's side maximises the likelihood of the user's own signs, with a ridge ``reg``.
    """

    STEPS = 80  # a fixed number: stopping when all rows are done would tie them together

    @cached_property
    def factors(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.arrays["item_factors"], np.float64)

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return np.ascontiguousarray(self.factors.T, np.float32)

    @property
    def scale(self) -> str:
        return "probit score" if self.settings["link"] == "probit" else "log-odds"

    def _signs(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        return np.where(histories.data > self.settings["threshold"], 1.0, -1.0)

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        curvature = link_of(self.settings["link"]).most_curvature
        reg, probit = float(self.settings["reg"]), self.settings["link"] == "probit"
        rows = (histories.indptr.astype(np.int64), histories.indices, self._signs(histories))
        return sign_rows(*rows, self.factors, reg, curvature, probit, self.STEPS)

    def scorer(self, histories: scipy.sparse.csr_array, dtype: Precision = np.float64) -> Scorer:
        users = self.transform(histories).astype(dtype)
        items: Any = self._single if dtype is np.float32 else self.factors.T
        probability = link_of(self.settings["link"]).probability
        return lambda part: probability(users[part] @ items)

    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """At the maximum reg x = sum of pull_p F_p, so that part_p = pull_p F_i . F_p / reg, before the link."""
        own, signs = self.factors[history.indices], self._signs(history)
        pulls = signs * link_of(self.settings["link"]).slope(signs * (own @ self.transform(history)[0]))
        return Reasons(0.0, 0.0, pulls * (own @ self.factors[item]) / float(self.settings["reg"]))


RULES: dict[str, type[Rule]] = {
    "factors": FactorRule,
    "item-weights": ItemWeightsRule,
    "lists": ListRule,
    "signs": SignRule,
    "replay": ReplayRule,
    "projection": ProjectionRule,
}
