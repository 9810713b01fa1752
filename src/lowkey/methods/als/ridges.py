"""Public room: the ridges of DPALS on ratings, from what was posted: how well users are fitted, and how much they rated.

Paper: ours; the best ridge is the variance of the ratings' noise over that of a factor. The constants were set by hand on
Jester, MovieLens-1M and the taste generator (docs/dpals.md).
"""

from __future__ import annotations

from lowkey.data.domain import Domain
from lowkey.methods.als.settings import ALSSettings

USUAL_MISFIT = 0.11  # of the rating range, root mean square: users who are fitted better than this get a smaller ridge
MOST_MISFIT = 8.0  # times the usual mean square: what one user can say
SERVING_SHARE = 0.7  # of the ridge that would be best if item factors had no error


def usual_misfit(domain: Domain) -> float:
    """The variance of ratings about their fit from which on the default ridges are right."""
    assert domain.rating_range is not None
    return (USUAL_MISFIT * (domain.rating_range[1] - domain.rating_range[0])) ** 2


def user_regs(domain: Domain, usual: ALSSettings, noise: float, inverse_size: float) -> dict[str, float]:
    """Ridges for users: ``noise`` is their posted misfit over the usual one, 1/``inverse_size`` their root mean square.

    A coordinate of their factors has variance 1/(rank inverse_size^2). In training the misfit, which users who were
    trained on make too small, only lowers the default; users who are new get at least that.
    """
    trained = min(noise, 1.0)
    best = noise * usual_misfit(domain) * usual.rank * inverse_size**2
    return {"user_reg": trained * usual.user_reg, "serving_reg": max(trained * usual.serving_reg, SERVING_SHARE * best)}


def noise_reg(domain: Domain, weight: float, user_reg: float) -> float:
    """The items' ridge, but for a constant, if all ratings together have ``weight``.

    Two ridges are a penalty of 2 sqrt(user_reg reg) on singular values (Srebro et al. 2004), and ratings with noise of
    variance s^2 have singular values of s sqrt(weight per item) made of it: reg is s^2 weight per item / user_reg.
    """
    return usual_misfit(domain) * weight / domain.n_items / user_reg
