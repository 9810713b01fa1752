"""Streams: who speaks when, what is decoded, and what happens in weeks that go wrong."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import lowkey as lk
from lowkey.data.calendar import Calendar
from lowkey.errors import InputError, LedgerError, PlanError
from lowkey.kernels.bias import ItemCounts
from lowkey.methods.streamed import StreamCurator
from lowkey.privacy.accounting import gaussian_epsilon
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.noise import NoiseSource, SeededNoise

DAY = 86_400
CALENDAR = Calendar(first=10 * DAY, every=7 * DAY, wait=7 * DAY, patience=28 * DAY, least=3)
ITEMS, USERS, T = 1200, 300, 6
DOMAIN = lk.Domain(items=ITEMS, feedback="binary")


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for user in range(USERS):
        n = int(rng.choice([1, 2, 4, 30, 300]))
        begin = int(rng.integers(0, 45 * DAY))
        times = begin + rng.integers(0, 30 * DAY, n)
        parts.append(pd.DataFrame({"user": user, "item": rng.choice(ITEMS, n, replace=False), "time": times}))
    return pd.concat(parts).sample(frac=1.0, random_state=seed)


def timed(frame: pd.DataFrame) -> lk.TimedRatings:
    return lk.TimedRatings.from_frame(frame, DOMAIN, user="user", item="item", time="time")


def cohorts_of(frame: pd.DataFrame, release: int = 6) -> list[lk.Ratings]:
    ratings = timed(frame)
    return ratings._settled(CALENDAR, release, ratings._rebuilt(CALENDAR, release))[1]


FRAME = table()


def a_stream(folder: Path, noise: Any = None, **options: Any) -> lk.Stream:
    method = lk.DPBias(4.0, 1e-6)
    return lk.Stream(folder, method, DOMAIN, CALENDAR, T, noise=SeededNoise(3) if noise is None else noise, **options)


def words(times: np.ndarray) -> int:
    """The rule, as it is said."""
    release = 1
    while True:
        now = CALENDAR.time_of(release)
        known = now - times.min()
        if (known >= CALENDAR.wait and np.sum(times <= now) >= CALENDAR.least) or known >= CALENDAR.patience:
            return release
        release += 1


def test_cohorts_are_what_the_rule_says() -> None:
    cohorts = cohorts_of(FRAME)
    rows = dict(list(FRAME.groupby("user")))
    for s, cohort in enumerate(cohorts, 1):
        who = [user for user, group in rows.items() if words(group["time"].to_numpy()) == s]
        then = [set(rows[user]["item"][rows[user]["time"] <= CALENDAR.time_of(s)]) for user in who]
        csr = cohort._open_csr()
        assert [set(csr.indices[a:b].tolist()) for a, b in itertools.pairwise(csr.indptr)] == then
    assert sum(len(cohort._open_keys()) for cohort in cohorts) > USERS / 2


def test_on_the_second_matters() -> None:
    calendar = Calendar(first=100, every=10, wait=5, patience=30, least=2)
    offsets, times = np.array([0, 2, 4, 5, 6, 6]), np.array([95, 100, 96, 100, 70, 71])
    # known for 5 at 100; for 4 only; alone for 30 at 100; for 29 only; nothing ever
    assert calendar.speaks_at(offsets, times)[:4].tolist() == [1, 2, 1, 2]
    assert calendar.speaks_at(offsets, times)[4] > 400
    assert [calendar.due(now) for now in (99, 100, 109, 110)] == [0, 1, 1, 2]


def test_decoded_sums_are_running_sums_with_the_stated_noise(tmp_path: Path) -> None:
    """Chi-square of 1,200 numbers at each of 6 releases, two-sided: a false alarm of 6e-9 in all."""
    stream = a_stream(tmp_path)
    cohorts = cohorts_of(FRAME)
    statistic = ItemCounts(ITEMS).statistics[0]
    total, std = np.zeros(ITEMS), stream.billboard.noise_std(statistic)
    for t, cohort in enumerate(cohorts, 1):
        sums = lk.LocalEngine().sweep(ItemCounts(ITEMS), cohort)[0]["item_counts"]
        total += sums._open() * statistic.grid.step
        model = stream.release(timed(FRAME))
        off = (model.arrays["item_bias"] - total) / (std * stream.schedule.noise[t - 1])
        assert 5e-10 < stats.chi2.sf(np.sum(off**2), ITEMS) < 1 - 5e-10
        assert model.settings["release"] == t


def test_the_loudest_average_has_the_stated_noise_and_is_louder_than_decoding(tmp_path: Path) -> None:
    """Chi-square of 1,200 numbers at each of 6 releases, two-sided: a false alarm of 6e-9 in all."""
    stream = a_stream(tmp_path)
    stream.release(timed(FRAME), T)
    cohorts, sweep = cohorts_of(FRAME), ItemCounts(ITEMS)
    step, post = sweep.statistics[0].grid.step, stream.billboard.noise_std(sweep.statistics[0])
    sums = np.array([lk.LocalEngine().sweep(sweep, one)[0]["item_counts"]._open() for one in cohorts]) * step
    people, encoder = np.array([len(one._open_keys()) for one in cohorts], float), stream.schedule.encoder
    for t in range(1, T + 1):
        curator = StreamCurator(stream.billboard, stream.posts, t, None, lk.LocalEngine())
        heard, everybody = encoder[:t, :t] @ people[:t], people[:t].sum()
        ((found, std),) = curator.loudest(sweep, [(slice(None), heard)], everybody)
        weights = everybody * heard @ encoder[:t, :t] / (heard @ heard)  # of the people of each cohort
        assert weights @ people[:t] == pytest.approx(everybody)
        assert weights.min() > 0.0
        assert 5e-10 < stats.chi2.sf(np.sum(((found - weights @ sums[:t]) / std) ** 2), ITEMS) < 1 - 5e-10
        assert std <= post * stream.schedule.noise[t - 1] * (1.0 + 1e-9)


@pytest.mark.parametrize("options", [{}, {"half_life": 3.0}, {"window": 2}], ids=str)
def test_lists_are_made_again_as_they_were_and_few_people_get_popularity(options: Any, tmp_path: Path) -> None:
    def stream() -> lk.Stream:
        return lk.Stream(tmp_path, lk.DPLists(4.0, 1e-6), domain, CALENDAR, T, noise=SeededNoise(3), **options)

    domain = lk.Domain(items=300, feedback="binary")
    frame = FRAME.assign(item=FRAME["item"] % 300).drop_duplicates(["user", "item"])
    ratings = lk.TimedRatings.from_frame(frame, domain, user="user", item="item", time="time")
    models = [stream().release(ratings) for _ in range(3)]
    for number, model in enumerate(models, 1):
        again = stream().model(number)
        assert all(np.array_equal(model.arrays[name], again.arrays[name]) for name in model.arrays)
        assert model.settings["personal_share"] <= 0.1  # of 300 people there are too few to learn pairs from


def test_without_noise_the_sums_are_exact_but_for_the_grid(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, SeededNoise(1, factor=0.0))
    model = stream.release(timed(FRAME), T)
    # Every term lies below by a step of the grid at most, and decoding adds up to |B|_1 of these, over all items.
    assert model.arrays["item_bias"].sum() == pytest.approx(_exact(), abs=1e-3)


def _exact() -> float:
    """The sum of all entries of all rows: a row of n has n entries of 1/sqrt(n)."""
    lengths = [np.diff(cohort._open_csr().indptr) for cohort in cohorts_of(FRAME)]
    return float(sum(np.sqrt(n).sum() for n in lengths))


def test_the_whole_stream_costs_one_release(tmp_path: Path) -> None:
    stream = a_stream(tmp_path, NoiseSource())
    single = lk.DPBias(4.0, 1e-6).plan(DOMAIN).price
    for t in range(T + 1):
        price = stream.billboard.ledger.price(1e-6)
        assert price.epsilon <= 4.0
        assert price.epsilon == pytest.approx(4.0, abs=1e-6)
        assert price.mu == pytest.approx(single.mu, rel=1e-6)
        if t < T:
            stream.release(timed(FRAME))
    with pytest.raises(PlanError, match="outside of the stream"):
        stream.release(timed(FRAME))


def test_a_missed_week_is_made_up_for_and_a_week_run_twice_is_the_same(tmp_path: Path) -> None:
    stream = a_stream(tmp_path / "a")
    first = stream.release(timed(FRAME), 3)  # weeks 1 and 2 were missed
    assert stream.made == 3
    before = (tmp_path / "a" / "ledger.jsonl").read_bytes()
    again = a_stream(tmp_path / "a").release(timed(table(seed=9)), 3)  # other ratings: they are not looked at
    assert np.array_equal(first.arrays["item_bias"], again.arrays["item_bias"])
    assert (tmp_path / "a" / "ledger.jsonl").read_bytes() == before
    weekly = a_stream(tmp_path / "b")
    for _ in range(3):
        last = weekly.release(timed(FRAME))
    assert np.array_equal(first.arrays["item_bias"], last.arrays["item_bias"])  # the same seed: the same posts


def test_a_week_without_anybody_is_posted_all_the_same(tmp_path: Path) -> None:
    early = FRAME[FRAME["time"] < 40 * DAY]
    stream = a_stream(tmp_path, NoiseSource())
    assert stream.release(timed(early[early["time"] > 39 * DAY]), 1).settings["release"] == 1


CRASH = """
import os, sys
sys.path[:0] = [sys.argv[3]]
import test_stream as t
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.ledger import Ledger
place = sys.argv[2]
if place == "before":
    KeptPosts.keep = lambda *a: os._exit(9)
