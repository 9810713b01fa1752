"""Spark with executors in processes of their own, one of which is killed in the middle of a fit: no bit of any sum changes.

The suite kills one in a fit whose users keep something between passes; `make cluster` (LOWKEY_CLUSTER=1) in a fit of every
method, in the selection of a catalogue and in a stream. Those two run in the suite without a loss.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spark_scenes import SCENES, USERS_CASES
from spark_session import missing, spark  # noqa: F401 (a fixture)

FULL = bool(os.environ.get("LOWKEY_CLUSTER"))
KILLED = [*map(str, USERS_CASES), *SCENES] if FULL else ["DPLMC-ratings"]


def test_a_killed_executor_changes_no_bit(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    script, places = Path(__file__).with_name("spark_scenes.py"), os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, script, tmp_path, *KILLED]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": places})
    assert run.returncode == 0, run.stderr[-3000:]
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert [scene["scene"] for scene in found] == KILLED
    for scene in found:
        print(scene)
        assert scene["here"] == scene["there"], scene
        assert scene["killed"], scene


@pytest.mark.parametrize("scene", SCENES)
def test_catalogues_and_streams_are_the_same_on_spark(scene: str, spark: Any, tmp_path: Path) -> None:  # noqa: F811
    found = SCENES[scene](spark, tmp_path, None)
    assert found["here"] == found["there"]
    if scene == "catalogue":
        assert 0 < found["items"] == found["of"] - 5  # nobody is named by what they alone have
    else:
        assert found["posts"] == 6  # counts, moments and fit, twice
