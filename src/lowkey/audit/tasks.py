"""Lab room: canaries of their own for what is no fit on users: a sign, a record, and a user who speaks once in a stream."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse
from scipy import stats

from lowkey.audit.bounds import Scores
from lowkey.audit.canaries import Array, Canaries, History
from lowkey.audit.game import play
from lowkey.audit.result import AuditResult, Layer
from lowkey.audit.verdict import FALSE_ALARM, above_claim, all_above_claim, judged
from lowkey.data.calendar import Calendar
from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.data.timed import TimedRatings
from lowkey.data.trace import DenseMeasurements, RecordBlock, TraceRecords
from lowkey.engines.local import LocalEngine
from lowkey.kernels.one_bit import Signs
from lowkey.methods.bias.method import DPBias
from lowkey.methods.curator import Curator
from lowkey.methods.one_bit.method import DPOneBit
from lowkey.methods.stream import Stream
from lowkey.methods.trace.method import DPTraceRegression
from lowkey.privacy.noise import NoiseSource
from lowkey.testing.watching import Record, RecordingBillboard, Violation, WatchingEngine

SIDE, SIGN_RUNS = 40, 25  # 1,600 signs, so often
RECORDS, SHAPE, RECORD_RUNS = 60, (7, 5), 400
N_ITEMS, STREAM_RUNS, RELEASES, SPEAKERS = 2000, 25, 4, 4000  # many items: one noise for many speakers would say less
DAY = 86_400


def one_bit(epsilon: float, delta: float, confidence: float, seed: int | None) -> AuditResult:
    """A sign is flipped or not, and nothing else happens to it: whoever takes it as it stands is right 1 - p of the time.

    The canaries are all signs; each is drawn by a fair coin and flipped on its own, so that the count is binomial, and
    epsilon >= ln(right/wrong) at its lower Clopper-Pearson limit: exact, and of no assumed form.
    """
    rng, estimator = np.random.default_rng(seed), DPOneBit(epsilon)
    domain, right, n = Domain(SIDE, (-1.0, 1.0)), 0, 0
    for _ in range(SIGN_RUNS):
        stars = rng.choice([-1.0, 1.0], (SIDE, SIDE))
        ratings = Ratings.from_csr(scipy.sparse.csr_array(stars), domain)
        settings = estimator.resolve(domain, Positions.of(ratings))
        billboard = RecordingBillboard(NoiseSource())
        billboard.begin(estimator.plan_of(settings))
        posted = Curator(ratings, LocalEngine(n_jobs=1), billboard).ask(Signs(**settings.shared()))["signs"]
        right += int((np.asarray(posted) == billboard.entries[0].units).sum())
        n += posted.size
    limit = lambda level: float(np.log((low := stats.beta.ppf(1.0 - level, right, n - right + 1)) / (1.0 - low)))
    lower = max(0.0, limit(confidence))
    ok = limit(1.0 - FALSE_ALARM) <= epsilon
    figure = f"epsilon at least {lower:.3f} of {epsilon:.3f} claimed for one rating's sign ({n:,} signs)"
    numbers = {
        "canaries": n,
        "lower_epsilon": lower,
        "free_epsilon": lower,
        "measured_epsilon": float(np.log(right / (n - right))),
    }
    return AuditResult(
        "DPOneBit", "one rating's value", epsilon, 0.0, confidence, layers=(Layer(2, ok, figure),), **numbers
    )


@dataclass(frozen=True, eq=False)
class RecordHistory(History):
    """Records (X, y) in place of users."""

    records: Any = ()

    @property
    def crowd(self) -> list[Any]:
        return list(zip(*self.records, strict=True))

    def data(self, people: list[Any]) -> Any:
        x, y = (np.array(part) for part in zip(*people, strict=True))
        return TraceRecords(DenseMeasurements(x), y)

    def block(self, person: Any) -> Any:
        x, y = person
        return RecordBlock(DenseMeasurements(np.array([x])), np.array([y]), 0)


def trace(epsilon: float, delta: float, confidence: float, seed: int | None) -> AuditResult:
    """A record is replaced: the same measurement, far along the posts' own directions, with a response of either sign."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((RECORDS, *SHAPE))
    y = x.reshape(RECORDS, -1) @ rng.standard_normal(SHAPE[0] * SHAPE[1]) * 0.3
    facts: dict[str, Any] = {"error_std": 0.2, "max_singular_value": 1.5, "n_iter": 3}
    engine = WatchingEngine()
    billboard = RecordingBillboard(NoiseSource(), engine)
    # The history is of a fit with much less noise, as so few records would end it early; the claim is the plan's.
    loud = DPTraceRegression(2, 100.0, delta, **facts)
    loud.fit(x, y, engine=engine, billboard=billboard)
    quiet = DPTraceRegression(2, epsilon, delta, **facts).plan(loud._facts(DenseMeasurements(x), y))
    lines = {line.name: line for line in quiet.lines}
    for entry in billboard.entries:
        entry.line = lines[entry.line.name]
    known = Record(quiet, billboard.entries, engine.calls, SimpleNamespace(), 0)  # pyright: ignore[reportArgumentType]
    history = RecordHistory(known, None, [], np.zeros(0, np.uint64), records=(x, y))  # pyright: ignore[reportArgumentType]
    points = [point for point in loud.path_ for _ in range(60)]
    near = [point.tangent_vector(rng.standard_normal(point.tangent_size)) for point in points]
    directions = [30.0 * (move + 0.1 * rng.standard_normal(SHAPE)) for move in near]
    pairs = [[(d, sign * 1e6) for d in directions] for sign in (1.0, -1.0)]
    firsts, seconds = (np.stack([history.added_by(person) for person in people]) for people in pairs)
    reach = history.norms(firsts - seconds)
    alike = np.zeros(len(directions), np.int64)
    worst = Canaries(pairs[0], pairs[1], seconds, firsts - seconds, reach, reach.max(axis=0), len(directions), alike)
    played = play(history, worst, RECORD_RUNS, rng, NoiseSource())
    above = above_claim(history, played, quiet.price.mu)
    return judged("DPTraceRegression", "one record", quiet.price, played.scores(), confidence, above)


