"""Public room: release the moments of the users' rows once; every model after that is post-processing.

Paper: ours (docs/moments.md), after McSherry and Mironov 2009 (ratings) and Steck 2019 (binary feedback).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.bias import ItemCounts
from lowkey.kernels.moments import RatingMoments, RowMoments
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import positive, whole, within_catalogue
from lowkey.methods.curator import Curator, Posts
from lowkey.methods.knowledge import Knowledge
from lowkey.methods.means import ask_means, means_requests
from lowkey.methods.moments.head import LARGEST_HEAD, WEIGHT_POWER, clear_size, most_counted, places
from lowkey.methods.moments.models import best_rank, model_of
from lowkey.methods.moments.posted import Moments
from lowkey.methods.moments.public_pairs import PublicPairs
from lowkey.model import Model
from lowkey.origin import Origin
from lowkey.privacy.mechanisms import Gaussian, SymmetricGaussian
from lowkey.privacy.plan import Request

RESIDUAL_BOUND = 0.17  # of the rating range: a user's root mean square residual
SHARES = {
    "ratings": {"residual_gram": 0.85, "rated_gram": 0.10},
    "binary": {"item_counts": 0.05, "row_gram": 0.95},
}
MEANS_SHARE = 0.05  # ratings


@dataclass(frozen=True, kw_only=True)
class MomentsSettings(Settings):
    head: int | None  # None: the items that stand clear of the noise
    largest_head: int
    residual_bound: float | None  # None: binary feedback

    def told(self) -> dict[str, Any]:
        return {"largest_head": self.largest_head}

    def head_of(self, counts: NDArray[np.float64], std: float) -> NDArray[np.int64]:
        """The items with the highest posted counts."""
        return most_counted(counts, clear_size(self.domain, counts, std) if self.head is None else self.head)


@dataclass(eq=False, repr=False)
class DPMoments(Recommender):
    """Item means and the second moments of the users' rows, posted once.

    Ratings: a Gaussian model of the rows; the prediction is its conditional mean, which in factor form is a ridge
    fold-in. Binary feedback: EASE, or with ``rank`` its low-rank form. ``head`` is how many items get second moments
    (default: those whose posted count stands clear of its noise); the others get their mean. ``refit`` and ``tune``
    work on the posted moments and cost nothing. Defaults depend on public facts and posted numbers only.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    rank : int, optional
        At most so many factors; for binary feedback, EASE in low rank.
    head : int, optional
        How many items get second moments.
    reg : float
        Scales the ridge that follows from the posts.
    residual_bound : float, optional
        On the norm of one user's scaled row, in stars.

    Examples
    --------
    >>> model = lk.DPMoments(epsilon=1.0, delta=1e-6).fit(ratings)  # doctest: +SKIP
    >>> model.refit(rank=40)  # another model on the same posts: free  # doctest: +SKIP
    """

    moments_: Moments = field(init=False)
    means_share: ClassVar[float] = MEANS_SHARE
    uses_public = True
    constraints = {"rank": whole(), "head": whole(), "reg": positive(), "residual_bound": positive()}

    rank: int | None = None
    head: int | None = None
    reg: float = 1.0
    residual_bound: float | None = None

    def _settings(self, domain: Domain, budget: Budget) -> MomentsSettings:
        if self.head is not None:
            within_catalogue("head", self.head, domain.n_items)
        bound = None
        if domain.rating_range is not None:
            low, high = domain.rating_range
            bound = self.residual_bound if self.residual_bound is not None else RESIDUAL_BOUND * (high - low)
        largest = min(domain.n_items, LARGEST_HEAD) if self.head is None else self.head
        return MomentsSettings(domain=domain, budget=budget, head=self.head, largest_head=largest, residual_bound=bound)

    def _requests(self, settings: MomentsSettings) -> list[Request]:
        triangle = packed_length(settings.largest_head)
        sizes = {"item_counts": settings.n_items}
        noise = {True: SymmetricGaussian, False: Gaussian}
        of_means = 0.0 if settings.domain.rating_range is None else self.means_share
        means = means_requests(settings, of_means, 1) if of_means else []
        rest = (1.0 - of_means) / sum(SHARES[settings.domain.kind].values())
        return means + [
            Request(name, sizes.get(name, triangle), share * rest, mechanism=noise[name.endswith("gram")])
            for name, share in SHARES[settings.domain.kind].items()
        ]

    def _run(self, settings: MomentsSettings, curator: Curator) -> Released:
        ask = _ask_binary if settings.residual_bound is None else self._ask_ratings
        self.moments_ = ask(settings, curator)
        return model_of(self.moments_, settings.n_items, self.rank, self.reg)

    def _ask_ratings(self, settings: MomentsSettings, curator: Curator) -> Moments:
        assert settings.residual_bound is not None
        means = ask_means(settings, curator, 1, self._means_bound(settings))
        head = settings.head_of(means.posted_counts, means.count_std)
        slots = places(head, settings.n_items)
        sweep = RatingMoments(means.prior, slots, len(head), settings.residual_bound, means.offset_reg)
        posts = _with_public(self._ask_moments(sweep, head, curator), sweep, settings.knowledge)
        known = {"item_counts": means.posted_counts, "item_bias": means.effects, "head": head}
        facts = {"center": means.center, "rating_range": list(settings.limits), "offset_variance": means.offset_variance}
        return Moments("ratings", {**known, **posts.arrays}, {"item_counts": means.count_std, **posts.stds}, facts)

    def _means_bound(self, settings: MomentsSettings) -> float | None:
        return None  # follows the posts

    def _ask_moments(self, sweep: RatingMoments, head: NDArray[np.int64], curator: Curator) -> Posts:
        return curator.ask(sweep)

    # Free of charge --------------------------------------------------------------------------------------------------
    def tune(self, ranks: Sequence[int] = (5, 10, 20, 40)) -> DPMoments:
        """Choose the rank on the posted moments themselves (ratings), and refit: no data is touched, nothing is spent."""
        self._fitted()
        if self.moments_.feedback != "ratings":
            refuse("tune", got="binary feedback, whose model has no rank to choose", needed="ratings", try_="refit(reg=…)")
        return self.refit(rank=best_rank(self.moments_, ranks)[0])

    def refit(self, *, rank: int | None = None, reg: float | None = None) -> DPMoments:
        """Another model on the posted moments: no data is touched and nothing is spent."""
        model = self._fitted()
        self.rank = self.rank if rank is None else rank
        self.reg = self.reg if reg is None else reg
        released = model_of(self.moments_, model.domain.n_items, self.rank, self.reg)
        origin = None if model.origin is None else Origin.of(self.get_params(), model.origin.posts)
        self.model_ = Model(model.method, *released, model.domain, model.ledger, origin)
        return self


def _ask_binary(settings: MomentsSettings, curator: Curator) -> Moments:
    counts = curator.ask(ItemCounts(settings.n_items))
    head = settings.head_of(counts["item_counts"], counts.stds["item_counts"])
    weights = np.maximum(counts["item_counts"][head], 1.0) ** -WEIGHT_POWER
    sweep = RowMoments(places(head, settings.n_items), weights)
    posts = _with_public(curator.ask(sweep), sweep, settings.knowledge)
    arrays = {**counts.arrays, "head": head, "head_weights": weights, **posts.arrays}
    return Moments("binary", arrays, {**counts.stds, **posts.stds}, {})


def _with_public(posts: Posts, sweep: RatingMoments | RowMoments, knowledge: Knowledge) -> Posts:
    """Every Gram matrix, averaged with that of the public people as far as they are heard; so there is less noise."""
    if knowledge.people is None:
        return posts
    # What the model explains; and what every person adds 1 to the trace of.
    explained, counted = ("residual_gram", "rated_gram") if isinstance(sweep, RatingMoments) else ("row_gram", "row_gram")
    sums = knowledge.halves(sweep)
    users, people = (max(float(np.trace(unpack(g))), 1.0) for g in (posts[counted], sums[0][counted] + sums[1][counted]))
    one, other = (unpack(half[explained]) for half in sums)
    weight = PublicPairs.of((one, other), users, people).beside(unpack(posts[explained]), posts.stds[explained])
    theirs = {name: (sums[0][name] + sums[1][name]) * (users / people) for name in posts.arrays}
    mean = {name: (own + weight * theirs[name]) / (1.0 + weight) for name, own in posts.arrays.items()}
    return replace(posts, arrays=mean, stds={name: std / (1.0 + weight) for name, std in posts.stds.items()})
