"""Lab room: DPALS with the noise that was published, and the guarantee that really holds for it.

Paper: DPALS (Chien et al. 2021), Algorithms 1 and 3, Theorem 1, appendices A and D.2 (Table 4). Deviates: a round is
priced for both of its releases, as in Table 4 and not as in Theorem 1; the mean's sum is priced as a scalar.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from lowkey.data.domain import Domain
from lowkey.errors import refuse
from lowkey.linalg.packed import packed_length
from lowkey.methods.als.method import DPALS
from lowkey.methods.als.settings import ALSSettings
from lowkey.methods.base import Budget
from lowkey.methods.constraints import Constraint
from lowkey.privacy.accounting import gaussian_mu, rdp_epsilon
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan

MEANS = ("level", "spread", "item_means")


class PublishedNoise(NamedTuple):
    """The paper's sigma_G, sigma_g and sigma_p (Table 4), for factors and ratings within 1; none is stated for K."""

    gram: float
    rhs: float
    preprocessing: float
    user_gram: float | None = None


class PublishedALS(DPALS):
    """``DPALS`` with the noise of the paper's Table 4: ``noise`` is (sigma_G, sigma_g, sigma_p), and sigma_K if stated.

    ``epsilon`` is what the paper claims for it; the guarantee is what holds. Ridges do not follow the posts, as the
    paper pays for no such post.
    """

    constraints = {
        **DPALS.constraints,
        "noise": Constraint(
            "sigma_G, sigma_g, sigma_p and maybe sigma_K, finite and above 0",
            lambda noise: len(noise) in (3, 4) and all(0.0 < sigma < math.inf for sigma in noise),
            optional=False,
        ),
        "max_ratings": replace(DPALS.constraints["max_ratings"], optional=False),  # the k that it was published for
    }

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: str = "add-remove",
        rank: int | None = None,
        n_iter: int | None = None,
        reg: float | None = None,
        max_ratings: int | None = None,
        head: float | None = None,
        noise: tuple[float, ...] | None = None,
        init_seed: int = 0,
    ) -> None:
        given = {"rank": rank, "n_iter": n_iter, "reg": reg, "max_ratings": max_ratings, "head": head}
        super().__init__(epsilon, delta, adjacency, **given, start="random", init_seed=init_seed)
        self.noise = noise

    def _settings(self, domain: Domain, budget: Budget) -> ALSSettings:
        return replace(super()._settings(domain, budget), learns_reg=False, learns_user_reg=False)

    def plan_of(self, settings: ALSSettings) -> Plan:
        assert self.noise is not None
        assert settings.max_ratings is not None
        noise = PublishedNoise(*self.noise)
        return with_published_noise(super().plan_of(settings), settings.max_ratings, noise, settings.budget.epsilon)


