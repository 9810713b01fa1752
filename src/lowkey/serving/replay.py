"""Local room: a user's side of a Frank-Wolfe model: replay every posted round on one's own history.

It is the very function that training ran for the users in the data, so a newcomer gets, to the last bit, what the same
row would have had in training.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from lowkey.kernels.frank_wolfe import Walk, centered_rows, local_rows
from lowkey.serving.rule import LinearRule


class ReplayRule(LinearRule):
    """score = center + offset + item_factors . coefficients, with offset and coefficients from the replay."""

    def transform(self, histories: scipy.sparse.csr_array) -> NDArray[np.float64]:
        """(n_rows, 1 + rounds): the user's own offset, then the coefficient of every posted direction."""
        offset_reg = self.settings["offset_reg"]
        rows = (histories.indptr.astype(np.int64), np.asarray(histories.indices, np.int32))
        row_norm = float(self.settings["row_norm"])
        own_mean = (float(self.settings["center"]), math.inf if offset_reg is None else float(offset_reg))
        targets, own = centered_rows(*rows, histories.data, *own_mean, row_norm)
        directions = np.ascontiguousarray(np.asarray(self.arrays["item_factors"], np.float64).T)
        posted = {name: np.asarray(array, np.float64) for name, array in self.arrays.items() if name != "item_factors"}
        coefficients, _ = local_rows(*rows, targets, row_norm, Walk(directions, **posted))
        return np.hstack([own[:, :1], coefficients / own[:, 1:]])
