"""Public room: second moments for streams: of the whole catalogue, as in the first weeks nobody knows its head.

Paper: ours (docs/refresh.md). Deviates from ``DPMoments``: every item has the same weight in every row, so that a user's
contribution is the same at every release; the head is chosen from the decoded counts, anew each time and for free.
"""

from __future__ import annotations

import numpy as np

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.bias import ItemCounts
from lowkey.kernels.moments import RowMoments
from lowkey.linalg.packed import pack, unpack
from lowkey.methods.base import Budget, Released
from lowkey.methods.curator import Curator
from lowkey.methods.moments.head import LARGEST_HEAD
from lowkey.methods.moments.method import DPMoments, MomentsSettings
from lowkey.methods.moments.models import model_of
from lowkey.methods.moments.posted import Moments


class DPRunningMoments(DPMoments):
    """``DPMoments`` for binary feedback in a ``Stream``, on a catalogue whose second moments fit."""

    def _settings(self, domain: Domain, budget: Budget) -> MomentsSettings:
        if domain.rating_range is not None:
            refuse(
                "DPRunningMoments", got="ratings", needed="feedback='binary'", try_="DPBias(n_iter=1), or binary feedback"
            )
        if domain.n_items > LARGEST_HEAD:
            refuse("catalogue", got=f"{domain.n_items} items", needed=f"at most {LARGEST_HEAD}", try_="a smaller catalogue")
        return MomentsSettings(
            domain=domain, budget=budget, head=self.head, largest_head=domain.n_items, residual_bound=None
        )

    def _run(self, settings: MomentsSettings, curator: Curator) -> Released:
        n_items = settings.n_items
        counts = curator.ask(ItemCounts(n_items))
        posts = curator.ask(RowMoments(np.arange(n_items, dtype=np.int32), np.ones(n_items)))
        head = settings.head_of(counts["item_counts"], counts.stds["item_counts"])
        arrays = {
            **counts.arrays,
            "head": head,
            "head_weights": np.ones(len(head)),
            "row_gram": pack(unpack(posts["row_gram"])[np.ix_(head, head)]),
        }
        self.moments_ = Moments("binary", arrays, {**counts.stds, **posts.stds}, {})
        return model_of(self.moments_, n_items, self.rank, self.reg)
