"""Public room: the methods of streams: those whose sums may be asked of one cohort after the other, and added.

A cohort is asked around what is known when it speaks (streamed.py). Numbers that scale a sum are public constants here, as
sums in different units would not add; and second moments are of the whole catalogue, because in the first weeks nobody
knows its head. The head is chosen from the decoded counts, anew each time: items outside it have no part in the rows of
that week's cohort. Paper: ours (docs/refresh.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.lists import TasteMoments
from lowkey.kernels.moments import RatingMoments
from lowkey.linalg.packed import pack, unpack
from lowkey.methods.base import Budget, Recommender
from lowkey.methods.bias.method import BiasSettings, DPBias
from lowkey.methods.curator import Curator, Posts
from lowkey.methods.lists.method import DPLists, ListsSettings, Posted
from lowkey.methods.moments.head import LARGEST_HEAD
from lowkey.methods.moments.method import DPMoments, MomentsSettings

MEANS_BOUND = 0.25  # of the rating range: a user's root mean square residual, where it counts in full

Array = NDArray[np.float64]
Head = NDArray[np.int64]


class DPRunningBias(DPBias):
    """``DPBias`` in a stream: one round of item means, in fixed units."""

    def _settings(self, domain: Domain, budget: Budget) -> BiasSettings:
        settings = super()._settings(domain, budget)
        if domain.rating_range is None:
            return settings
        bound = settings.residual_bound or MEANS_BOUND * settings.spread
        return replace(settings, n_iter=1, residual_bound=bound)


class DPRunningLists(DPLists):
    """``DPLists`` in a stream. Early cohorts may give more to counts than to moments: weights of the cohorts in sums."""

    def _settings(self, domain: Domain, budget: Budget) -> ListsSettings:
        _check_fits(domain)
        return replace(super()._settings(domain, budget), largest_head=domain.n_items)

    def _ask_moments(self, sweep: TasteMoments, head: Head, first: Posted, curator: Curator) -> tuple[Array, float, Posted]:
        """As they were posted. How much of the counts is in them again follows from their total."""
        n_items = len(sweep.slots)
        shares = np.zeros(n_items)
        shares[head] = sweep.shares
        posts = curator.ask(replace(sweep, slots=_own_places(head, n_items), shares=shares))
        found, std = posts["taste_moments"], posts.stds["taste_moments"]
        gram, again = found[: n_items**2].reshape(n_items, n_items), found[n_items**2 :]
        weight = float(np.clip(again.sum() / max(float(first.counts.sum()), 1e-9), 0.0, 1.0))
        return gram[np.ix_(head, head)], std, Posted(again, std).scaled(weight)


class DPRunningMoments(DPMoments):
    """``DPMoments`` for ratings in a stream. Means get more than in a single release: in the first weeks they are all."""

    means_share = 0.3

    def _settings(self, domain: Domain, budget: Budget) -> MomentsSettings:
        if domain.rating_range is None:
            refuse("DPMoments in a stream", got="binary feedback", needed="ratings", try_="DPLists")
        _check_fits(domain)
        return replace(super()._settings(domain, budget), largest_head=domain.n_items)

    def _means_bound(self, settings: MomentsSettings) -> float:
        return MEANS_BOUND * settings.spread

    def _ask_moments(self, sweep: RatingMoments, head: Head, curator: Curator) -> Posts:
        n_items = len(sweep.slots)
        posts = curator.ask(replace(sweep, slots=_own_places(head, n_items), order=n_items))
        of_head = {name: pack(unpack(gram)[np.ix_(head, head)]) for name, gram in posts.arrays.items()}
        return replace(posts, arrays=of_head)


FORMS: dict[type[Recommender], type[Recommender]] = {
    DPBias: DPRunningBias,
    DPLists: DPRunningLists,
    DPMoments: DPRunningMoments,
}


def default_form(domain: Domain) -> type[Recommender]:
    """Of the methods that a stream can have, the one for a domain."""
    if domain.n_items > LARGEST_HEAD:
        return DPBias
    return DPLists if domain.rating_range is None else DPMoments


def running(method: Recommender) -> Recommender:
    """The form of a method that a stream can have."""
    if type(method) in FORMS.values():
        return method
    form = FORMS.get(type(method))
    if form is None:
        refuse(
            "a stream",
            got=type(method).__name__,
            needed=", ".join(known.__name__ for known in FORMS) + ": sums that add up over cohorts",
            try_="DPLists for lists, DPMoments for ratings",
        )
    return form(**method.get_params(deep=False))


def _check_fits(domain: Domain) -> None:
    if domain.n_items > LARGEST_HEAD:
        refuse("catalogue", got=f"{domain.n_items} items", needed=f"at most {LARGEST_HEAD}", try_="DPBias, or fewer items")


def _own_places(head: Head, n_items: int) -> NDArray[np.int32]:
    """Every item of the head at its own place in the catalogue."""
    slots = np.full(n_items, -1, np.int32)
    slots[head] = head
    return slots
