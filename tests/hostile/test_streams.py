"""A stream's own folder, damaged: its ledger, its private state, its posts and questions. Refused or whole, never a crash,
and no part of a release has two posts.

``LOWKEY_FUZZ=5000`` tries so many (make fuzz).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mutations import byte_changes
from test_faults import CALENDAR, DOMAIN, NoPasses, parts_of, people
from trial import FINE, REFUSED, Figures, Tally, attempt

import lowkey as lk
from lowkey.privacy.ledger import Ledger

EXAMPLES = int(os.environ.get("LOWKEY_FUZZ", "12"))


def released(root: Path, number: int) -> None:
    stream = lk.Stream(root, lk.DPBias(4.0, 1e-6, n_iter=1), DOMAIN, CALENDAR, 3)
    stream.release(people(), number, engine=NoPasses())


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stream") / "people"
    root.mkdir()
    made = attempt(lambda: [released(root, number) for number in (1, 2)])
    assert made.how == FINE, made.said
    return root


def test_damaged_streams(original: Path, tmp_path: Path, record_property: Figures) -> None:
    tally = Tally("damaged streams")
    names = sorted(str(path.relative_to(original)) for path in original.rglob("*") if path.is_file())
    assert {"ledger.jsonl", "private/spoken.npz"} <= set(names)

    @settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(names), byte_changes(), st.sampled_from([2, 3]))
    def every(name: str, change: Callable[[bytes], bytes], number: int) -> None:
        root = tmp_path / "people"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(original, root)
        (root / name).write_bytes(change((original / name).read_bytes()))
        trial = tally.add(attempt(lambda: released(root, number)))
        assert trial.faults() == [], name
        if trial.how != REFUSED:
            posted = [part for part, committed in parts_of(Ledger(root / "ledger.jsonl")) if committed]
            assert len(posted) == len(set(posted))

    every()
    record_property("figures", str(tally))
