"""Public room: items by the votes they got, posted once."""

from __future__ import annotations

import numpy as np

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.curator import Curator
from lowkey.privacy.plan import Request
from lowkey_votes.kernel import Votes


class DPVotes(Recommender):
    """Items ordered by votes: a rating above the middle of the scale is one for the item, any other one against it."""

    def _settings(self, domain: Domain, budget: Budget) -> Settings:
        if domain.rating_range is None:
            refuse("DPVotes", got="binary feedback", needed="ratings", try_="DPBias")
        return Settings(domain=domain, budget=budget)

    def _requests(self, settings: Settings) -> list[Request]:
        return [Request("votes", settings.n_items, 1.0)]

    def _run(self, settings: Settings, curator: Curator) -> Released:
        votes = curator.ask(Votes(settings.n_items, settings.center))["votes"]
        arrays = {"item_bias": np.array(votes), "item_factors": np.zeros((settings.n_items, 0))}
        return Released("factors", arrays, {"center": 0.0, "offset_reg": None, "reg": 1.0, "rating_range": None})