def stream(epsilon: float, delta: float, confidence: float, seed: int | None) -> AuditResult:
    """A user speaks once, and is in all posts from then on, each with its weight: a score is over all posts."""
    rng, domain = np.random.default_rng(seed), Domain(N_ITEMS, feedback="binary", expected_users=2000)
    calendar = Calendar(first=14 * DAY, every=7 * DAY, wait=3 * DAY, patience=21 * DAY, least=1)
    values, inside = np.empty((STREAM_RUNS, SPEAKERS)), rng.random((STREAM_RUNS, SPEAKERS)) < 0.5
    taken = rng.integers(N_ITEMS, size=SPEAKERS)  # one item each: nobody moves the counts further
    begin = rng.integers(0, 7 * DAY * (RELEASES - 1), size=SPEAKERS)
    price, reach = None, np.zeros(SPEAKERS)
    for run, coins in enumerate(inside):
        with tempfile.TemporaryDirectory(prefix="lowkey-audit-") as folder:
            made = Stream(folder, DPBias(epsilon, delta), domain, calendar, RELEASES)
            columns = {"user": np.flatnonzero(coins), "item": taken[coins], "time": begin[coins]}
            ratings = TimedRatings.from_frame(pa.table(columns), domain, user="user", item="item", rating=None, time="time")
            left, unit = _posts_of(made, ratings, columns, calendar)
            weights = made.schedule.encoder[:, _spoken(begin, calendar)]  # (releases, speakers)
            values[run] = np.einsum("ts,ts->s", weights, left[:, taken]) / np.linalg.norm(weights, axis=0)
            reach = np.linalg.norm(weights, axis=0) * unit
            price = made.parts.plan.price
    scores = Scores(values + inside * reach, inside, reach)
    assert price is not None
    return judged(
        f"Stream of {RELEASES}, DPBias", "add-remove", price, scores, confidence, all_above_claim(scores, price.mu)
    )


def _posts_of(made: Stream, ratings: TimedRatings, columns: Any, calendar: Calendar) -> tuple[Array, float]:
    """The noise of every release's counts in units of what is claimed, and one speaker's reach before any weight."""
    billboard, kept = made.billboard, list[tuple[Any, Any]]()
    release_one = type(billboard)._release.__get__(billboard)

    def keeping(unreleased: Any, line: Any) -> Any:
        kept.append((unreleased.statistic, release_one(unreleased, line)))
        return kept[-1][1]

    billboard._release = keeping  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(RELEASES):
        made.release(ratings)
    statistic = kept[0][0]
    plan = made.parts.plan
    width = statistic.sensitivity.under(plan.unit.neighbours) / plan.lines[0].mechanism.mu
    counts = np.zeros((RELEASES, N_ITEMS))
    np.add.at(counts, (_spoken(columns["time"], calendar), columns["item"]), 1.0)
    expected = made.schedule.encoder @ counts * (1.0 - 2.0**-30)
    left = (np.stack([posted for _, posted in kept]) - expected) / width
    if np.abs(left).max() > 12.0:
        raise Violation("a post of the stream is not the weighted sum of those who spoke")
    return left, statistic.sensitivity.add_remove / width


def _spoken(begin: Any, calendar: Calendar) -> Any:
    """The release, from 0, at which somebody with one rating speaks: the first that knows it long enough."""
    times = np.array([calendar.time_of(release) for release in range(1, RELEASES + 1)])
    return np.minimum(np.searchsorted(times, np.asarray(begin) + calendar.wait), RELEASES - 1)