else:
    Ledger.commit = lambda *a: os._exit(9)
t.a_stream(t.Path(sys.argv[1])).release(t.timed(t.FRAME))
"""


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_crash_costs_nothing_and_no_draw_is_seen_twice(place: str, tmp_path: Path) -> None:
    """The process dies after the draw: before it is kept, it is gone and drawn anew; once it is kept, it is the post."""
    a_stream(tmp_path).release(timed(FRAME))
    done = subprocess.run(
        [sys.executable, "-c", CRASH, tmp_path, place, Path(__file__).parent], env=os.environ, check=False
    )
    assert done.returncode == 9
    kept = {path: path.read_bytes() for path in (tmp_path / "posts").glob("*.npy")}
    assert len(kept) == (1 if place == "before" else 2)
    stream = a_stream(tmp_path, SeededNoise(77))
    stream.release(timed(FRAME))
    assert all(path.read_bytes() == data for path, data in kept.items())
    assert len(list((tmp_path / "posts").glob("*.npy"))) == 2
    assert stream.made == 2
    assert stream.billboard.ledger.price(1e-6).epsilon == pytest.approx(4.0, abs=1e-6)


def test_of_two_draws_of_one_part_only_the_last_can_be_committed(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    ledger, line = stream.billboard.ledger, stream.billboard.plan.lines[0]
    first, second = (ledger.reserve_part(line, stream.schedule.name, 1, {}, noise_is_private=True) for _ in range(2))
    with pytest.raises(PlanError, match="another draw"):
        ledger.commit(first, "0" * 64)
    ledger.commit(second, "0" * 64)
    for seq in (first, second):
        with pytest.raises(PlanError, match="another draw"):
            ledger.commit(seq, "1" * 64)
    for release in (1, 3):  # posted already; not due
        with pytest.raises(PlanError, match="each is posted once, in order"):
            ledger.reserve_part(line, stream.schedule.name, release, {}, noise_is_private=True)


def test_lost_posts_are_refused_until_a_copy_is_back(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    stream.release(timed(FRAME))
    file = next((tmp_path / "posts").glob("*.npy"))
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(LedgerError, match="any copy of the stream"):
        stream.release(timed(FRAME))
    file.write_bytes(data)
    assert a_stream(tmp_path).release(timed(FRAME), 2).settings["release"] == 2


def test_methods_whose_sums_do_not_add_up_are_refused(tmp_path: Path) -> None:
    ratings = lk.Domain(items=ITEMS, rating_range=(1.0, 5.0))
    with pytest.raises(InputError, match="got DPALS, needed DPBias, DPLists, DPMoments"):
        lk.Stream(tmp_path / "a", lk.DPALS(4.0, 1e-6), ratings, CALENDAR, T)
    with pytest.raises(InputError, match="at most 4096"):
        lk.Stream(tmp_path / "a", lk.DPLists(4.0, 1e-6), lk.Domain(items=5000, feedback="binary"), CALENDAR, T)
    assert not (tmp_path / "a").exists()  # nothing is booked


def test_a_release_folder_verifies_alone_and_says_which_part_it_is(tmp_path: Path) -> None:
    stream = a_stream(tmp_path / "stream", NoiseSource())
    for t in (1, 2):
        stream.release(timed(FRAME)).release(tmp_path / f"week{t}")
        checks = lk.verify(tmp_path / f"week{t}")
        assert all(check.ok for check in checks), [check for check in checks if not check.ok]
        said = next(check.detail for check in checks if "stream" in check.claim)
        assert said == f"release {t} of {T} of the stream {stream.schedule.name[:8]}"
        assert lk.load(tmp_path / f"week{t}").guarantee.epsilon == pytest.approx(4.0, abs=1e-6)


def test_what_each_release_is_worth(tmp_path: Path) -> None:
    stream = a_stream(tmp_path)
    last = stream.table().splitlines()[-1].split()
    mu = stream.billboard.plan.price.mu
    assert float(last[2]) == pytest.approx(gaussian_epsilon(mu / stream.schedule.noise[-1], 1e-6), abs=0.005)
    assert float(last[2]) > 1.4 * float(last[3])
    assert Ledger(tmp_path / "ledger.jsonl").plans()[0].schedule == stream.schedule


# The private state ---------------------------------------------------------------------------------------------------
def state(folder: Path) -> Path:
    return folder / "private" / "spoken.npz"


def test_the_state_is_private_and_names_nobody(tmp_path: Path) -> None:
    a_stream(tmp_path).release(timed(FRAME), 2)
    assert state(tmp_path).stat().st_mode & 0o077 == 0
    with np.load(state(tmp_path)) as held:
        marks = {bytes(row) for row in held["marks"]}
        assert np.sum(held["releases"] > 0) > 20
        assert set(held["releases"].tolist()) == {0, 1, 2}
    a_stream(tmp_path / "other").release(timed(FRAME), 2)  # the same people, under another key
    with np.load(state(tmp_path / "other")) as held:
        assert not marks & {bytes(row) for row in held["marks"]}
    a_stream(tmp_path / "few").release(timed(FRAME[FRAME["user"] < 30]), 2)
    sizes = {state(folder).stat().st_size for folder in (tmp_path, tmp_path / "few")}
    assert len(sizes) == 1


TROUBLE = {
    "stale": "an old one",
    "lost": "none",
    "damaged": "one that is damaged",
    "another stream's": "that of another stream",
    "another ledger's": "that of another copy of the ledger",
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_state_that_does_not_belong_is_refused(trouble: str, tmp_path: Path) -> None:
    home, old = tmp_path / "a", tmp_path / "old.npz"
    a_stream(home).release(timed(FRAME))
    shutil.copy(state(home), old)
    if trouble == "another ledger's":  # a copy of the stream went on for a week by itself
        shutil.copytree(home, tmp_path / "b")
        a_stream(tmp_path / "b").release(timed(table(seed=4)))
        a_stream(tmp_path / "b").release(timed(table(seed=4)))
    a_stream(home).release(timed(FRAME))
    a_stream(home).release(timed(FRAME))
    if trouble == "lost":
        state(home).unlink()
    elif trouble == "stale":
        shutil.copy(old, state(home))
    elif trouble == "damaged":
        data = bytearray(state(home).read_bytes())
        data[len(data) // 2] ^= 1
        state(home).write_bytes(data)
    elif trouble == "another stream's":
        a_stream(tmp_path / "b").release(timed(FRAME), 3)
    if "another" in trouble:
        shutil.copy(state(tmp_path / "b"), state(home))
    before = (home / "ledger.jsonl").read_bytes()
    with pytest.raises(LedgerError, match=f"private state of this stream: got {TROUBLE[trouble]}"):
        a_stream(home).release(timed(FRAME))
    assert (home / "ledger.jsonl").read_bytes() == before  # nothing was drawn
    model = a_stream(home).release(timed(FRAME), rebuild=True)
    assert model.settings["release"] == 4


def test_a_lost_state_is_rebuilt_as_it_was(tmp_path: Path) -> None:
    for name in ("a", "b"):
        stream = a_stream(tmp_path / name)
        stream.release(timed(FRAME), 3)
        if name == "b":
            shutil.rmtree(tmp_path / name / "private")
        last = stream.release(timed(FRAME), rebuild=name == "b")
        np.save(tmp_path / f"{name}.npy", last.arrays["item_bias"])
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
