"""Streams under the replay harness: neighbours for every week of speaking, and bugs that it has to see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import streams
from replay import Violation

import lowkey as lk
from lowkey.data.calendar import Calendar
from lowkey.data.spoken import Spoken
from lowkey.data.timed import TimedRatings
from lowkey.errors import InputError, LedgerError, PlanError
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.stream import Schedule

T = 8
BINARY = lk.Domain(items=list(range(40)), feedback="binary")
RATINGS = lk.Domain(items=list(range(40)), rating_range=(1.0, 5.0))
METHODS = {
    "counts": (lk.DPBias, {}, BINARY),
    "lists": (lk.DPLists, {"head": 30}, BINARY),
    "means": (lk.DPBias, {"residual_bound": 0.1}, RATINGS),
    "moments": (lk.DPMoments, {"residual_bound": 0.1, "rank": 2}, RATINGS),
}
# The share of its bound that a row reaches in every post, where it is known: rows of norm 1, or clipped to it.
REACHED = {"item_counts", "taken_counts", "residual_gram", "rated_gram", "taste_moments"}
FRAME = streams.table()


def a_stream(folder: Path, kind: str, adjacency: str = "add-remove", seed: int = 1, **options: Any) -> lk.Stream:
    method, own, domain = METHODS[kind]
    return streams.stream_of(folder, method(4.0, 1e-6, adjacency, **own), domain, T, seed, **options)


def one_of_each_week(frame: pd.DataFrame = FRAME) -> dict[int, int]:
    """A user for every week of speaking; the data must have them all."""
    found = {release: user for user, release in streams.speaks(frame).items() if release <= T}
    assert sorted(found) == list(range(1, T + 1))
    return found


@pytest.mark.parametrize("kind", METHODS)
def test_leaving_moves_the_whole_stream_by_one_release(kind: str, tmp_path: Path) -> None:
    domain = METHODS[kind][2]
    known, reached = streams.record(a_stream(tmp_path / "all", kind), streams.timed(FRAME, domain)), dict[str, float]()
    some = range(1, T + 1) if kind == "counts" else (1, 4, T)
    for release, user in ((week, one_of_each_week()[week]) for week in some):
        without = streams.timed(FRAME[FRAME["user"] != user], domain)
        shares = streams.replay(known, a_stream(tmp_path / f"{release}", kind), without)
        assert all(share <= 1.0 for share in shares.values())
        # But for a thousandth that is spared. (A row without items of the head adds nothing to the moments.)
        assert all(share > 0.998 or share == 0.0 for name, share in shares.items() if name in REACHED)
        reached = {name: max(share, reached.get(name, 0.0)) for name, share in shares.items()}
    assert all(share > (0.998 if name in REACHED else 0.1) for name, share in reached.items())


@pytest.mark.parametrize("kind", METHODS)
def test_a_replacement_may_speak_in_another_week(kind: str, tmp_path: Path) -> None:
    domain, users = METHODS[kind][2], one_of_each_week()
    known = streams.record(a_stream(tmp_path / "all", kind, "replace-one"), streams.timed(FRAME, domain))
    for release, user in users.items() if kind == "counts" else [(2, users[2])]:
        other = FRAME[FRAME["user"] == users[T + 1 - release]].assign(user=user)
        other = other.assign(item=39 - other["item"])
        replaced = pd.concat([FRAME[FRAME["user"] != user], other])
        streams.replay(known, a_stream(tmp_path / f"{release}", kind, "replace-one"), streams.timed(replaced, domain))


def test_who_is_erased_meanwhile_moves_less(tmp_path: Path) -> None:
    """With the user until week k, without from then on, against never: part of a column."""
    domain, user = BINARY, one_of_each_week()[2]
    without = FRAME[FRAME["user"] != user]
    known = streams.record(a_stream(tmp_path / "never", "counts"), streams.timed(without, domain))

    class Erased:
        """The table as the curator has it at each release."""

        def __getattr__(self, name: str) -> Any:
            return getattr(streams.timed(FRAME, domain), name)

        def _settled(self, calendar: Calendar, release: int, spoken: Any) -> Any:
            frame = FRAME if release <= 4 else without
            return streams.timed(frame, domain)._settled(calendar, release, spoken)

    share = streams.replay(known, a_stream(tmp_path / "erased", "counts"), Erased())["item_counts"]  # pyright: ignore
    column = np.array([row[1] for row in Schedule.optimal("a", T).coefficients[1:4]]) / 2.0**24
    assert share == pytest.approx(np.linalg.norm(column), rel=1e-4)


def test_the_same_people_speak_whatever_was_posted(tmp_path: Path) -> None:
    ratings = streams.timed(FRAME, BINARY)
    runs = [streams.record(a_stream(tmp_path / str(seed), "counts", seed=seed), ratings) for seed in (1, 2)]
    streams.check_rule(*runs)
    streams.check_fresh_noise(runs[0])


AGAIN = replace(streams.CALENDAR, again=3)


def who_speaks_again(tmp_path: Path) -> dict[int, float]:
    """Of a user for every week of first speaking: the shift of the whole stream, as a share of what is declared."""
    method = lk.DPBias(4.0, 1e-6)
    known = streams.record(
        streams.stream_of(tmp_path / "all", method, BINARY, T, calendar=AGAIN), streams.timed(FRAME, BINARY)
    )
    shares = {}
    for release, user in one_of_each_week().items():
        stream = streams.stream_of(tmp_path / f"{release}", method, BINARY, T, calendar=AGAIN)
        shares |= {
            release: streams.replay(known, stream, streams.timed(FRAME[FRAME["user"] != user], BINARY))["item_counts"]
        }
    return shares


def test_speaking_again_is_paid_for(tmp_path: Path) -> None:
    """Rows grow in between, so that the bound of aligned contributions is nearly, but not always, reached."""
    shares = who_speaks_again(tmp_path)
    assert 0.8 < max(shares.values()) <= 1.0
    once, again = Schedule.optimal("a", T), Schedule.optimal("a", T, again=3)
    assert again.noise[-1] > 1.2 * once.noise[-1]
    loud = [np.linalg.norm(again.encoder[:, s::3].sum(axis=1)) for s in range(3)]
    assert max(loud) == pytest.approx(1.0 - 2.0**-10, rel=1e-5)


def test_speaking_again_at_the_price_of_once_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimal = Schedule.optimal
    monkeypatch.setattr(Schedule, "optimal", lambda name, releases, half_life, window, again: optimal(name, releases))
    with pytest.raises(Violation, match="moves the whole stream by 1"):
        who_speaks_again(tmp_path)


# Bugs that must be seen ----------------------------------------------------------------------------------------------
def caught(tmp_path: Path, stream: Any = a_stream) -> str:
    known = streams.record(stream(tmp_path / "all", "counts"), streams.timed(FRAME, BINARY))
    for release, user in one_of_each_week().items():
        without = streams.timed(FRAME[FRAME["user"] != user], BINARY)
        try:
            streams.replay(known, stream(tmp_path / str(release), "counts"), without)
        except Violation as found:
            return str(found)
    return "nothing was found"


def test_a_user_who_speaks_twice_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = TimedRatings._settled

    def twice(self: TimedRatings, calendar: Calendar, release: int, spoken: Any) -> Any:
        settled, cohorts = once(self, calendar, release, spoken)
        again = once(self, calendar, release, spoken)[1][:1]
        return settled, (cohorts[:-1] + again if release > 4 else cohorts)

    monkeypatch.setattr(TimedRatings, "_settled", twice)
    assert "moves the whole stream" in caught(tmp_path)


def test_a_column_above_one_is_seen(tmp_path: Path) -> None:
    def wide(folder: Path, kind: str) -> lk.Stream:
        stream = a_stream(folder, kind)
        rows = tuple(tuple(c + 20_000 for c in row) for row in stream.schedule.coefficients)
        object.__setattr__(stream.schedule, "coefficients", rows)
        object.__setattr__(stream.billboard.plan.schedule, "coefficients", rows)
        return stream

    assert "moves the whole stream by 1.00" in caught(tmp_path, wide)


def re_dated(folder: Path, user: int) -> tuple[streams.StreamRecord, Any]:
    """The user's ratings are re-dated every week, so that by the rule they would speak anew at each release."""
    without = FRAME[FRAME["user"] != user]
    known = streams.record(a_stream(folder / "never", "counts"), streams.timed(without, BINARY))

    class ReDated:
        def __getattr__(self, name: str) -> Any:
            return getattr(streams.timed(FRAME, BINARY), name)

        def _settled(self, calendar: Calendar, release: int, spoken: Any) -> Any:
            now = calendar.time_of(release) - calendar.wait
            frame = FRAME.assign(time=np.where(FRAME["user"] == user, now, FRAME["time"]))
            return streams.timed(frame, BINARY)._settled(calendar, release, spoken)

    return known, ReDated()


