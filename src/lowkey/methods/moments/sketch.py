"""Public room: ``DPMoments`` where n_items^2 numbers do not fit: the Gram matrix is posted through a basis, twice.

First through a random basis, to find where the rows vary; then through what was found. Memory is n_items * width.
Paper: ours (docs/moments.md), after Hardt and Price 2014 (noisy power iteration) and Nystrom's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.kernels.moments import RatingMoments
from lowkey.kernels.sketch import GramView
from lowkey.methods.base import Budget, Recommender, Released, Settings
from lowkey.methods.constraints import not_negative, positive, whole, within_catalogue
from lowkey.methods.curator import Curator
from lowkey.methods.leanings import ranked
from lowkey.methods.means import ask_means, means_requests
from lowkey.methods.moments.method import RESIDUAL_BOUND
from lowkey.privacy.plan import Request

MEANS_SHARE = 0.1
SHARES = {"first_view": 0.3, "second_view": 0.6}
SEEN = 0.3  # of a row's square: what a basis that fits sees, without the diagonal


@dataclass(frozen=True, kw_only=True)
class SketchSettings(Settings):
    width: int
    expected_users: int
    residual_bound: float

    def told(self) -> dict[str, Any]:
        return {"width": self.width}


@dataclass(eq=False, repr=False)
class DPSketch(Recommender):
    """The moments of ratings seen through a basis of ``width`` columns; for catalogues of any size.

    ``expected_users`` must be in the domain: it sets the scale of co-counts, which are not posted here.

    Parameters
    ----------
    epsilon, delta : float
        What the fit may cost. No default.
    adjacency : {"add-remove", "replace-one"}
        What a neighbouring data set is.
    width : int
        Columns of the basis: what is posted grows with it, and not with the square of the catalogue.
    reg : float
        Ridge of a user's side, in units of its default.
    residual_bound : float, optional
        On the root mean square of one user's residuals, in stars.
    offset_reg : float
        Ridge of a user's own offset.
    init_seed : int
        Of the public random start; the noise has no seed.

    Examples
    --------
    >>> domain = lk.Domain(items=many, rating_range=(1, 5), expected_users=100_000)  # doctest: +SKIP
    >>> model = lk.DPSketch(epsilon=2.0, delta=1e-7).fit(csr_rows, domain=domain)  # doctest: +SKIP
    """

    constraints = {"width": whole(), "reg": positive(), "residual_bound": positive(), "offset_reg": not_negative()}

    width: int = 16
    reg: float = 1.0
    residual_bound: float | None = None
    offset_reg: float = 1.0
    init_seed: int = 0

    def _settings(self, domain: Domain, budget: Budget) -> SketchSettings:
        if domain.rating_range is None:
            refuse("DPSketch", got="binary feedback", needed="ratings", try_="DPMoments, whose head bounds the memory")
        within_catalogue("width", self.width, domain.n_items)
        if domain.expected_users is None:
            refuse("domain", got="no expected_users", needed="a public guess", try_="Domain(..., expected_users=100_000)")
        low, high = domain.rating_range
        bound = self.residual_bound if self.residual_bound is not None else RESIDUAL_BOUND * (high - low)
        return SketchSettings(
            domain=domain, budget=budget, width=self.width, expected_users=domain.expected_users, residual_bound=bound
        )

    def _requests(self, settings: SketchSettings) -> list[Request]:
        means = means_requests(settings, MEANS_SHARE, 1)
        return [*means, *(Request(name, settings.n_items * settings.width, share) for name, share in SHARES.items())]

    def _run(self, settings: SketchSettings, curator: Curator) -> Released:
        n_items, width, bound = settings.n_items, settings.width, settings.residual_bound
        means = ask_means(settings, curator, 1)
        rows = RatingMoments(means.prior, np.arange(n_items, dtype=np.int32), n_items, bound, self.offset_reg)
        guess = min(1.0, 1.5 * math.sqrt(width / n_items))  # what a random basis sees, and half as much again
        posts = curator.ask(GramView(rows, random_basis(n_items, width, self.init_seed), guess * bound**2, "first_view"))
        basis = np.linalg.qr(posts["first_view"])[0]
        posts = curator.ask(GramView(rows, basis, SEEN * bound**2, "second_view"))
        sizes = np.maximum(means.posted_counts, 1.0) / math.sqrt(settings.expected_users)  # C_ij is about sizes_i sizes_j
        factors = rescaled(*factors_from_view(posts["second_view"], basis, posts.stds["second_view"]), sizes)
        fitted = {
            "center": means.center,
            "rating_range": list(settings.limits),
            "offset_reg": self.offset_reg,
            "reg": self.reg * bound**2,
        }
        released = Released("factors", {"item_factors": factors, "item_bias": means.effects}, fitted)
        return ranked(released, means.counts.means, means.residual_variance)


Matrix = NDArray[np.float64]


def random_basis(n: int, width: int, seed: int) -> Matrix:
    """A public (n, width) matrix with orthonormal columns."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, width)))[0]


def factors_from_view(view: Matrix, basis: Matrix, std: float) -> tuple[Matrix, Matrix]:
    """F (n, k) with F F^T close to S, from view = S Q + noise of standard deviation ``std``; and the noise std per column.

    S is about view (Q^T S Q)^-1 view^T. The small matrix is cleaned by the edge 2 std sqrt(width) of its noise; what
    does not stand above it is dropped. A column of F carries the noise of the view over the root of its eigenvalue.
    """
    small = basis.T @ view
    values, rotation = eigh((small + small.T) / 2.0)
    edge = 2.0 * std * np.sqrt(basis.shape[1])
    # Divided by a small eigenvalue the view would be all noise and error: those below a tenth of the largest are dropped.
    keep = values > max(edge, 0.1 * values.max(), 1e-12)
    if not keep.any():
        return np.zeros((len(view), 0)), np.zeros(0)
    clean = np.sqrt(values[keep] ** 2 - min(edge, 0.99 * values[keep].min()) ** 2)[::-1]
    return view @ rotation[:, keep][:, ::-1] / np.sqrt(clean), std / np.sqrt(clean)


def rescaled(factors: Matrix, column_std: Matrix, sizes: Matrix) -> Matrix:
    """w_i from F_i = sizes_i w_i + noise: posterior means under N(0, g_k), g by moments; rare items fall back to 0."""
    total = np.sum(sizes**2)
    prior = np.maximum(np.sum(factors**2 - column_std**2, axis=0) / total, 1e-12)
    return factors * sizes[:, None] / (sizes[:, None] ** 2 + column_std**2 / prior)
