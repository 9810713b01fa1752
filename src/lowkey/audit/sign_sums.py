"""Lab room: canaries for one-bit completion where noise is added: a sign's value, and what it moves in every post."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from lowkey.audit.bounds import Scores
from lowkey.audit.canaries import Array
from lowkey.audit.result import AuditResult
from lowkey.audit.verdict import FALSE_ALARM, all_above_claim, judged
from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.engines.local import LocalEngine
from lowkey.kernels.one_bit import Responses, SignSweep
from lowkey.methods.curator import Curator
from lowkey.methods.one_bit.method import DPOneBit
from lowkey.methods.one_bit.perturbations import GradientPerturbation
from lowkey.methods.one_bit.settings import OneBitSettings
from lowkey.privacy.noise import NoiseSource
from lowkey.testing.noise_checks import widths
from lowkey.testing.watching import Entry, RecordingBillboard, Violation

SIDE, RUNS, ROUNDS = 40, 40, 2  # 1,600 signs, so often, for each of the forms
# With the clamp of a fit it is the clamp that bounds a gradient; with one that no score reaches, the bound on the scores.
FORMS = {"objective": ("objective", 0.5), "gradient": ("gradient", 0.5), "gradient, wide clamp": ("gradient", 50.0)}
SCORES = (0.0, 1.0, 3.0)  # in units of their bound: a kernel must hold its own for scores that no fit would ask at
DOMAIN = Domain(SIDE, (-1.0, 1.0))


def one_bit_sums(epsilon: float, delta: float, confidence: float, seed: int | None) -> AuditResult:
    """A sign is exchanged for the other one, which moves one number of every post: each sign has noise of its own.

    Under forced scores a like and a dislike add fixed numbers a and b to each post of a sign's slot. Along a - b, in units
    of the claimed noise, the posts less b are N(reach, 1) for a like and N(0, 1) for a dislike.
    """
    rng, found, above = np.random.default_rng(seed), list[Scores](), list[str]()
    likes = rng.random((RUNS, SIDE * SIDE)) < 0.5
    strict, price = 1.0 - FALSE_ALARM / len(FORMS), None
    for name, (form, clamp) in FORMS.items():
        estimator = DPOneBit(epsilon, delta, perturbation=form, link="probit", n_iter=ROUNDS)
        settings = replace(estimator.resolve(DOMAIN, Positions.of(_ratings(likes[0]))), gradient_bound=clamp)
        plan = estimator.plan_of(settings)
        sweeps = [_sweep(settings, score) for score in (SCORES if form == "gradient" else SCORES[:1])]
        worst = max(sweeps, key=lambda sweep: float(np.abs(np.subtract(*_ends(plan, sweep))).max()))
        found.append(_played(plan, worst, likes))
        above += [f"{name}: {line}" for line in all_above_claim(found[-1], plan.price.mu, strict)]
        price = plan.price
    values, inside, reach = ([getattr(scores, part) for scores in found] for part in ("values", "inside", "reach"))
    scores = Scores(np.hstack(values), np.hstack(inside), np.hstack(reach))
    return judged("DPOneBit, noisy sums", "one rating's value", price, scores, confidence, above)


def _ratings(likes: Any) -> Ratings:
    stars = scipy.sparse.csr_array(np.where(likes, 1.0, -1.0).reshape(SIDE, SIDE))
    return Ratings.from_csr(stars, DOMAIN, np.arange(SIDE, dtype=np.uint64))


def _sweep(settings: OneBitSettings, score: float) -> SignSweep:
    if settings.perturbation == "objective":
        return Responses(**settings.shared())
    return GradientPerturbation().sweep(settings, np.full(settings.size, score * settings.entry_bound))


def _posts(plan: Any, sweep: SignSweep, likes: Any) -> list[Entry]:
    """Real posts of real passes, every round under the same forced scores."""
    billboard = RecordingBillboard(NoiseSource())
    billboard.begin(plan)
    curator = Curator(_ratings(likes), LocalEngine(n_jobs=1), billboard)
    for _ in range(plan.lines[0].times):
        curator.ask(sweep)
    return billboard.entries


def _ends(plan: Any, sweep: SignSweep) -> tuple[Array, Array]:
    """What the slots hold if all signs are likes, and if none is, in grid units."""
    all_likes, no_likes = (_posts(plan, sweep, np.full(SIDE * SIDE, like))[0].units for like in (True, False))
    return all_likes.astype(np.float64), no_likes.astype(np.float64)


def _played(plan: Any, sweep: SignSweep, likes: Any) -> Scores:
    high, low = _ends(plan, sweep)
    values, reach = np.empty(likes.shape), np.zeros(likes.shape[1])
    for run, coins in enumerate(likes):
        entries, left = _posts(plan, sweep, coins), np.zeros(likes.shape[1])
        step, width = entries[0].statistic.grid.step, widths(entries[0], plan.unit.neighbours)
        for entry in entries:
            if not np.array_equal(entry.units, np.where(coins, high, low)):
                raise Violation("a sum is not made of each sign alone: signs are not told apart")
            left += (entry.posted - low * step) / width
        rounds, shift = np.sqrt(len(entries)), (high - low) * step / width
        values[run], reach = np.sign(shift) * left / rounds, np.abs(shift) * rounds
    return Scores(values, likes, reach)