def many_ratings() -> int:
    return int(FRAME["user"].value_counts().index[0])


def test_who_is_re_dated_does_not_speak_again(tmp_path: Path) -> None:
    known, ratings = re_dated(tmp_path, many_ratings())
    share = streams.replay(known, a_stream(tmp_path / "s", "counts"), ratings)["item_counts"]
    assert 0.0 < share <= 1.0


def test_a_stream_that_forgets_who_spoke_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, ratings = re_dated(tmp_path, many_ratings())
    monkeypatch.setattr(Spoken, "read", lambda *given: Spoken.fresh())
    rule = TimedRatings._settled

    def by_rule_alone(self: TimedRatings, calendar: Calendar, release: int, spoken: Spoken) -> Any:
        return rule(self, calendar, release, self._rebuilt(calendar, release))

    monkeypatch.setattr(TimedRatings, "_settled", by_rule_alone)
    with pytest.raises(Violation, match="moves the whole stream"):
        streams.replay(known, a_stream(tmp_path / "s", "counts"), ratings)


def test_noise_that_is_used_again_is_seen(tmp_path: Path) -> None:
    stream = a_stream(tmp_path / "s", "counts")

    class Stuck(SeededNoise):
        def rounded_gaussian(self, scale: float, size: int) -> np.ndarray:
            return SeededNoise(5).rounded_gaussian(scale, size)

    stream.billboard.noise = Stuck(1)
    with pytest.raises(Violation, match="noise of another"):
        streams.check_fresh_noise(streams.record(stream, streams.timed(FRAME, BINARY)))


