"""A horizon of releases through the command line, with crashes, a lost state and a week run twice.

Here 12 weeks of 400 people; `make year` runs 52 of 4,000.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lowkey as lk
from lowkey.cli.main import run
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Plan

WEEK, T = 7 * 86_400, int(os.environ.get("LOWKEY_YEAR", "12"))
USERS = 400 if T == 12 else 4000
START = 1_767_225_600
FIRST = (
    f"--user user --item item --time time --binary --items 0..299 --first {START} --releases {T} "
    "--total-epsilon 4 --delta 1e-6 --half-life 6"
).split()


def ratings(path: Path) -> Path:
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(USERS), 10)
    items = np.concatenate([rng.choice(300, 10, replace=False) for _ in range(USERS)])
    begin = np.repeat(START - WEEK + rng.integers(0, T * WEEK, USERS), 10)
    frame = pd.DataFrame({"user": users, "item": items, "time": begin + rng.integers(0, WEEK, 10 * USERS)})
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


def killed(arguments: list[str], stream: Path) -> None:
    """kill -9 as soon as the ledger has grown: after a part was reserved."""
    before = (stream / "ledger.jsonl").stat().st_size
    process = subprocess.Popen(
        [sys.executable, "-c", "from lowkey.cli.main import main; main()", *arguments], env=os.environ
    )
    while process.poll() is None and (stream / "ledger.jsonl").stat().st_size == before:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (stream / "ledger.jsonl").stat().st_size > before


def test_a_year(tmp_path: Path, capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]) -> None:
    file, stream = ratings(tmp_path / "ratings.csv"), tmp_path / "people.stream"
    crashes, lost = (T // 3, 7 * T // 12), 3 * T // 4
    for week in range(1, T + 1):
        out = tmp_path / f"week-{week}"
        call = ["refresh", str(file), "--stream", str(stream), "--out", str(out), "-q", *(FIRST if week == 1 else [])]
        if week in crashes:
            killed(call, stream)
        if week == lost:
            for part in (stream / "private").iterdir():
                part.unlink()
            assert run(call) == 1
            assert "private state of this stream" in capsys.readouterr().err
            call.append("--rebuild")
        if not out.exists():  # the one that was to be killed may have been quicker
            assert run(call) == 0
        assert run(call) == 2  # once more: the folder is there, and nothing is posted
        assert all(check.ok for check in lk.verify(out))
        assert lk.load(out).settings["release"] == week
    ledger = Ledger(stream / "ledger.jsonl")
    planned: Plan = ledger.plans()[0]
    assert abs(ledger.guarantee().epsilon - planned.price.epsilon) < 1e-9
    assert 4.0 - 1e-6 < ledger.guarantee().epsilon <= 4.0
    figures = f"{T} releases: epsilon {ledger.guarantee().epsilon:.12f}, planned {planned.price.epsilon:.12f}"
    record_property("figures", figures)
    assert run(["refresh", str(file), "--stream", str(stream), "--out", str(tmp_path / "more"), "-q"]) == 2
    assert "outside of the stream" in capsys.readouterr().err
    other = ["refresh", str(file), "--stream", str(stream), "--out", str(tmp_path / "more"), "--releases", "53"]
    assert run(other) == 2
