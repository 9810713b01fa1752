"""Lab room: what the game that was played says of each post and of all together: bounds, and what lies above the claim."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowkey.audit.bounds import Scores, noise_width
from lowkey.audit.canaries import BEYOND, OF_A_KIND, Canaries, History
from lowkey.audit.game import Played
from lowkey.audit.result import AuditResult, Layer, PostFound, as_epsilon, roc_of
from lowkey.errors import LowkeyError
from lowkey.testing.watching import Violation

FALSE_ALARM = 1e-5  # of a verdict on code that is right, over all that it looks at
MOST = 200  # canaries along whom a post's noise is measured
ANYBODY = "somebody"
HAIR = 1e-9  # of a claim: nothing is above it by less


def posts_found(history: History, played: Played, confidence: float) -> list[PostFound]:
    """For each post that somebody moves: the worst canary's shift over the widest noise that the runs allow."""
    everybody = played.canaries.kinds != BEYOND
    found: list[PostFound] = []
    for post, entry in enumerate(history.known.entries):
        mu, best = float(history.mus[post]), float(played.canaries.best[post])
        if best:
            width, widest = _width_along(history, played, post, everybody, confidence)
            found.append(PostFound(entry.statistic.name, mu, best / mu, width, best / widest))
    return found


def above_claim(history: History, played: Played, mu: float) -> list[str]:
    """What is proved to cost more than is claimed: in one line each; of sound code, once in 1/FALSE_ALARM audits.

    A post is looked at along all canaries, and along those of each kind alone: noise may be too narrow for one of them.
    And under other histories: the plan fixes the ratio of reach and noise for all of them.
    """
    canaries, groups = played.canaries, list(_groups(played.canaries))
    strict = 1.0 - FALSE_ALARM / (len(history.spans) * len(groups) + 2)
    above = all_above_claim(played.scores(), mu, strict)
    for post, entry in enumerate(history.known.entries):
        claimed, seen = float(history.mus[post]), list[tuple[float, str]]()
        for whom, group in groups:
            most = float(canaries.reach[group, post].max())
            if most:
                widest = _width_along(history, played, post, group, strict)[1]
                seen.append((most / widest, whom))
                if whom == ANYBODY:
                    seen.append((claimed * history.reached.get(entry.statistic.name, 0.0) / widest, "another history"))
        if seen and max(seen)[0] > claimed * (1.0 + HAIR):
            above.append(
                f"{entry.statistic.name} has mu {max(seen)[0]:.3g} or more for {max(seen)[1]}, claimed {claimed:.3g}"
            )
    return above


def all_above_claim(scores: Scores, mu: float, confidence: float = 1.0 - FALSE_ALARM) -> list[str]:
    """The same of all posts together."""
    more = scores.gaussian(confidence)[1] > mu or scores.free(confidence) > mu
    return ["all posts together cost more than is claimed"] if more else []


def judged(method: str, unit: str, price: Any, scores: Scores, confidence: float, above: list[str]) -> AuditResult:
    """Layer 2 for one composition."""
    as_eps = lambda mu: as_epsilon(mu, price.delta)
    measured, lower, free = map(as_eps, (*scores.gaussian(confidence), scores.free(confidence)))
    figure = f"epsilon at least {lower:.3f} of {price.epsilon:.3f} claimed ({scores.values.size:,} scores)"
    return AuditResult(
        method, unit, price.epsilon, price.delta, confidence, scores.values.size, measured, lower, free,
        layers=(Layer(2, not above, "; ".join([*above, figure])),), mu=price.mu, roc=roc_of(scores.values, scores.inside),
    )  # fmt: skip


@contextmanager
def as_finding(found: list[Layer], number: int) -> Iterator[None]:
    """What is violated, or breaks down under attack, fails its layer in one line; a refusal is the caller's to read."""
    try:
        yield
    except (LowkeyError, MemoryError):
        raise
    except Violation as error:
        found.append(Layer(number, False, str(error)))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"line {place.lineno} of {Path(place.filename).name}"
        found.append(Layer(number, False, f"the code breaks down under attack: {type(error).__name__} in {where}"))


def _groups(canaries: Canaries) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    yield ANYBODY, canaries.kinds != BEYOND
    kinds = np.unique(canaries.kinds)
    for kind in kinds if len(kinds) > 1 else ():
        group = canaries.kinds == kind
        if kind == BEYOND:
            yield "users beyond the scale", group
        elif group.sum() >= OF_A_KIND // 2:
            yield f"users with {kind} ratings", group


def _width_along(
    history: History, played: Played, post: int, group: NDArray[np.bool_], confidence: float
) -> tuple[float, float]:
    """Of a post's noise along the canaries of a group, and its upper bound."""
    span, reach = history.spans[post], played.canaries.reach[:, post]
    some = np.flatnonzero(group & (reach > 0.0))
    some = some[:: -(-len(some) // MOST)]
    directions = played.canaries.shift[some, span] * history.scale[span] / reach[some, None]
    gram = directions @ directions.T
    degrees = len(some) ** 2 / float((gram**2).sum())
    return noise_width((played.along[post][:, some] ** 2).mean(axis=1), degrees, confidence)
