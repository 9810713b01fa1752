"""Lab room: hyper-parameters chosen on private data, with the choice in the price: repeat and select.

A random number K of candidates is drawn; each is fitted and scored, and only the one with the best score is released. For
K of the logarithmic law with mean m the whole costs little more than one candidate, by Rényi accounting.

Paper: Papernot and Steinke 2021 (arXiv:2110.03620), Theorem 2, as dp_accounting's RepeatAndSelectDpEvent prices it.
Deviates: nowhere. A candidate is a fit and a noisy score on *other* users: who belongs to which part depends on a user's
own key alone, so an added user is in one of them, and the pair costs the larger of the two, not the sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.optimize import brentq

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Ratings
from lowkey.errors import refuse
from lowkey.evaluation.splits import Split
from lowkey.linalg.topn import top_n
from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu
from lowkey.privacy.noise import NoiseSource
from lowkey_lab.tuning import candidates

MEAN_CANDIDATES = 5.0
SCORING_SHARE = 10  # one user in ten scores
GRID = 2.0**-30  # of the scores
# What the noise sampler's finite resolution costs is below 1e-6 per candidate (noise.log_ratio), in the Rényi divergence
# of every order above 1.1 too, and enters the formula at most three times; this share of epsilon is set aside for it.
ASIDE = 1e-3


def selection_epsilon(mu: float, delta: float, mean: float = MEAN_CANDIDATES) -> float:
    """Epsilon, at ``delta``, of the best of a random number of mu-GDP candidates (logarithmic law with this mean)."""
    accountant = RdpAccountant(list(1.0 + np.geomspace(0.1, 1e5, 300)))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1.0 / mu), mean, 0.0))
    return float(accountant.get_epsilon(delta))


def candidate_mu(epsilon: float, delta: float, mean: float = MEAN_CANDIDATES) -> float:
    """The mu that each candidate may have so that the whole costs at most ``epsilon``."""
    target = epsilon * (1.0 - ASIDE)
    low, high = 0.0, gaussian_mu(epsilon, delta)
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if selection_epsilon(middle, delta, mean) <= target else (low, middle)
    if low == 0.0:
        refuse("epsilon", got=f"{epsilon:g}", needed="more, for private selection", try_="tuning on public data instead")
    return low


def logarithmic_parameter(mean: float) -> float:
    """The p of P(K = k) = p^k / (-k ln(1 - p)), k >= 1, for which K has this mean: p / ((p - 1) ln(1 - p))."""
    if mean <= 1.0:
        refuse("mean", got=f"{mean:g}", needed="more than 1 candidate", try_="mean=5")
    excess = lambda log_rest: math.expm1(-log_rest) / -log_rest - mean  # with 1 - p = e^log_rest
    root: Any = brentq(excess, -50.0, -1e-9)
    return -math.expm1(root)


def select_privately(
    kind: Any, method: str, budget: dict[str, Any], split: Split, mean: float = MEAN_CANDIDATES
) -> tuple[Any, dict[str, Any]]:
    """The selected fit, and what a results row says of the selection."""
    if budget["adjacency"] != "add-remove":
        refuse("adjacency", got=budget["adjacency"], needed="add-remove: one user in one part", try_="add-remove")
    mu = candidate_mu(budget["epsilon"], budget["delta"], mean)
    each = {**budget, "epsilon": gaussian_epsilon(mu, budget["delta"]) * (1.0 - 1e-9)}
    train, scorers = scoring_users(split.train)
    rng, noise, tried = np.random.default_rng(), NoiseSource(), []
    choices = candidates(method)
    for _ in range(rng.logseries(logarithmic_parameter(mean))):
        settings = choices[rng.integers(len(choices))]
        model = kind(**each, **settings).fit(train)
        if model.guarantee_.mu > mu:
            refuse(method, got="a fit that costs more than its share", needed="a plan of Gaussian posts", try_="defaults")
        total = int(np.floor(user_scores(model, *scorers) / GRID).astype(np.int64).sum())  # in whole units: exact
        noisy = GRID * (total + int(noise.rounded_gaussian(1.0 / (mu * GRID), 1)[0]))  # one user moves the sum by <= 1
        tried.append((noisy, settings, model))
    _, settings, best = max(tried, key=lambda candidate: candidate[0])
    facts = {"selected": settings, "mean_candidates": mean, "candidate_epsilon": each["epsilon"]}
    return best, {**facts, "booked_epsilon": selection_epsilon(mu, budget["delta"], mean) / (1.0 - ASIDE)}


def scoring_users(ratings: Ratings) -> tuple[Ratings, tuple[Any, Any]]:
    """Users to train on, and (histories, held out) of those who score; each user's part follows from the own key."""
    rows: Any = ratings._open_csr()
    keys = ratings._open_keys()
    scoring = splitmix64(keys) % np.uint64(SCORING_SHARE) == 0
    shown_rows, held_rows = rows[scoring].copy(), rows[scoring].copy()
    owner = np.repeat(keys[scoring], np.diff(shown_rows.indptr))
    held = splitmix64(owner + shown_rows.indices.astype(np.uint64) + np.uint64(1)) % np.uint64(5) == 0
    return Ratings.from_csr(rows[~scoring], ratings.domain, keys=keys[~scoring]), (
        _only(shown_rows, ~held),
        _only(held_rows, held),
    )


def user_scores(model: Any, histories: Any, held_out: Any, k: int = 20) -> np.ndarray:
    """One number from 0 to 1 per user: how much of a third of the range the errors leave; for binary feedback Recall@k."""
    scores = model.predict(histories)
    limits = model.model_.domain.rating_range
    worst = math.inf if limits is None else ((limits[1] - limits[0]) / 3.0) ** 2
    found = np.zeros(held_out.shape[0])
    lists = top_n(scores, k, histories)[0] if limits is None else None
    for user, (start, stop) in enumerate(zip(held_out.indptr[:-1], held_out.indptr[1:], strict=True)):
        items = held_out.indices[start:stop]
        if not len(items):
            continue
        if lists is not None:
            found[user] = np.isin(lists[user], items).sum() / min(k, len(items))
        else:
            error = np.mean((scores[user, items] - held_out.data[start:stop]) ** 2)
            found[user] = max(0.0, 1.0 - error / worst)
    return np.clip(np.nan_to_num(found), 0.0, 1.0)


def _only(rows: Any, chosen: np.ndarray) -> Any:
    before = np.concatenate([[0], np.cumsum(chosen)])
    return type(rows)((rows.data[chosen], rows.indices[chosen], before[rows.indptr]), shape=rows.shape)
