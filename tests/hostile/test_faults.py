"""A small release with a ledger, and the releases of a stream, killed or short of disk at every call that changes a file:
nothing overspent, nothing lost in silence, and every fit that was cut off goes on.

Every use of a call in ``CALLS`` is a point. At a point the process is killed (before or after the call), or the call fails
as on a full disk, once or from then on. Then it is run again without a fault. ``LOWKEY_FAULTS=1000`` (make faults) walks at
most so many points of each kind, of which a release of more posts and a longer stream have more.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors.numpy
from test_ledger import STATISTIC
from trial import Figures

import lowkey as lk
from lowkey.engines.local import Engine
from lowkey.errors import LowkeyError
from lowkey.model import Model
from lowkey.privacy.accounting import second_opinion
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Unreleased
from lowkey.report import build

POINTS = int(os.environ.get("LOWKEY_FAULTS", "100"))
POSTS, RELEASES = (2, 2) if POINTS <= 100 else (16, 6)
VERIFIED = 20  # one in so many; all are loaded
PLAN = Plan("made up", (Line("sums", Gaussian(5.0), 3, times=POSTS),), 1e-6, public=("all of it",), caveats=("made up",))
SPARE = Plan("made up", (Line("sums", Gaussian(5.0), 3, times=POSTS + 1),), 1e-6)
TOTAL = (1.001 * SPARE.price.epsilon, 1e-6)  # room for a post that is lost, and not for a second plan
CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("pwrite", "ftruncate", "fsync", "replace", "rename", "chmod", "mkdir", "posix_fallocate")),
    (Path, "write_text"),
    (safetensors.numpy, "save_file"),
    (pyarrow.parquet, "write_table"),
)
DONE, REFUSED, UNEXPECTED = 0, 2, 9


def release(root: Path) -> None:
    """A plan of two posts on a ledger with room for one such plan, and the folder made from them."""
    ledger = Ledger(root / "people" / "ledger.jsonl", total=TOTAL)
    billboard = Billboard(ledger, kept=KeptPosts(root / "people" / "paid"), pay_again=True)
    billboard.begin(PLAN)
    posts = []
    for _ in range(POSTS):
        paid = billboard.paid("sums")
        posts.append(billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64))) if paid is None else paid)
    arrays = {"item_bias": np.array(posts[0]), "item_factors": np.array(posts[1])[:, None]}
    settings = {"center": 3.0, "offset_reg": 1.0, "reg": 1.0, "rating_range": [1.0, 5.0]}
    model = Model("made up", "factors", arrays, settings, lk.Domain(3, (1.0, 5.0)), billboard.ledger)
    model.release(root / "out" / "release")


def with_fault(at: int, fault: Callable[[], None], *, after: bool, lasting: bool) -> list[int]:
    """From now on the ``at``-th call is at fault; returns the counter of calls."""
    count = [0]

    def faulty(original: Any) -> Any:
        def at_fault(*args: Any, **options: Any) -> Any:
            count[0] += 1
            hit = count[0] == at or (lasting and count[0] > at)
            if hit and not after:
                fault()
            result = original(*args, **options)
            if hit and after:
                fault()
            return result

        return at_fault

    for module, name in CALLS:
        setattr(module, name, faulty(getattr(module, name)))
    return count


DAY = 86_400
DOMAIN = lk.Domain(3, feedback="binary")
CALENDAR = lk.Calendar(10 * DAY, 7 * DAY, wait=7 * DAY, patience=28 * DAY, least=1)


class NoPasses(Engine):
    """Sums of nobody: what is under test is what is written, and compiled threads would not survive the forks."""

    def sweep(self, sweep: Any, data: Any, local: Any = None) -> tuple[dict[str, Unreleased], Any]:
        return {s.name: Unreleased(s, np.zeros(s.shape, np.int64)) for s in sweep.statistics}, None


def people() -> lk.TimedRatings:
    rows = [(user, user % 3, user * 3 * DAY) for user in range(40)]
    return lk.TimedRatings.from_frame(
        pa.table(dict(zip(("user", "item", "time"), map(list, zip(*rows, strict=True)), strict=True))),
        DOMAIN,
        user="user",
        item="item",
        time="time",
    )


def refresh(root: Path) -> None:
    """Every release of a stream, and its folder, as a job does that runs every week."""
    stream = lk.Stream(root / "people", lk.DPBias(4.0, 1e-6, n_iter=1), DOMAIN, CALENDAR, RELEASES)
    for number in range(1, RELEASES + 1):
        if not (root / "out" / str(number)).exists():
            stream.release(people(), number, engine=NoPasses()).release(root / "out" / str(number))


def in_child(root: Path, run: Callable[[Path], None], at: int, fault: Callable[[], None], **how: bool) -> int:
    for name in ("people", "out"):
        (root / name).mkdir(parents=True)
    child = os.fork()
    if child == 0:
        code = UNEXPECTED
        try:
            os.environ["HOME"] = str(root / "out")
            os.chdir(root / "out")
            count = with_fault(at, fault, **how)
            run(root)
            (root / "calls").write_bytes(str(count[0]).encode())
            code = DONE
        except LowkeyError as error:
            (root / "said").write_bytes(str(error).encode())
            code = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def no_space() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def examine(root: Path, code: int, verified: bool) -> int:
    """The ledger opens, holds no more than its total, and there is a whole release, or none and somebody was told.

    Run again, it goes on with what was kept, and pays for that no second time; returns the posts that were lost.
    """
    ledger = Ledger(root / "people" / "ledger.jsonl")  # whatever happened, it opens
    folder, kept = root / "out" / "release", len(KeptPosts(root / "people" / "paid").seqs())
    spent = len(ledger.spent())
    assert kept <= spent <= POSTS
    assert spent - kept <= 1
    assert code in (DONE, REFUSED, -signal.SIGKILL)  # no exception but ours
    assert folder.exists() or code != DONE
    if not folder.exists():
        release(root)
    after = Ledger(root / "people" / "ledger.jsonl")
    assert len(after.spent()) == POSTS + spent - kept
    assert after.price(1e-6).epsilon <= TOTAL[0]
    commits = [record["reservation"] for record in after.records if record["kind"] == "commit"]
    assert len(commits) == len(set(commits)) == POSTS  # no line has two draws, and a lost one none
    assert lk.load(folder).ledger.head == after.head
    assert not verified or all(check.ok for check in lk.verify(folder))
    return spent - kept


def examine_stream(root: Path, code: int, verified: bool) -> int:
    """The price is that of the whole stream as soon as anything is drawn; run again, every release is there, and what was
    posted before is what it was. Nothing is lost: what was drawn and not kept was seen by nobody, and is drawn again."""
    assert code in (DONE, REFUSED, -signal.SIGKILL)
    path = root / "people" / "ledger.jsonl"
    before = Ledger(path)
    assert not parts_of(before) or len(before.spent()) == len(before.plans()[0].lines)
    made = {
        folder.name: (folder / "manifest.json").read_bytes() for folder in (root / "out").iterdir() if folder.name[0] != "."
    }
    assert set(made) == {str(number) for number in range(1, RELEASES + 1)} or code != DONE
    refresh(root)
    after = Ledger(path)
    (plan,) = after.plans()
    assert sorted(line.name for line in after.spent()) == sorted(line.name for line in plan.lines)
    assert after.price(1e-6).epsilon == plan.price.epsilon
    commits = [part for part, committed in parts_of(after) if committed]
    assert len(commits) == len(set(commits)) == RELEASES * len(plan.lines)
    assert [part for part, committed in parts_of(before) if committed] == commits[
        : len([c for _, c in parts_of(before) if c])
    ]
    for number in range(1, RELEASES + 1):
        folder = root / "out" / str(number)
        assert made.get(str(number)) in (None, (folder / "manifest.json").read_bytes())
        lk.load(folder)
    assert not verified or all(check.ok for check in lk.verify(folder))
    return 0


def parts_of(ledger: Ledger) -> list[tuple[tuple[str, int], bool]]:
    """The parts that were drawn, in order, and whether each was posted."""
    committed = {record["reservation"] for record in ledger.records if record["kind"] == "commit"}
    drawn = [record for record in ledger.records if record["kind"] == "part"]
    return [((record["name"], record["release"]), record["seq"] in committed) for record in drawn]


SCENES: dict[str, tuple[Callable[[Path], None], Callable[[Path, int, bool], int]]] = {
    "release": (release, examine),
    "refresh": (refresh, examine_stream),
}
KILLS = kill, [{"after": False, "lasting": False}, {"after": True, "lasting": False}]
FULL = no_space, [{"after": False, "lasting": False}, {"after": False, "lasting": True}]


@pytest.mark.parametrize("faults", [KILLS, FULL], ids=["killed", "short of disk"])
@pytest.mark.parametrize("scene", SCENES)
def test_at_any_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Figures, scene: str, faults: Any
) -> None:
    (run, examined), (fault, kinds) = SCENES[scene], faults
    known: dict[str, Any] = {}  # what the second accountant says is computed once, before the trials are forked

    def remembered(*asked: Any) -> Any:
        if repr(asked) not in known:
            known[repr(asked)] = second_opinion(*asked)
        return known[repr(asked)]

    monkeypatch.setattr(build, "second_opinion", remembered)
    for name in ("people", "out"):
        (tmp_path / "once" / name).mkdir(parents=True)
    run(tmp_path / "once")
    assert in_child(tmp_path / "whole", run, 0, fault, after=False, lasting=False) == DONE
    points = int((tmp_path / "whole" / "calls").read_bytes())
    every = [(at, how) for how in kinds for at in range(1, points + 1)]
    most = POINTS if fault is kill else POINTS // 2
    chosen = every if len(every) <= most else random.Random(26).sample(every, most)
    codes, lost, begun = list[int](), 0, time.monotonic()
    for number, (at, how) in enumerate(chosen):
        root = tmp_path / str(number)
        codes.append(in_child(root, run, at, fault, **how))
        lost += examined(root, codes[-1], number % VERIFIED == 0)
        shutil.rmtree(root)
    figures = (
        f"{scene}: {len(chosen)} of {len(every)} points: {codes.count(DONE)} done, {codes.count(REFUSED)} refused, "
        f"{codes.count(-signal.SIGKILL)} killed; 0 overspent, 0 lost in silence, all go on, {lost} of them with a post "
        f"that was lost and paid again; {time.monotonic() - begun:.0f} s"
    )
    record_property("figures", figures)
