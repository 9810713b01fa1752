"""Public room: lists from who took what: counts first, then the second moments of what popularity does not explain.

Paper: ours (docs/lists.md), after Steck 2019 (EASE). Deviates: popularity is taken out of every row before it is scaled,
the noise is cleaned out of the spectrum, and the ridge of an item follows its popularity and the known noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.lists import MOST_EXPECTED, USERS_WEIGHT, HeadCounts, TakenCounts, TasteFit, TasteMoments
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import positive, whole, within_catalogue
from lowkey.methods.counts import Counts, Posted, count_posterior
from lowkey.methods.curator import Curator
from lowkey.methods.lists.kept import Signs, may_be_behind, share_left
from lowkey.methods.lists.public import public_pairs
from lowkey.methods.lists.weights import beside_popularity, ease_weights, personal_share, ridged_inverse, usual_scores
from lowkey.methods.moments.ease import clean_gram
from lowkey.methods.moments.head import LARGEST_HEAD, most_counted, places
from lowkey.privacy.plan import Request

COUNTS_SHARE, FIT_SHARE = 0.1, 0.02  # of mu^2
COUNTED_AGAIN, FEW_COUNTS_SHARE = 1 / 8, 0.4  # where only counts are posted: of the items, and the first post's share
FEWEST_AGAIN = 100  # items
SMALLEST_HEAD = 300
CLEAR = 6.8  # an item is in the head from this many times sqrt(average count / mu) on
CLEAR_STDS = 3.0  # a posted count of so many standard deviations is no chance
FEWEST = 200.0  # users times mu, below which popularity alone is better than any personal weights

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ListsSettings(Settings):
    head: int | None  # None: follows the posted counts
    largest_head: int
    liked: float | None
    reg: float
    personal: bool  # False: so few users are expected that only counts are posted
    counted_again: int  # items that are counted twice where only counts are posted

    def told(self) -> dict[str, Any]:
        return {"largest_head": self.largest_head}


@dataclass(eq=False, repr=False)
class DPLists(Recommender):
    """What to take next, from who took what: ratings count as taken, or only those of at least ``liked``.

    Three posts: how many users took each item; the second moments of the users' rows over the ``head`` of the catalogue
    (by default as many items as stand clear of the noise) after popularity is taken out of them, with counts again where
    there is little to learn from pairs; and two numbers that say whether the weights foretell users left out. Of few people
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
        moments = Request("taste_moments", size, share, note="of the head, and counts again, bounded jointly")
        return [counts, moments, Request("taste_fit", 2, FIT_SHARE, note="whether the weights foretell users left out")]

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
            expected = curator.noise(sweep).get("taste_moments", 0.0) / max(sweep.gram_weight, 1e-9) / math.sqrt(2.0)
            taken = settings.knowledge.ask(TakenCounts(settings.n_items, settings.liked))["taken_counts"][:-1]
            sweep = sweep_of(heard.signal * (1.0 + pairs.expected_weight(expected, taken, counts.means)))
        head = np.flatnonzero(sweep.slots >= 0)
        gram, std, posted = self._ask_moments(sweep, head, heard, curator)
        gram, noise = (gram + gram.T) / 2.0, std / math.sqrt(2.0)  # of the mean of the two triangles
        crowd = float(np.trace(gram))
        pairs = public_pairs(settings.knowledge, sweep, max(crowd, 1.0))
        if pairs is not None:
            weight = pairs.beside(gram, noise)
            smaller = sweep_of(heard.signal * (1.0 + weight))
            gram, kept = gram + weight * pairs.gram, smaller.slots[head] >= 0
            crowd += weight**2 * float(np.trace(pairs.gram))
            if len(smaller.shares) < len(head):
                gram, head, sweep = gram[np.ix_(kept, kept)], head[kept], replace(smaller, gram_weight=sweep.gram_weight)
        return Tastes(head, sweep, gram, noise, posted, crowd)

    def _gram_weight(self, taken: float, heard: Heard, curator: Curator) -> float:
        return gram_weight(taken, heard)

    def _ask_moments(
        self, sweep: TasteMoments, head: NDArray[np.int64], heard: Heard, curator: Curator
    ) -> tuple[Array, float, Posted]:
        """The Gram matrix of the head and its noise; and all that is known of counts."""
        posts, size = curator.ask(sweep), len(head)
        found, std = posts["taste_moments"], posts.stds["taste_moments"]
        of_gram = max(sweep.gram_weight, 1e-9)
        again = Posted(found[size**2 :], std).scaled(sweep.count_weight)
        return found[: size**2].reshape(size, size) / of_gram, std / of_gram, heard.counts.with_more(again)


class Tastes(NamedTuple):
    """What is known of the head's pairs; and of all counts."""

    head: NDArray[np.int64]
    sweep: TasteMoments
    gram: Array
    noise_std: float
    counts: Posted
    crowd: float  # the sum of the squared weights of those who are in the pairs


@dataclass(frozen=True)
class Heard:
    """What the first post tells: counts, of how many users, and how loud a user is beside the noise (mu)."""

    counts: Posted
    users: float
    signal: float
    enough: float  # for personal weights: how much of them is used at most

    def eagerness(self, counts: Counts, head: NDArray[np.int64]) -> Array:
        """Shares of the head such that what is expected of a typical user (`expected_takes`) is what was counted.

        Counts weigh 1/sqrt(m): their sum is the root of a typical m for each user, and so much is m times the head's part.
        """
        taken = counts.means[head]
        typical = max(float(taken.sum()) * float(counts.means.sum()) / self.users**2, 1.0)
        eager = -np.log1p(-np.minimum(typical * taken / taken.sum(), MOST_EXPECTED))
        return eager / eager.sum()


def gram_weight(taken: float, heard: Heard) -> float:
    """What the second moments get of the joint post: all, unless there is little to learn from them.

    ``taken``/users is about the root of a typical number of head items k of a user. Rows of one item or less tell
    nothing of pairs, and a crowd of mu * users below ``FEWEST`` tells nothing through the noise: then counts get it.
    """
    typical = (taken / heard.users) ** 2 * min(1.0, heard.users * heard.signal / FEWEST) ** 8
    return math.sqrt(typical**2 / (1.0 + typical**2)) if typical < math.inf else 1.0


def _ask_again(
    settings: ListsSettings, counts: Counts, first: Posted, curator: Curator
) -> tuple[NDArray[np.int64], Counts]:
    """Of few people: what may be among the most popular is counted again, and nothing else, so all say more of it."""
    head = most_counted(counts.means, settings.counted_again)
    posts = curator.ask(HeadCounts(places(head, settings.n_items), len(head), settings.liked))
    again = Posted(posts["head_counts"], posts.stds["head_counts"])
    louder = max(float(again.counts.sum()) / max(float(counts.means[head].sum()), 1e-300), 1.0)
    of_head = count_posterior(*Posted(first.counts[head], first.std).scaled(1.0 / louder).with_more(again)).means
    means = np.minimum(louder * counts.means, of_head.min())
    means[head] = of_head
    return head, counts._replace(means=means)


def _head(settings: ListsSettings, counts: Counts, signal: float) -> NDArray[np.int64]:
    """The items that stand clear of the noise, within limits."""
    clear = CLEAR * math.sqrt(max(float(counts.means.mean()), 0.0) / signal)
    size = min(max(int(np.sum(counts.means >= clear)), SMALLEST_HEAD), settings.largest_head)
    return most_counted(counts.means, size if settings.head is None else settings.head)