def test_a_cohort_that_follows_the_posts_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratings, rule = streams.timed(FRAME, BINARY), Calendar.speaks_at

    def run(seed: int) -> streams.StreamRecord:
        stream = a_stream(tmp_path / str(seed), "counts", seed=seed)

        def eager(self: Calendar, offsets: Any, times: Any) -> Any:
            posted = stream.parts.posted.get(("item_counts", 1), "0")  # its last digit says whether to hurry
            return rule(self, offsets, times) + int(posted[-1], 16) % 5

        monkeypatch.setattr(Calendar, "speaks_at", eager)
        return streams.record(stream, ratings)

    with pytest.raises(Violation, match="depends on what was posted"):
        streams.check_rule(run(1), run(2))


def test_the_state_of_another_stream_is_refused(tmp_path: Path) -> None:
    ratings = streams.timed(FRAME, BINARY)
    first, other = a_stream(tmp_path / "a", "counts"), a_stream(tmp_path / "b", "counts", seed=2)
    for stream in (first, other):
        stream.release(ratings, 2)
    with pytest.raises(PlanError, match="not on this ledger"):
        first.billboard.resume(other.schedule.name)
    for ours in (tmp_path / "a" / "posts").glob("[0-9]*-*.npy"):  # the same posts, other numbers in them
        number, name, _ = ours.name.split("-", 2)
        (theirs,) = (tmp_path / "b" / "posts").glob(f"{number}-{name}-*.npy")
        ours.write_bytes(theirs.read_bytes())
    with pytest.raises(LedgerError, match="what was posted"):
        a_stream(tmp_path / "a", "counts").release(ratings)
    with pytest.raises(InputError, match="another one"):
        a_stream(tmp_path / "b", "counts", half_life=4.0)
