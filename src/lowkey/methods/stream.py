"""Public room: a horizon of releases of one method, at the price of one: ``lk.Stream``.

Paper: ours (docs/refresh.md), after Denisov et al. 2022. Deviates: users speak once, by a calendar; sums are exact.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowkey.data.calendar import Calendar
from lowkey.data.domain import Domain
from lowkey.data.ratings import Ratings
from lowkey.data.spark_timed import SparkTimedRatings
from lowkey.data.spoken import Spoken
from lowkey.data.timed import TimedRatings
from lowkey.engines.local import Engine, LocalEngine
from lowkey.errors import InputError, refuse
from lowkey.methods.base import Recommender, Settings
from lowkey.methods.running import running
from lowkey.methods.streamed import StreamCurator
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.chain import LEDGER
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.noise import NoiseSource, secret_bytes
from lowkey.privacy.parts import Parts
from lowkey.privacy.plan import Plan
from lowkey.privacy.stream import Schedule

POSTS, PRIVATE = "posts", "private"
SPEAKS_ONCE = (
    "Everybody speaks once in this stream, by the calendar, with all ratings up to then; what they rate later has no part "
    "in it. The guarantee is for all of its releases together, made or not."
)
SPEAKS_AGAIN = (
    "Everybody speaks every {} releases in this stream, by the calendar, with all ratings up to then. The guarantee is for "
    "all of its releases together, made or not."
)


class Stream:
    """``releases`` of ``method`` over the years, for what one would cost; in a folder of its own.

    The first call books the stream, later ones go on with it: they need the same method, domain and calendar.

    Parameters
    ----------
    folder : path
        Of the stream: its ledger, its posts and its private state.
    method : DPBias, DPLists or DPMoments
        Its epsilon and delta are those of all releases together.
    domain : Domain
        Of every release.
    calendar : Calendar
        When there are releases, and when somebody speaks.
    releases : int
        How many there will be.
    half_life, window : float, int, optional
        In releases: after which a row counts half, or not at all.
    noise : NoiseSource, optional
        For tests; what it touches cannot be released.

    Examples
    --------
    >>> stream = lk.Stream("people.stream", lk.DPLists(2.0, 1e-6), domain, calendar, 52)  # doctest: +SKIP
    >>> stream.release(lk.TimedRatings.from_file("r.parquet", domain, user="u", item="i", time="t"))  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: str | Path,
        method: Recommender,
        domain: Domain,
        calendar: Calendar,
        releases: int,
        *,
        half_life: float | None = None,
        window: int | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        self.folder, self.method, self.domain, self.calendar = Path(folder), running(method), domain, calendar
        self.settings = self.method.resolve(domain)
        make_folder(self.folder)
        self.posts = KeptPosts(self.folder / POSTS)
        self.billboard = Billboard(Ledger(self.folder / LEDGER), noise=noise, kept=self.posts)
        booked = [plan for plan in self.billboard.ledger.plans() if plan.schedule is not None]
        name = secret_bytes(16).hex()
        fresh = None if booked else Schedule.optimal(name, releases, half_life, window, calendar.again)
        schedule = booked[0].schedule if fresh is None else fresh
        assert schedule is not None
        plan = self._plan(schedule)
        if not booked:
            self.billboard.begin(plan)
        same = (schedule.horizon, schedule.half_life, schedule.window) == (releases, half_life, window)
        if not same or (booked and _plain(booked[0]) != _plain(plan)):
            raise InputError(
                what="the stream in this folder is another one",
                got="another method, domain, calendar, horizon or price",
                needed="those that it was booked with",
                try_="a new folder for a new stream, whose price adds to this one's",
            )
        self.schedule = schedule
        self.billboard.resume(schedule.name)

    def _plan(self, schedule: Schedule) -> Plan:
        plan, budget = self.method.plan_of(self.settings), self.settings.budget
        requests = self.method._requests(self.settings)  # pyright: ignore[reportPrivateUsage]
        part = f"one release in {schedule.horizon} parts"
        noted = [replace(r, note=f"{r.note}; {part}" if r.note else part) for r in requests]
        return Plan.calibrated(
            plan.method,
            noted,
            epsilon=budget.epsilon,
            delta=budget.delta,
            mu=budget.mu,
            unit=plan.unit,
            public=(*plan.public, f"the calendar of {schedule.horizon} releases, and the rule when somebody speaks"),
            caveats=(*plan.caveats, SPEAKS_AGAIN.format(self.calendar.again) if self.calendar.again else SPEAKS_ONCE),
            settings={**plan.settings, "calendar": self.calendar.to_json()},
            schedule=schedule,
        )

    @property
    def parts(self) -> Parts:
        """What was posted so far."""
        return self.billboard.ledger.parts(self.schedule.name)

    @property
    def made(self) -> int:
        """The number of the last release that is made."""
        return self.parts.complete

    def release(
        self,
        ratings: TimedRatings | SparkTimedRatings,
        number: int | None = None,
        *,
        engine: Engine | None = None,
        rebuild: bool = False,
    ) -> Model:
        """Make release ``number`` (by default the next one) and those before it that were missed.

        One that is made already is made again from what was posted: it is the same, and no rating is looked at.
        ``rebuild`` makes the private state anew where it is lost, from the times of the ratings: sound if, since the
        stream began, ratings were only added or whole users erased.
        """
        last = self.made
        number = last + 1 if number is None else number
        self.schedule.check_release(number)
        if ratings.domain != self.domain:
            refuse("ratings", got="another domain than the stream's", needed="the same", try_="the stream's own catalogue")
        if rebuild:
            state = ratings._rebuilt(self.calendar, last)  # pyright: ignore[reportPrivateUsage]
            state.write(self.folder / PRIVATE, self.schedule.name, self.billboard.ledger)
        for release in range(last + 1, number + 1):
            self._made(release, self._cohorts(ratings, release), engine)
        return self.model(number)

    def _cohorts(self, ratings: TimedRatings | SparkTimedRatings, release: int) -> list[Ratings]:
        """Who speaks is on record before anything of theirs is posted: a crash in between lets nobody speak twice."""
        ledger, place = self.billboard.ledger, self.folder / PRIVATE
        spoken = Spoken.read(place, self.schedule.name, ledger)
        settled, cohorts = ratings._settled(self.calendar, release, spoken)  # pyright: ignore[reportPrivateUsage]
        settled.write(place, self.schedule.name, ledger)
        return cohorts

    def model(self, number: int | None = None) -> Model:
        """The model of a release that is made, from its posts alone."""
        return self._made(self.made if number is None else number, None, None)

    def _made(self, release: int, cohorts: Any, engine: Engine | None) -> Model:
        curator = StreamCurator(self.billboard, self.posts, release, cohorts, LocalEngine() if engine is None else engine)
        released = self.method._run(self._settings_of(release), curator)  # pyright: ignore[reportPrivateUsage]
        settings = {
            **released.settings,
            "stream": self.schedule.name,
            "release": release,
            "releases": self.schedule.horizon,
        }
        name = type(self.method).__name__
        return Model(name, released.rule, released.arrays, settings, self.domain, self.billboard.ledger)

    def _settings_of(self, release: int) -> Settings:
        """What a method weighs by its budget, it weighs by what the budget is worth at this release.

        How many users are expected is said of the end: until then their number is what was posted.
        """
        budget, domain = self.settings.budget, self.domain
        worth = replace(budget, mu=budget.mu / float(self.schedule.noise[release - 1]))
        return replace(self.settings, budget=worth, domain=Domain(domain.n_items, domain.rating_range, domain.feedback))

    def table(self) -> str:
        """What each release is worth, as the epsilon of a single release with its noise; and what splitting would give."""
        from lowkey.privacy.accounting import gaussian_epsilon

        mu, delta = self._plan(self.schedule).price.mu, self.settings.budget.delta
        rows = [f"{'release':>8}{'noise':>8}{'worth epsilon':>15}{'split':>8}"]
        split = gaussian_epsilon(mu / self.schedule.horizon**0.5, delta)
        for t, noise in enumerate(self.schedule.noise.tolist(), 1):
            rows.append(f"{t:>8}{noise:>8.3f}{gaussian_epsilon(mu / noise, delta):>15.2f}{split:>8.2f}")
        return "\n".join(rows)


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = error.strerror or type(error).__name__
        refuse(f"the stream's folder {folder}", got=got, needed="a place that can be written", try_="another place")


def _plain(plan: Plan) -> str:
    return json.dumps(plan.to_json(), sort_keys=True)
