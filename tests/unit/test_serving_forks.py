"""A model serves in threads and in forks, one after the other, on numba's simplest threading layer too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rule_models import histories, rule_models

PROGRAM = """
import os, sys, threading
sys.path.insert(0, {web!r})
from rule_models import histories, rule_models
model = rule_models()[{name!r}]
rows = histories(model, 600)
one = lambda: model.recommend(rows[[5]], n=3)[0].tolist()
expected = one()
wrong = []
threads = [threading.Thread(target=lambda: [one() == expected or wrong.append(1) for _ in range(20)]) for _ in range(4)]
threads.append(threading.Thread(target=lambda: model.transform(rows)))
[t.start() for t in threads]; [t.join() for t in threads]
for _ in range(3):
    child = os.fork()
    if child == 0:
        model.transform(rows)
        os._exit(0 if one() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("served", len(wrong))
"""


@pytest.mark.parametrize("name", ["factors", "signs", "replay", "replay, refitted", "projection", "lists"])
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_threads_then_forks(name: str, layer: str) -> None:
    import os

    web = str(Path(__file__).parents[1] / "web")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(web=web, name=name)],
        capture_output=True, text=True, check=False, timeout=100,
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.stdout == "served 0\n", done.stderr[-500:]


@pytest.mark.parametrize("name", ["factors", "signs", "replay", "replay, refitted"])
def test_a_row_among_many_is_the_row_alone_to_the_last_bit(name: str) -> None:
    model = rule_models()[name]
    rows = histories(model, 700)
    together = model.transform(rows)
    for i in (0, 1, 2, 350, 699):
        np.testing.assert_array_equal(model.transform(rows[[i]])[0], together[i])