def published_plan(
    *,
    n_items: int,
    rank: int,
    n_iter: int,
    max_ratings: int,
    gram_noise: float,
    rhs_noise: float,
    preprocessing_noise: float,
    delta: float,
    unobserved_weight: float = 0.0,
    user_gram_noise: float | None = None,
    user_counts_normalised: bool = False,
    mean_as_published: bool = False,
) -> Plan:
    """The releases of Algorithms 1 and 3 with absolute noise as published, for add/remove, and their price.

    A user is in at most k = max_ratings items with a factor of norm 1 and ratings within 1 (the noise is stated in these
    units), so Gram matrices, right-hand sides and counts move by sqrt(k): multiplier noise/sqrt(k). The mean's sum and
    count are scalars, which one user moves by k, with noise sqrt(k) sigma_p: multiplier sigma_p/sqrt(k) too, where the
    paper books sigma_p (``mean_as_published``, to reproduce its figures). ``user_counts_normalised`` is the constant Z
    of loss (35), made of exact user counts: it couples all users, and no epsilon holds.
    """
    if max_ratings < 1 or n_iter < 1:
        refuse("max_ratings and n_iter", got=f"{max_ratings} and {n_iter}", needed="at least 1", try_="those of Table 4")
    root, triangle = math.sqrt(max_ratings), packed_length(rank)
    caveats = ["Noise as published; the epsilon printed is the one that holds for it."]
    mean = Gaussian(preprocessing_noise if mean_as_published else preprocessing_noise / root)
    lines = [
        Line("item_counts", Gaussian(preprocessing_noise / root), n_items, 2, "before and after adaptive sampling"),
        Line("global_mean", mean, 1, 2, "sum and count"),
        Line("item_gram", Gaussian(gram_noise / root), n_items * triangle, n_iter),
        Line("item_rhs", Gaussian(rhs_noise / root), n_items * rank, n_iter),
    ]
    if mean_as_published:
        caveats.append("The private mean is priced as in the paper, which is too little: do not rely on this epsilon.")
    if unobserved_weight > 0.0 and user_gram_noise is not None:
        lines.append(Line("user_gram", Gaussian(user_gram_noise), triangle, n_iter))
    elif unobserved_weight > 0.0:
        caveats.append("The paper states no noise for the users' Gram matrix: its release is left out of the price.")
    if user_counts_normalised:
        caveats.append("The loss is normalised by exact user counts, which couples all users: no epsilon holds.")
    sound = not (mean_as_published or user_counts_normalised or (unobserved_weight > 0.0 and user_gram_noise is None))
    public = (f"a catalogue of {n_items} items", "the rating range", "all hyper-parameters")
    settings = {"calibration": "published", "max_ratings": max_ratings, "rank": rank, "n_iter": n_iter}
    return Plan("DPALS", tuple(lines), delta, public=public, caveats=tuple(caveats), sound=sound, settings=settings)


def with_published_noise(plan: Plan, max_ratings: int, noise: PublishedNoise, epsilon: float) -> Plan:
    """The posts of a plan of ours with the paper's noise, independent on Gram matrices too, at the price that holds for it.

    One user moves a Gram stack and a stack of right-hand sides by 1 where the paper's move by sqrt(k): the same noise is
    noise/sqrt(k). Our means (or counts) take the place of Algorithm 3's counts, counts again and mean,
    at their price together: 4 k/sigma_p^2 in mu^2, 2 k/sigma_p^2 for counts alone.
    """
    root = math.sqrt(max_ratings)
    acute, any_sign = (1.0, 1.0) if plan.adjacency == "add-remove" else (math.sqrt(2.0), 2.0)
    multipliers = {
        "item_gram": noise.gram / root / acute,
        "item_rhs": noise.rhs / root / any_sign,
        "user_gram": (noise.user_gram or 1.0) / acute,
        "item_means": noise.preprocessing / root / 2.0 / any_sign,
        "item_counts": noise.preprocessing / root / math.sqrt(2.0) / acute,
    }
    of_means = [line for line in plan.lines if line.name in MEANS]
    if of_means:  # level, spread and item means share that price as they share our budget
        now = math.sqrt(sum(line.times * line.mechanism.mu**2 for line in of_means))
        multipliers |= {line.name: now * multipliers["item_means"] / line.mechanism.mu for line in of_means}
    lines = tuple(replace(line, mechanism=Gaussian(multipliers[line.name.rstrip("_0123456789")])) for line in plan.lines)
    caveats = [f"Noise as published for epsilon = {epsilon:g}; the epsilon printed is the one that holds for it."]
    has_user_gram = any(line.name.startswith("user_gram") for line in plan.lines)
    if has_user_gram and noise.user_gram is None:
        caveats.append("The paper states no noise for the users' Gram matrix: no epsilon holds for what it describes.")
    return replace(
        plan,
        lines=lines,
        caveats=(*plan.caveats, *caveats),
        sound=plan.sound and not (has_user_gram and noise.user_gram is None),
        settings={**plan.settings, "calibration": "published", "asked_epsilon": epsilon, "max_ratings": max_ratings},
    )


def renyi_epsilon(plan: Plan) -> float:
    """The epsilon of the plan's releases by the paper's conversion; ``plan.price.epsilon`` is the exact one."""
    return rdp_epsilon(plan.price.mu**2 / 2.0, plan.delta)


def exact_noise_factor(plan: Plan, epsilon: float) -> float:
    """What all noise of the plan may be multiplied with so that it costs ``epsilon`` exactly: below 1 is a gain."""
    return plan.price.mu / gaussian_mu(epsilon, plan.delta)
