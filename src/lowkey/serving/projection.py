"""Local room: a user's side of private SVD: the own row, scaled up for what is missing, projected on the subspace.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 3 line 2. Deviates: nowhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.serving.rule import LinearRule, Reasons


class ProjectionRule(LinearRule):
    """score = center + offset + scaling * (row @ item_factors) @ item_factors^T, the factors being orthonormal.

    ``scaling`` None: the user's own, the catalogue's size over the number of entries in the row.
    """

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """(n_rows, 1 + rank): the user's own offset, then the scaled row in the subspace."""
        rows, offsets, scales = self._centered(histories)
        inside = np.asarray(rows @ np.asarray(self.arrays["item_factors"], np.float64))
        return np.hstack([offsets[:, None], scales[:, None] * inside])

    def _centered(self, histories: scipy.sparse.csr_array) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
        """The rows less center and own offset, the offsets, and the factor of every row."""
        counts = np.diff(histories.indptr)
        reg = self.settings["offset_reg"]
        rows = scipy.sparse.csr_array(
            (histories.data - self.settings["center"], histories.indices, histories.indptr), shape=histories.shape
        )
        totals = np.asarray(rows.sum(axis=1)).reshape(-1)
        offsets = totals / np.maximum(counts + (math.inf if reg is None else reg), 1e-300)
        rows.data -= np.repeat(offsets, counts)
        scaling = self.settings["scaling"]
        scales = self.n_items / np.maximum(counts, 1) if scaling is None else np.full(len(counts), float(scaling))
        return rows, offsets, scales

    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """part_p = scale F_i . F_p t_p"""
        rows, offsets, scales = self._centered(history)
        factors = self.arrays["item_factors"]
        weights = scales[0] * np.asarray(factors[history.indices] @ factors[item], np.float64)
        return Reasons(float(self.item_prior[item]), float(offsets[0]), weights * rows.data)
