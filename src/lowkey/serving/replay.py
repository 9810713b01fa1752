"""Local room: a user's side of a Frank-Wolfe model: replay every posted round on one's own history.

It is the very function that training ran for the users in the data, so a newcomer gets, to the last bit, what the same
row would have had in training.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.kernels.bounding import shrink_factor
from lowkey.kernels.walk import Walk, centered_rows, local_rows
from lowkey.serving.rule import LinearRule, Reasons

Rows = tuple[NDArray[np.int64], NDArray[np.int32]]


class ReplayRule(LinearRule):
    """score = center + offset + item_factors . coefficients, with offset and coefficients from the replay."""

    @cached_property
    def walk(self) -> Walk:
        directions = np.ascontiguousarray(np.asarray(self.arrays["item_factors"], np.float64).T)
        posted = {name: np.asarray(array, np.float64) for name, array in self.arrays.items() if name != "item_factors"}
        return Walk(directions, **posted)

    def _centered(self, rows: Rows, values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        reg = self.settings["offset_reg"]
        own_mean = (float(self.settings["center"]), math.inf if reg is None else float(reg))
        return centered_rows(*rows, values, *own_mean, float(self.settings["row_norm"]))

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """(n_rows, 1 + rounds): the user's own offset, then the coefficient of every posted direction."""
        rows = (histories.indptr.astype(np.int64), np.asarray(histories.indices, np.int32))
        targets, own = self._centered(rows, histories.data)
        coefficients, _ = local_rows(*rows, targets, float(self.settings["row_norm"]), self.walk)
        return np.hstack([own[:, :1], coefficients / own[:, 1:]])

    def explain(self, history: scipy.sparse.csr_array, item: int) -> Reasons:
        """part_p = w_p t_p, w_p being the weight of t_p in the score: the replay is linear once its shrinks are known."""
        rows = (history.indptr.astype(np.int64), np.asarray(history.indices, np.int32))
        targets, own = self._centered(rows, history.data)
        offset, shrink = own[0]
        directions = self.walk.directions[:, history.indices]  # (rounds, length of the history)
        along = self.walk.directions[:, item] @ self._linear(directions, targets)
        return Reasons(float(self.item_prior[item]), float(offset), along * targets / shrink)

    def _linear(self, directions: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """(rounds, length): coefficients = this @ targets, with the shrinks of these targets held fixed."""
        walk, row_norm = self.walk, float(self.settings["row_norm"])
        if walk.ridge is not None:
            return np.asarray(np.linalg.solve(directions @ directions.T + np.diag(walk.ridge), directions), np.float64)
        assert walk.gains is not None
        assert walk.decays is not None
        coefficients = np.zeros_like(directions)
        for t, direction in enumerate(directions):
            predicted = direction @ directions.T @ coefficients  # (length,): v . prediction, as a map of the targets
            coefficients *= walk.decays[t]
            coefficients[t] = walk.gains[t] * (direction - predicted)
            predicted = directions.T @ (coefficients @ targets)
            coefficients *= shrink_factor(float(predicted @ predicted), row_norm)
        return coefficients
