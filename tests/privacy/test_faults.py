"""A small release with a ledger, killed or short of disk at every call that changes a file: nothing overspent, nothing
lost in silence.

Every use of a call in ``CALLS`` is a point. At a point the process is killed (before or after the call), or the call fails
as on a full disk, once or from then on. A sample is walked here; ``LOWKEY_FAULTS=1000`` walks so many points of each kind.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import safetensors.numpy
from test_ledger import STATISTIC

import lowkey as lk
from lowkey.errors import LowkeyError
from lowkey.model import Model
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Unreleased
from lowkey.release.keeping import write_or_keep

POINTS = int(os.environ.get("LOWKEY_FAULTS", "24"))
POSTS = 2
PLAN = Plan("DPBias", (Line("sums", Gaussian(5.0), 3, times=POSTS),), 1e-6, public=("all of it",), caveats=("made up",))
TOTAL = (1.1 * PLAN.price.epsilon, 1e-6)
CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("pwrite", "ftruncate", "fsync", "replace", "rename", "chmod", "mkdir")),
    (Path, "write_text"),
    (safetensors.numpy, "save_file"),
    (pyarrow.parquet, "write_table"),
)
DONE, REFUSED, UNEXPECTED = 0, 2, 9


def release(root: Path) -> None:
    """A plan of two posts on a ledger with room for one such plan, and the folder made from them."""
    billboard = Billboard(Ledger(root / "people" / "ledger.jsonl", total=TOTAL))
    billboard.begin(PLAN)
    posts = [billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64))) for _ in range(POSTS)]
    arrays = {"item_bias": np.array(posts[0]), "item_factors": np.array(posts[1])[:, None]}
    settings = {"center": 3.0, "offset_reg": 1.0, "reg": 1.0, "rating_range": [1.0, 5.0]}
    model = Model("DPBias", "factors", arrays, settings, lk.Domain(3, (1.0, 5.0)), billboard.ledger)
    write_or_keep(model, root / "out" / "release", [root / "people"])


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


def in_child(root: Path, at: int, fault: Callable[[], None], **how: bool) -> int:
    for name in ("people", "out"):
        (root / name).mkdir(parents=True)
    child = os.fork()
    if child == 0:
        code = UNEXPECTED
        try:
            os.environ["HOME"] = str(root / "out")
            os.chdir(root / "out")
            count = with_fault(at, fault, **how)
            release(root)
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


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> int:
    root = tmp_path_factory.mktemp("whole") / "r"
    assert in_child(root, 0, kill, after=False, lasting=False) == DONE
    return int((root / "calls").read_bytes())


def examine(root: Path, code: int) -> None:
    """The ledger opens, holds no more than its total, and there is a whole release, or none and somebody was told."""
    path = root / "people" / "ledger.jsonl"
    ledger = Ledger(path)  # whatever happened, it opens
    spent = len(ledger.spent())
    assert spent <= POSTS
    assert ledger.price(1e-6).epsilon <= TOTAL[0]
    folders = [*(root / "out").glob("release*"), *(root / "people").glob("release*")]
    for folder in folders:
        assert lk.load(folder).ledger.head == ledger.head  # never a part of one
        assert spent == POSTS
    if code == DONE:
        assert len(folders) == 1
    elif code == REFUSED:
        said = (root / "said").read_text()
        if spent == POSTS and not folders:  # all was paid for and nothing is there: then it says so
            assert "written nowhere" in said or "counts" in said, said
        for folder in folders:
            assert str(folder) in said or folder.name == "release"
    else:
        assert code == -signal.SIGKILL  # no exception but ours


def walk(root: Path, points: int, fault: Callable[[], None], kinds: list[dict[str, bool]]) -> None:
    every = [(at, how) for how in kinds for at in range(1, points + 1)]
    chosen = every if len(every) <= POINTS else random.Random(26).sample(every, POINTS)
    codes = []
    for number, (at, how) in enumerate(chosen):
        codes.append(in_child(root / str(number), at, fault, **how))
        examine(root / str(number), codes[-1])
    print(f"\n{len(chosen)} of {len(every)} points: {codes.count(DONE)} done, {codes.count(REFUSED)} refused, "
          f"{codes.count(-signal.SIGKILL)} killed; 0 overspent, 0 lost in silence")  # fmt: skip


def test_killed_at_any_point(tmp_path: Path, points: int) -> None:
    walk(tmp_path, points, kill, [{"after": after, "lasting": False} for after in (False, True)])


def test_short_of_disk_at_any_point(tmp_path: Path, points: int) -> None:
    walk(tmp_path, points, no_space, [{"after": False, "lasting": lasting} for lasting in (False, True)])
