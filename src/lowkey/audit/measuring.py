"""Lab room: ``lk.audit``: the four layers, one after the other, on one estimator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from lowkey.audit.bounds import FEWEST_RUNS, check_enough
from lowkey.audit.canaries import CELLS, History, choose_history, typical_canaries, worst_canaries
from lowkey.audit.game import Played, play
from lowkey.audit.membership import attack_membership
from lowkey.audit.noise import look_at
from lowkey.audit.precision import attack_precision
from lowkey.audit.result import AuditResult, Layer, as_epsilon, roc_of
from lowkey.audit.stand_in import MOST_USERS, Crowd, made_up_rows, opened, people_of, stand_in_domain, through_a_file
from lowkey.audit.verdict import FALSE_ALARM, above_claim, as_finding, posts_found
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.errors import LowkeyError, refuse
from lowkey.methods.base import Recommender
from lowkey.privacy.noise import NoiseSource, SeededNoise
from lowkey.privacy.plan import Plan
from lowkey.testing.attackers import aligned, gallery
from lowkey.testing.replaying import record, replay_shares
from lowkey.testing.suites import neighbour

MOST_CANARIES = 1000  # of one run
NEIGHBOURS = 24  # whole fits that are replayed
TARGETS = 8  # of the black-box attack


def audit(
    estimator: Any,
    data: Ratings | None = None,
    *,
    domain: Domain | None = None,
    layers: Sequence[int] = (1, 2, 3, 4),
    canaries: int = 100_000,
    confidence: float = 0.95,
    seed: int | None = None,
    noise: NoiseSource | None = None,
) -> AuditResult:
    """Measure the privacy of an estimator's fits, on a crowd that is made up.

    Parameters
    ----------
    estimator, data : Recommender, Ratings, optional
        What is audited; rows in place of the made-up crowd: for their curator alone.
    domain, seed : Domain, int, optional
        Of the made-up crowd; the seed is also for the canaries and their coins.
    layers, canaries, confidence : ints, int, float
        1 replay, 2 canaries, 3 black-box attack, 4 noise; scores in all; of the lower bounds.
    noise : NoiseSource, optional
        In place of that of a release.

    Examples
    --------
    >>> import lowkey as lk
    >>> lk.audit(lk.DPBias(epsilon=1.0, delta=1e-5), layers=[2], canaries=20_000).ok  # doctest: +SKIP
    True
    """
    domain, plan, runs = checked(estimator, data.domain if data is not None else domain, layers, canaries, confidence)
    rng = np.random.default_rng(seed)
    crowd = opened(data, MOST_USERS, rng) if data is not None else through_a_file(domain, made_up_rows(domain, 3))
    result = AuditResult(
        type(estimator).__name__, plan.unit.neighbours, plan.price.epsilon, plan.delta, confidence, mu=plan.price.mu,
        curator_only=data is not None,
    )  # fmt: skip
    make = lambda: clone(estimator)
    noise = NoiseSource() if noise is None else noise
    found: list[Layer] = []
    if 1 in layers:
        with as_finding(found, 1):
            found.append(_replay(make, domain, crowd, data is None))
    if {2, 4} & set(layers):
        with as_finding(found, 2 if 2 in layers else 4):  # where the game breaks, its noise can't be told from the rest
            history = choose_history(make, domain, *crowd, 5)
            worst = worst_canaries(history, canaries // runs, rng)
            played = play(history, worst, min(runs, max(FEWEST_RUNS, int(CELLS / history.scale.size))), rng, noise)
            if 2 in layers:
                result, layer = _canaries(result, history, played, rng)
                found.append(layer)
            if 4 in layers:
                found.append(_noise(history, played, noise))
    if 3 in layers:
        with as_finding(found, 3):
            found.append(_black_box(make, domain, crowd, rng, noise))
    return replace(result, layers=tuple(sorted(found, key=lambda layer: layer.number)))


def checked(
    estimator: Any, domain: Domain | None, layers: Sequence[int], canaries: int, confidence: float
) -> tuple[Domain, Plan, int]:
    """The domain and plan of an audit, and its number of runs; refuses what can't be measured, before anything begins."""
    if not isinstance(estimator, Recommender) or not estimator.private:
        needed = "a private recommender, such as lk.DPMoments(epsilon=1, delta=1e-6)"
        refuse("an audit", got=f"{type(estimator).__name__}", needed=needed, try_="one of these")
    if not layers or not set(layers) <= {1, 2, 3, 4}:
        refuse("layers", got=f"{list(layers)}", needed="some of 1, 2, 3 and 4", try_="layers=[1, 2]")
    domain = _domain_for(estimator) if domain is None else domain
    plan = estimator.plan(domain)
    runs = max(1, canaries // min(MOST_CANARIES, max(1, canaries // 40)))
    check_enough(canaries, runs, plan.price.mu, confidence)
    return domain, plan, runs


def _domain_for(estimator: Any) -> Domain:
    """The stand-in's domain: ratings, or who took what where the method needs that."""
    ratings = stand_in_domain()
    try:
        estimator.plan(ratings)
    except LowkeyError:
        return stand_in_domain("binary")
    return ratings


def _replay(make: Any, domain: Domain, crowd: Crowd, from_file: bool) -> Layer:
    """Layer 1: whole fits on neighbours, under the posts of the first; of a made-up crowd from the file on."""
    rows, keys = crowd
    largest: dict[str, float] = {}
    known = record(make(), domain, rows, keys, SeededNoise(11))
    users = [*gallery(domain, rows).values(), *(row for _, row in aligned(domain, known))]
    users = [row for row in users if len(row[0])][:NEIGHBOURS]  # in a file there is nobody without a rating
    for row, place in zip(users, itertools.cycle([0, len(rows) // 2, len(rows) - 1]), strict=False):
        if from_file:
            other = through_a_file(domain, rows, row, place, known.adjacency == "replace-one")
        else:
            other = neighbour(rows, keys, row, known.adjacency, place)
        for name, share in replay_shares(known, make(), domain, *other).items():
            largest[name] = max(share, largest.get(name, 0.0))
    most = max(largest, key=lambda name: largest[name])
    figure = f"{len(users)} neighbours move a sum by at most {largest[most]:.4f} of what is declared ({most})"
    return Layer(1, True, figure, largest)


def _canaries(result: AuditResult, history: History, played: Played, rng: np.random.Generator) -> tuple[AuditResult, Layer]:
    """Layer 2: bounds for all posts together, and for each."""
    scores, above = played.scores(), above_claim(history, played, result.mu)
    measured, lower = scores.gaussian(result.confidence)
    free = scores.free(result.confidence)
    delta = result.delta
    typical = as_epsilon(float(typical_canaries(history, 60, rng).mu.mean()), delta)  # as they are, in the claimed noise
    result = replace(
        result,
        canaries=scores.values.size,
        measured_epsilon=as_epsilon(measured, delta),
        lower_epsilon=as_epsilon(lower, delta),
        free_epsilon=as_epsilon(free, delta),
        typical_epsilon=typical,
        posts=tuple(posts_found(history, played, result.confidence)),
        roc=roc_of(scores.values, scores.inside),
    )
    figure = (
        f"epsilon at least {result.lower_epsilon:.3f} of {result.epsilon:.3f} claimed ({result.confidence:.0%} confidence, "
        f"{result.canaries:,} scores); {result.free_epsilon:.3f} with no form assumed; a typical user reaches {typical:.2f}"
    )
    details = {"above": above, "reach": float(played.canaries.mu.mean()) / result.mu}
    return result, Layer(2, not above, "; ".join([*above, figure]), details)


def _noise(history: History, played: Played, noise: NoiseSource) -> Layer:
    """Layer 4: the noise of these very posts, and attacks on its last bits."""
    findings, attacks = look_at(history, played, noise), attack_precision(noise)
    odd = [f"{finding.what}: {finding.figure}" for finding in findings if not finding.ok]
    odd += [f"{a.attack}'s attack is right {a.right:.0%}" for a in attacks if a.build == "lowkey" and a.broken]
    odd += [f"{a.attack}'s attack does not break the naive build" for a in attacks if a.build == "naive" and not a.broken]
    ours, naive = (pick(a.right for a in attacks if a.build == b) for pick, b in ((max, "lowkey"), (min, "naive")))
    figure = f"width, law, tails, lattice, independence as claimed; precision attacks {ours:.0%} right, {naive:.0%} on a "
    figure += "naive build"
    details = {finding.what: finding.figure for finding in findings}
    details |= {f"{a.attack} on {a.build}": f"{a.right:.3f} of {a.guesses} guesses right" for a in attacks}
    return Layer(4, not odd, "; ".join(odd) or figure, details)


def _black_box(make: Any, domain: Domain, crowd: Crowd, rng: np.random.Generator, noise: NoiseSource) -> Layer:
    """Layer 3: membership from what is published."""
    people = people_of(crowd)
    order = sorted(range(len(people)), key=lambda i: -len(people[i][0]))[:TARGETS]
    others = [person for i, person in enumerate(people) if i not in order]
    found = attack_membership(make, domain, others, [people[i] for i in order], rng, 1.0 - FALSE_ALARM, noise)
    figure = (
        f"{found.success:.1%} of {found.guesses} coins guessed right from the published model, the report's bound is "
        f"{found.allowed:.1%} (a lower bound on what can be guessed)"
    )
    return Layer(3, found.ok, figure, {"success": found.success, "allowed": found.allowed})
