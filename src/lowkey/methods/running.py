"""Public room: the methods of streams: those whose sums may be asked of one cohort after the other, and added.

Numbers that scale a sum are public constants here, as sums in different units would not add; and second moments are of the
whole catalogue, because in the first weeks nobody knows its head. The head is chosen from the posted counts, anew each
time: items outside it have no part in that week's rows. Ratings are asked of a cohort once, around what is known when it
speaks; pairs for lists of everybody anew (streamed.py has both). Paper: ours (docs/refresh.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.lists import USERS_WEIGHT, TakenCounts, TasteMoments
from lowkey.kernels.moments import RatingMoments
from lowkey.linalg.packed import pack, unpack
from lowkey.methods.base import Budget, Recommender
from lowkey.methods.bias.method import BiasSettings, DPBias
from lowkey.methods.counts import Posted
from lowkey.methods.curator import Curator, Posts
from lowkey.methods.lists.heard import Head, Heard, Moments, gram_weight
from lowkey.methods.lists.method import DPLists, ListsSettings
from lowkey.methods.moments.head import LARGEST_HEAD
from lowkey.methods.moments.method import DPMoments, MomentsSettings
from lowkey.methods.streamed import StreamCurator

EARLY = 300.0  # users times mu, up to which counts get more of the second post than pairs, and weights are halved
HARDLY = 0.1  # of what is heard in the first posts: less is not worth reading the second for
MEANS_BOUND = 0.25  # of the rating range: a user's root mean square residual, where it counts in full

Array = NDArray[np.float64]


class DPRunningBias(DPBias):
    """``DPBias`` in a stream: one round of item means, in fixed units."""

    def _settings(self, domain: Domain, budget: Budget) -> BiasSettings:
        settings = super()._settings(domain, budget)
        if domain.rating_range is None:
            return settings
        bound = settings.residual_bound or MEANS_BOUND * settings.spread
        return replace(settings, n_iter=1, residual_bound=bound)


@dataclass(frozen=True)
class HeardSoFar(Heard):
    """And, of a stream: the counts of the first posts alone, and the people who are heard in each of them."""

    first: Posted
    crowds: Array


class DPRunningLists(DPLists):
    """``DPLists`` in a stream. All are asked anew about the head and the popularity of each week, and posts weigh as much
    as is heard in them. In the first weeks counts get most of the second post, and there is nothing but popularity."""

    def _settings(self, domain: Domain, budget: Budget) -> ListsSettings:
        _check_fits(domain)
        return replace(super()._settings(domain, budget), largest_head=domain.n_items, counted_again=0, halves=1)

    def _ask_counts(self, settings: ListsSettings, curator: Curator) -> HeardSoFar:
        assert isinstance(curator, StreamCurator)
        sweep = TakenCounts(settings.n_items, settings.liked)
        decoded = curator.ask(sweep)
        users = max(float(decoded["taken_counts"][-1]) / USERS_WEIGHT, 1.0)
        crowds = np.array([max(float(post[-1]) / USERS_WEIGHT, 1.0) for post in curator.posts(sweep)])
        first = Posted(*curator.loudest(sweep, [(slice(-1), crowds)], users)[0])
        signal = settings.budget.signal * decoded.stds["taken_counts"] / first.std
        heard = HeardSoFar(first, users, signal, 1.0 / (1.0 + (EARLY / (users * signal)) ** 4), first, crowds)
        if not settings.personal:
            return heard
        none = np.zeros(settings.n_items)
        moments = TasteMoments(none.astype(np.int32), none, 1.0, settings.liked)
        earlier = curator.asked(moments)[: len(crowds) - 1]
        return replace(heard, counts=_with_again(heard, moments, earlier, curator)[0])

    def _gram_weight(self, taken: float, heard: Heard, curator: Curator) -> float:
        assert isinstance(curator, StreamCurator)
        return 1.0 if curator.exact else gram_weight(taken, heard) * math.sqrt(heard.enough)

    def _ask_moments(self, sweep: TasteMoments, head: Head, heard: Heard, curator: Curator) -> Moments:
        """A post is heard as far as its head is that of today."""
        assert isinstance(curator, StreamCurator)
        assert isinstance(heard, HeardSoFar)
        n_items, shares = len(sweep.slots), np.zeros(len(sweep.slots))
        shares[head] = sweep.shares
        sweep = replace(sweep, slots=_own_places(head, n_items), shares=shares)
        curator.ask_anew(sweep)
        asked = curator.asked(sweep)
        common = np.array([one.gram_weight * shares[one.shares > 0.0].sum() for one in asked])
        counts, (gram, std) = _with_again(heard, sweep, asked, curator, (head[:, None] * n_items + head, common))
        return Moments(Posted(gram, std), counts)


def _with_again(
    heard: HeardSoFar, sweep: TasteMoments, asked: list[TasteMoments], curator: StreamCurator, *more: Any
) -> list[Any]:
    """All that is known of counts, with those of the second posts where they are heard; and what else is cut from these."""
    crowds = heard.crowds[: len(asked)]
    again = np.array([one.count_weight for one in asked]) * crowds
    cuts = [(cut, weights * crowds) for cut, weights in more]
    audible = bool(np.linalg.norm(again) > HARDLY * np.linalg.norm(heard.crowds))
    if audible:
        cuts.append((slice(-len(sweep.slots), None), again))
    found = curator.loudest(sweep, cuts, heard.users) if cuts else []
    return [heard.first.with_more(Posted(*found.pop())) if audible else heard.first, *found]


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
