"""Several curators want the last of a budget: exactly one gets it, whatever they call the ledger; nothing is burnt.

``LOWKEY_RACES=200`` (make races) runs so many rounds of each kind in place of a few.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from test_ledger import STATISTIC
from trial import Figures

from lowkey.errors import BudgetError, LedgerError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.sums import Unreleased

ROUNDS = int(os.environ.get("LOWKEY_RACES", "6"))
POSTS = 5
PLAN = Plan("Test", (Line("sums", Gaussian(5.0), 3, times=POSTS),), 1e-6)
TOTAL = (1.2 * PLAN.price.epsilon, 1e-6)  # room for one plan, not for two


def fit(ledger: Ledger) -> bool:
    """A small fit: whether all of it was posted."""
    try:
        billboard = Billboard(ledger, noise=SeededNoise(1))
        billboard.begin(PLAN)
        for _ in range(POSTS):
            billboard.post(Unreleased(STATISTIC, np.zeros(3, np.int64)))
            time.sleep(0.001)
    except (BudgetError, LedgerError):
        return False
    return True


def race(paths: list[Path]) -> list[bool]:
    start = time.time() + 0.05
    children = []
    for path in paths:
        child = os.fork()
        if child == 0:
            code = 3
            try:
                time.sleep(max(0.0, start - time.time()))
                code = 0 if fit(Ledger(path)) else 1
            except LedgerError:  # another name of a ledger, whose head is not beside it: refused
                code = 1
            finally:
                os._exit(code)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert set(codes) <= {0, 1}
    return [code == 0 for code in codes]


@pytest.mark.parametrize("racers", [2, 4, 8])
@pytest.mark.parametrize("names", ["one name", "hard links", "symbolic links"])
def test_exactly_one_of_many_gets_the_last_of_a_budget(
    tmp_path: Path, record_property: Figures, racers: int, names: str
) -> None:
    begun = time.monotonic()
    for attempt in range(ROUNDS):
        path = tmp_path / f"{attempt}.jsonl"
        Ledger(path, total=TOTAL)
        paths = [path] * racers
        for i in range(1, racers) if names != "one name" else ():
            paths[i] = tmp_path / f"{attempt}-{i}.jsonl"
            os.link(path, paths[i]) if names == "hard links" else os.symlink(path, paths[i])
        assert sum(race(paths)) == 1
        records = Ledger.loads(path.read_bytes())
        assert len(records.spent()) == POSTS
        assert records.guarantee().epsilon <= TOTAL[0]
    seconds = time.monotonic() - begun
    record_property("figures", f"{ROUNDS} races of {racers} through {names}: one winner each; {seconds:.0f} s")


def test_exactly_one_thread_gets_the_last_of_a_budget_in_memory() -> None:
    for _ in range(ROUNDS):
        ledger, won, start = Ledger(total=TOTAL), [], threading.Barrier(4)

        def enter(ledger: Ledger = ledger, won: list[bool] = won, start: threading.Barrier = start) -> None:
            start.wait()
            won.append(fit(ledger))

        threads = [threading.Thread(target=enter) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == [False, False, False, True]


def test_what_a_killed_fit_had_announced_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger, ready = Ledger(path, total=TOTAL), tmp_path / "ready"
    child = os.fork()
    if child == 0:
        billboard = Billboard(Ledger(path), noise=SeededNoise(1))
        billboard.begin(PLAN)
        ready.touch()
        time.sleep(60)
        os._exit(billboard is None)
    while not ready.exists():
        time.sleep(0.01)
    assert not fit(ledger)
    os.kill(child, 9)
    os.waitpid(child, 0)
    assert fit(ledger)


def test_a_lock_is_taken_without_touching_what_a_link_points_to(tmp_path: Path) -> None:
    path, precious = tmp_path / "ledger.jsonl", tmp_path / "precious"
    precious.write_text("mine")
    os.symlink(precious, tmp_path / "ledger.jsonl.lock")
    assert fit(Ledger(path, total=TOTAL))
    assert precious.read_text() == "mine"


def test_two_ledgers_never_share_a_head(tmp_path: Path) -> None:
    """A new ledger with the same total beside the anchor of another one: refused, though both are only opened."""
    for name in ("a", "b", "elsewhere"):
        (tmp_path / name).mkdir()
    anchor = tmp_path / "elsewhere" / "anchor.json"
    first = Ledger(tmp_path / "a" / "ledger.jsonl", total=TOTAL, anchor=anchor)
    second = Ledger(tmp_path / "b" / "ledger.jsonl", total=TOTAL)
    assert first.head != second.head
    with pytest.raises(LedgerError, match="another one"):
        Ledger(tmp_path / "b" / "ledger.jsonl", anchor=anchor)


def test_a_ledger_without_a_total_can_be_given_one_and_only_one_that_holds(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert fit(Ledger(path))
    with pytest.raises(BudgetError):
        Ledger(path, total=(PLAN.price.epsilon / 2.0, 1e-6))
    assert Ledger(path).total is None
    assert Ledger(path, total=TOTAL).total == TOTAL
    assert not fit(Ledger(path))
    assert Ledger.loads(path.read_bytes()).total == TOTAL
