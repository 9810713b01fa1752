"""Lab room: hyper-parameters chosen on private data, with the choice in the price: repeat and select.

A random number K of candidates is drawn; each is fitted and scored, and only the one with the best score is released. Its
ledger holds one post, the selection, at the price of the whole (privacy/repeat_and_select.py).

Paper: Papernot and Steinke 2021 (arXiv:2110.03620), Theorem 2. Deviates: nowhere.
A candidate is a fit and a noisy score on *other* users: who belongs to which part depends on a user's own key alone, so an
added user is in one of them, and the pair costs the larger of the two, not the sum.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from lowkey.data.ids import splitmix64
from lowkey.data.ratings import Ratings
from lowkey.errors import refuse
from lowkey.evaluation.splits import Split
from lowkey.linalg.topn import top_n
from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.noise import NoiseSource
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.repeat_and_select import ASIDE, RepeatAndSelect, selection_epsilon
from lowkey_lab.tuning import candidates

MEAN_CANDIDATES = 5.0
SCORING_SHARE = 10  # one user in ten scores
GRID = 2.0**-30  # of the scores
OWN_DELTA = 1.0 - 1e-6  # the share of delta that the selection takes; a ledger wants some for the sampler's resolution


def candidate_mu(epsilon: float, delta: float, mean: float = MEAN_CANDIDATES) -> float:
    """The mu that each candidate may have so that the whole costs at most ``epsilon``."""
    target = epsilon * (1.0 - ASIDE) * (1.0 - 1e-9)
    low, high = 0.0, gaussian_mu(epsilon, delta)
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if selection_epsilon(middle, delta, mean) <= target else (low, middle)
    if low == 0.0:
        refuse("epsilon", got=f"{epsilon:g}", needed="more, for private selection", try_="tuning on public data instead")
    return low


def selection_plan(method: str, budget: dict[str, Any], mean: float) -> Plan:
    """What a selection books: the candidates' fits, their scores and the choice among them, as one post."""
    delta = budget["delta"]
    mechanism = RepeatAndSelect(candidate_mu(budget["epsilon"], delta * OWN_DELTA, mean), mean, delta * OWN_DELTA)
    line = Line("selected_fit", mechanism, 1, note="the posts of the best candidate, and that it was the best")
    facts = ("the catalogue and its scale", "all hyper-parameters that were tried")
    return Plan(f"private selection of {method}", (line,), delta, public=facts)


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
    plan = selection_plan(kind.__name__, budget, mean)
    (line,) = plan.lines
    assert isinstance(line.mechanism, RepeatAndSelect)
    mu, ledger, noise = line.mechanism.candidate_mu, Ledger(), NoiseSource()
    ledger.add_plan(plan)
    reservation = ledger.reserve(line, {"candidates": method}, noise_is_private=noise.private)
    each = {**budget, "epsilon": gaussian_epsilon(mu, budget["delta"]) * (1.0 - 1e-9)}
    train, scorers = scoring_users(split.train)
    tried = []
    choices = candidates(method)
    for _ in range(number_of_candidates(mean, noise)):
        settings = choices[int(noise.words(1)[0]) % len(choices)]
        model = kind(**each, **settings).fit(train)
        if model.guarantee_.mu > mu or not model.guarantee_.price.gaussian:
            refuse(method, got="a fit that costs more than its share", needed="a plan of Gaussian posts", try_="defaults")
        total = int(np.floor(user_scores(model, *scorers) / GRID).astype(np.int64).sum())  # in whole units: exact
        noisy = GRID * (total + int(noise.rounded_gaussian(1.0 / (mu * GRID), 1)[0]))  # one user moves the sum by <= 1
        tried.append((noisy, settings, model))
    _, settings, best = max(tried, key=lambda candidate: candidate[0])
    # The candidate's own ledger says what one fit costs. What is handed out is the choice, at the price of the choice.
    ledger.commit(reservation, hashlib.sha256(best.ledger_.dumps().encode()).hexdigest())
    best.model_ = replace(best.model_, ledger=ledger)
    facts = {"selected": settings, "mean_candidates": mean, "candidate_epsilon": each["epsilon"]}
    return best, {**facts, "booked_epsilon": best.guarantee_.epsilon}


def number_of_candidates(mean: float, noise: NoiseSource) -> int:
    """A draw of the logarithmic law, by inversion, from the generator of the noise: the law of K is part of the proof."""
    p = logarithmic_parameter(mean)
    uniform = (int(noise.words(1)[0]) >> 11) * 2.0**-53
    k, chance = 1, -p / math.log1p(-p)
    while uniform >= chance and k < 10_000:
        uniform -= chance
        chance *= p * k / (k + 1.0)
        k += 1
    return k


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
