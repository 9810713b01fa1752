"""Public room: private SVD: one noisy Gram matrix, its leading subspace, and every user's own projection on it.

Paper: Jain, Thakkar and Thakurta 2018, Algorithm 3; with ``cleansing`` McSherry and Mironov 2009. Deviates: noise is
symmetric and calibrated exactly; the scaling n_users n_items / |Omega| is posted, given, or the user's own, as the
paper's is private; after cleansing, users predict by a ridge regression on the factors, not by nearest neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.frank_wolfe import ResidualGram
from lowkey.kernels.svd import CleansedMoments, RatingDensity
from lowkey.kernels.walk import Walk
from lowkey.linalg.leading import leading_eigenpairs
from lowkey.linalg.packed import packed_length, unpack
from lowkey.methods.base import Budget, Recommender, Released
from lowkey.methods.constraints import either, flag, not_negative, positive, whole, word
from lowkey.methods.curator import Curator
from lowkey.methods.means import ask_means, means_requests
from lowkey.methods.rows import RowSettings, default_row_norm, need_ratings, rating_spread
from lowkey.privacy.mechanisms import SymmetricGaussian
from lowkey.privacy.plan import Request

MEANS_SHARE, COVARIANCE_SHARE, CO_RATINGS_SHARE = 0.15, 0.6, 0.25  # of mu^2, when cleansing
DENSITY_SHARE = 0.02  # two numbers against a matrix
MOST_ITEMS = 1 << 15  # the matrix of their pairs takes 8 GB


@dataclass(frozen=True, kw_only=True)
class SVDSettings(RowSettings):
    rank: int
    cleansing: bool
    row_norm: float
    residual_bound: float
    scaling: str | float
    reg: float

    def told(self) -> dict[str, Any]:
        return {"residual_bound": self.residual_bound} if self.cleansing else {"row_norm": self.row_norm}


@dataclass(eq=False, repr=False)
class DPSVD(Recommender):
    """The leading ``rank`` right singular directions of the users' rows, private.

    Without cleansing, a user's prediction is the own row projected on them and scaled up for what is missing. With
    ``cleansing``, item means are posted first, then the covariances of clamped residuals and how often two items are rated
    together.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    rank : int
        Directions.
    cleansing : bool
        Post item means first, and clamp residuals.
    row_norm : float, optional
        Without cleansing: bounds a centred row, as in ``DPFrankWolfe``.
    offset_reg : float, optional
        Damps the user's own mean; None leaves it in.
    scaling : {"posted", "user"} or float
        "posted" spends 2 % of the budget on the density of the ratings, "user" takes the user's own, and a number is a
        public n_users n_items / |ratings|.
    residual_bound : float, optional
        With cleansing: residuals are clamped to it; by default a quarter of the rating range.
    reg : float, optional
        With cleansing: the ridge of the user's side, by default the square of ``residual_bound``.

    Examples
    --------
    >>> model = lk.DPSVD(epsilon=4.0, delta=1e-6, rank=8, cleansing=True).fit(ratings)  # doctest: +SKIP
    >>> model.recommend({"film 7": 4.5}, n=10)  # doctest: +SKIP
    """

    constraints = {
        "rank": whole(),
        "cleansing": flag(),
        "row_norm": positive(),
        "offset_reg": not_negative(),
        "scaling": either(word("posted", "user"), positive()),
        "residual_bound": positive(),
        "reg": positive(),
    }

    rank: int = 8
    cleansing: bool = False
    row_norm: float | None = None
    offset_reg: float | None = 5.0
    scaling: str | float = "posted"
    residual_bound: float | None = None
    reg: float | None = None

    def _settings(self, domain: Domain, budget: Budget) -> SVDSettings:
        need_ratings(type(self).__name__, domain)
        if domain.n_items > MOST_ITEMS:
            refuse(
                type(self).__name__,
                got=f"a catalogue of {domain.n_items:,} items, whose matrix of pairs no memory holds",
                needed=f"at most {MOST_ITEMS:,}",
                try_="DPFactors or DPALS, which need no pairs, or a smaller catalogue",
            )
        bound = rating_spread(domain) if self.residual_bound is None else self.residual_bound
        return SVDSettings(
            domain=domain,
            budget=budget,
            rank=min(self.rank, domain.n_items),
            cleansing=self.cleansing,
            row_norm=default_row_norm(domain) if self.row_norm is None else self.row_norm,
            residual_bound=bound,
            offset_reg=self.offset_reg,
            scaling=self.scaling,
            reg=bound**2 if self.reg is None else self.reg,
        )

    def _requests(self, settings: SVDSettings) -> list[Request]:
        triangle = packed_length(settings.n_items)
        if settings.cleansing:
            return [
                *means_requests(settings, MEANS_SHARE, 1),
                Request("cleansed_covariance", triangle, COVARIANCE_SHARE, mechanism=SymmetricGaussian),
                Request("co_ratings", triangle, CO_RATINGS_SHARE, mechanism=SymmetricGaussian),
            ]
        gram = Request("residual_gram_1", triangle, 1.0, mechanism=SymmetricGaussian, note="of the rows themselves")
        return [gram, Request("rating_density", 2, DENSITY_SHARE)] if settings.scaling == "posted" else [gram]

    def _run(self, settings: SVDSettings, curator: Curator) -> Released:
        rule, arrays, own = (_cleansed if settings.cleansing else _projected)(settings, curator)
        shared = {
            "center": settings.center,
            "offset_reg": settings.offset_reg,
            "rating_range": list(settings.limits),
        }
        return Released(rule, arrays, {**shared, **own})


def row_gram(settings: SVDSettings) -> ResidualGram:
    """Before anything is posted, the residual is the row (with its sign changed)."""
    norm = settings.row_norm
    return ResidualGram(1, Walk.nowhere(settings.n_items), settings.center, norm, norm, settings.damping)


def _projected(settings: SVDSettings, curator: Curator) -> Released:
    """Algorithm 3."""
    gram = unpack(curator.ask(row_gram(settings))["residual_gram_1"])
    _, vectors = leading_eigenpairs(gram, settings.rank)
    scaling = None if settings.scaling == "user" else settings.scaling
    if settings.scaling == "posted":
        ratings_share, users = curator.ask(RatingDensity(settings.n_items))["rating_density"]
        # A user has an item at the least; a scaling outside 1..n_items is noise.
        scaling = float(np.clip(users / max(float(ratings_share), 1e-9), 1.0, settings.n_items))
    return Released("projection", {"item_factors": np.ascontiguousarray(vectors)}, {"scaling": scaling})


def _cleansed(settings: SVDSettings, curator: Curator) -> Released:
    """McSherry and Mironov: averages, bounded residuals, covariance, low rank."""
    bound = settings.residual_bound
    means = ask_means(settings, curator, 1)
    posts = curator.ask(CleansedMoments(means.prior, bound, settings.damping))
    covariance, together = unpack(posts["cleansed_covariance"]), unpack(posts["co_ratings"])
    # Pairs that are hardly ever rated together are pulled to zero by what their count may owe to the noise.
    together = np.maximum(together, 0.0) + 2.0 * posts.stds["co_ratings"] + 1.0
    values, vectors = leading_eigenpairs(bound**2 * covariance / together, settings.rank)
    arrays = {"item_bias": means.effects, "item_factors": vectors * np.sqrt(np.maximum(values, 0.0))}
    return Released("factors", arrays, {"center": means.center, "reg": settings.reg})
