"""Public room: lists from who took what: counts first, then the second moments of what popularity does not explain.

Paper: ours (docs/lists.md), after Steck 2019 (EASE). Deviates: popularity is taken out of every row before it is scaled,
the noise is cleaned out of the spectrum, and the ridge of an item follows its popularity and the known noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.lists import USERS_WEIGHT, HeadCounts, TakenCounts, TasteFit, TasteMoments
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import positive, whole, within_catalogue
from lowkey.methods.counts import Counts, Posted, count_posterior
from lowkey.methods.curator import Curator
from lowkey.methods.lists.heard import (
    COUNTS_SHARE,
    FEWEST,
    FIT_SHARE,
    HALVES,
    Head,
    Heard,
    Moments,
    Tastes,
    gram_weight,
    more_weight,
)
from lowkey.methods.lists.kept import Signs, may_be_behind, share_left
from lowkey.methods.lists.public import public_pairs
from lowkey.methods.lists.weights import beside_popularity, ease_weights, personal_share, ridged_inverse, usual_scores
from lowkey.methods.moments.ease import clean_gram
from lowkey.methods.moments.head import LARGEST_HEAD, most_counted, places
from lowkey.privacy.plan import Request

COUNTED_AGAIN, FEW_COUNTS_SHARE = 1 / 8, 0.4  # where only counts are posted: of the items, and the first post's share
FEWEST_AGAIN = 100  # items
SMALLEST_HEAD = 300
CLEAR = 6.8  # an item is in the head from this many times sqrt(average count / mu) on
CLEAR_STDS = 3.0  # a posted count of so many standard deviations is no chance

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ListsSettings(Settings):
    head: int | None  # None: follows the posted counts
    largest_head: int
    liked: float | None
    reg: float
    personal: bool  # False: so few users are expected that only counts are posted
    halves: int  # of what pairs get: the first tells whether the second is better spent on counts
    counted_again: int  # items that are counted twice where only counts are posted

    def told(self) -> dict[str, Any]:
        return {"largest_head": self.largest_head}


@dataclass(eq=False, repr=False)
class DPLists(Recommender):
    """What to take next, from who took what: ratings count as taken, or only those of at least ``liked``.

    Posted are: how many users took each item; in two halves the second moments of the users' rows over the ``head`` of
    the catalogue (by default as many items as stand clear of the noise) after popularity is taken out of them, with counts
    again where there is little to learn from pairs; and after each half two numbers that say whether the weights foretell
    users left out. Of few people
    two posts instead: all counts, and again those of what was counted most. Scores are
    popularity plus what each item of a history adds; as noise grows they shrink into popularity. ``reg`` scales the
    ridge that follows from the posts.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    head : int, optional
        How many items get personal weights.
    liked : float, optional
        The least rating that counts as taken; by default every rating does.
    reg : float
        Scales the ridge that follows from the posts.

    Examples
    --------
    >>> model = lk.DPLists(epsilon=1.0, delta=1e-6, liked=4.0).fit(ratings)  # doctest: +SKIP
    >>> ids, scores = model.recommend({"film 7": 4.5}, n=10)  # doctest: +SKIP
    """

    uses_public = True
    constraints = {"head": whole(), "liked": positive(), "reg": positive()}

    head: int | None = None
    liked: float | None = None
    reg: float = 1.0

    def _settings(self, domain: Domain, budget: Budget) -> ListsSettings:
        if self.head is not None:
            within_catalogue("head", self.head, domain.n_items)
        if self.liked is not None and domain.rating_range is None:
            refuse("liked", got="binary feedback, where everything is", needed="ratings", try_="leaving it out")
        few = domain.expected_users is not None and domain.expected_users * budget.signal < FEWEST
        personal = not few or self.head is not None
        return ListsSettings(
            domain=domain,
            budget=budget,
            head=self.head,
            largest_head=min(domain.n_items, LARGEST_HEAD) if self.head is None else self.head,
            liked=self.liked,
            reg=self.reg,
            personal=personal,
            halves=HALVES,
            counted_again=0 if personal else min(domain.n_items, max(FEWEST_AGAIN, round(COUNTED_AGAIN * domain.n_items))),
        )

    def _requests(self, settings: ListsSettings) -> list[Request]:
        note = "weighted counts of users, and the number of users"
        first = FEW_COUNTS_SHARE if settings.counted_again else COUNTS_SHARE
        counts = Request("taken_counts", settings.n_items + 1, first, note=note)
        if settings.counted_again:
            return [counts, Request("head_counts", settings.counted_again, 1.0 - first, note="of the most counted alone")]
        if not settings.personal:
            return [counts]
        size, share = settings.largest_head**2 + settings.n_items, 1.0 - COUNTS_SHARE - FIT_SHARE
        note = "of the head, and counts again, bounded jointly"
        return [
            counts,
            Request("taste_moments", size, share, settings.halves, note=note),
            Request("taste_fit", 2, FIT_SHARE, settings.halves, note="whether the weights foretell users left out"),
        ]

    def _run(self, settings: ListsSettings, curator: Curator) -> Released:
        heard = self._ask_counts(settings, curator)
        counts = count_posterior(*heard.counts)
        head = _head(settings, counts, heard.signal)
        weights, share, signs = np.zeros((len(head), len(head))), 0.0, None
        if settings.personal:
            tastes = self._ask_tastes(settings, counts, heard, curator)
            head, sweep = tastes.head, tastes.sweep
            clean = clean_gram(tastes.gram, tastes.noise_std)
            inverse = ridged_inverse(clean, sweep.shares, tastes.noise_std, tastes.crowd, settings.reg)
            posts = curator.ask_of_model(TasteFit(sweep, inverse, clean.passed))
            heeded = min(heard.enough, sweep.gram_weight)  # weights of moments that got nothing are noise
            share = heeded * personal_share(posts["taste_fit"], posts.stds["taste_fit"])
            weights = ease_weights(inverse)
            counts = count_posterior(*tastes.counts)
            head_share = float(counts.means[head].sum() / max(float(counts.means.sum()), 1e-300))
            fit = float(posts["taste_fit"][0]), posts.stds["taste_fit"]
            signs = Signs.of(tastes.gram, clean, sweep.shares, tastes.noise_std, tastes.crowd, weights, fit)
            signs = signs._replace(head_share=head_share)
            weights = share * beside_popularity(weights, sweep.shares)
        elif settings.counted_again:
            head, counts = _ask_again(settings, counts, heard.counts, curator)
            weights = np.zeros((len(head), len(head)))
        popularity = counts.means / max(float(counts.means[head].sum()), 1e-300)
        arrays = {
            "head": head,
            "popularity": popularity,
            "item_weights": weights,
            "usual": usual_scores(heard.eagerness(counts, head), weights),
            # One form with EASE's item weights, which may be scaled on either side.
            "input_weights": np.ones(len(head)),
            "output_weights": np.ones(len(head)),
        }
        told = {
            "items_clear_of_noise": int(np.sum(heard.counts.counts > CLEAR_STDS * heard.counts.std)),
            "personal_share": round(min(share, 1.0), 2),
            **self._expected(signs),
        }
        return Released("lists", arrays, {"liked": settings.liked, "rating_range": None, **told})

    def _expected(self, signs: Signs | None) -> dict[str, Any]:
        return {"expected_gain_kept": round(share_left(signs), 2), "may_be_behind": may_be_behind(signs)}

    def _ask_counts(self, settings: ListsSettings, curator: Curator) -> Heard:
        posts = curator.ask(TakenCounts(settings.n_items, settings.liked))
        found, std = posts["taken_counts"], posts.stds["taken_counts"]
        users = settings.domain.expected_users or max(float(found[-1]) / USERS_WEIGHT, 1.0)
        return Heard(Posted(found[:-1], std), users, settings.budget.signal, enough=1.0)

    def _ask_tastes(self, settings: ListsSettings, counts: Counts, heard: Heard, curator: Curator) -> Tastes:
        """The Gram matrix of the head. What public people say of pairs is worth less noise, and so more items."""

        def sweep_of(signal: float) -> TasteMoments:
            head = _head(settings, counts, signal)
            of_gram = self._gram_weight(float(counts.means[head].sum()), heard, curator)
            return TasteMoments(places(head, settings.n_items), heard.eagerness(counts, head), of_gram, settings.liked)

        sweep = sweep_of(heard.signal)
        pairs = public_pairs(settings.knowledge, sweep, heard.users)
        if pairs is not None:
            expected = curator.noise(sweep).get("taste_moments", 0.0) / math.sqrt(2.0 * settings.halves)
            expected /= max(sweep.gram_weight, 1e-9)
            taken = settings.knowledge.ask(TakenCounts(settings.n_items, settings.liked))["taken_counts"][:-1]
            sweep = sweep_of(heard.signal * (1.0 + pairs.expected_weight(expected, taken, counts.means)))
        head = np.flatnonzero(sweep.slots >= 0)
        posted = self._ask_moments(sweep, head, heard, curator)
        for _ in range(1, settings.halves):
            posted = self._ask_more(settings, sweep, head, heard, posted, curator)
        gram, noise = posted.pairs
        crowd = float(np.trace(gram))
        pairs = public_pairs(settings.knowledge, sweep, max(crowd, 1.0))
        if pairs is not None:
            weight = pairs.beside(gram, noise)
            smaller = sweep_of(heard.signal * (1.0 + weight))
            gram, kept = gram + weight * pairs.gram, smaller.slots[head] >= 0
            crowd += weight**2 * float(np.trace(pairs.gram))
            if len(smaller.shares) < len(head):
                gram, head, sweep = gram[np.ix_(kept, kept)], head[kept], replace(smaller, gram_weight=sweep.gram_weight)
        return Tastes(head, sweep, gram, noise, posted.counts, crowd)

    def _gram_weight(self, taken: float, heard: Heard, curator: Curator) -> float:
        return gram_weight(taken, heard)

    def _ask_moments(self, sweep: TasteMoments, head: Head, heard: Heard, curator: Curator) -> Moments:
        """The Gram matrix of the head; and all that is known of counts."""
        posts, size = curator.ask(sweep), len(head)
        found, std = posts["taste_moments"], posts.stds["taste_moments"]
        again = Posted(found[size**2 :], std).scaled(sweep.count_weight)
        gram = Posted(found[: size**2].reshape(size, size), std).scaled(max(sweep.gram_weight, 1e-9))
        return Moments(gram, heard.counts.with_more(again))

    def _ask_more(
        self, settings: ListsSettings, sweep: TasteMoments, head: Head, heard: Heard, known: Moments, curator: Curator
    ) -> Moments:
        """The next half: of pairs, if people left out were foretold by the first, or of counts."""
        gram, noise = known.pairs
        clean = clean_gram(gram, noise)
        inverse = ridged_inverse(clean, sweep.shares, noise, float(np.trace(gram)), settings.reg)
        posts = curator.ask_of_model(TasteFit(sweep, inverse, clean.passed))
        foretold = (float(posts["taste_fit"][0]) - posts.stds["taste_fit"]) / heard.users
        weight = more_weight(sweep.gram_weight, foretold, count_posterior(*known.counts).means, known.counts.std)
        more = self._ask_moments(replace(sweep, gram_weight=weight), head, replace(heard, counts=known.counts), curator)
        return Moments(known.gram.with_more(more.gram), more.counts)


def _ask_again(settings: ListsSettings, counts: Counts, first: Posted, curator: Curator) -> tuple[Head, Counts]:
    """Of few people: what may be among the most popular is counted again, and nothing else, so all say more of it."""
    head = most_counted(counts.means, settings.counted_again)
    posts = curator.ask(HeadCounts(places(head, settings.n_items), len(head), settings.liked))
    again = Posted(posts["head_counts"], posts.stds["head_counts"])
    louder = max(float(again.counts.sum()) / max(float(counts.means[head].sum()), 1e-300), 1.0)
    of_head = count_posterior(*Posted(first.counts[head], first.std).scaled(1.0 / louder).with_more(again)).means
    means = np.minimum(louder * counts.means, of_head.min())
    means[head] = of_head
    return head, counts._replace(means=means)


def _head(settings: ListsSettings, counts: Counts, signal: float) -> Head:
    """The items that stand clear of the noise, within limits."""
    clear = CLEAR * math.sqrt(max(float(counts.means.mean()), 0.0) / signal)
    size = min(max(int(np.sum(counts.means >= clear)), SMALLEST_HEAD), settings.largest_head)
    return most_counted(counts.means, size if settings.head is None else settings.head)
