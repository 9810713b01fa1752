"""A fit that was cut off goes on with what it has paid for: no second noise, no foreign post, nothing paid twice."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from estimators import CASES, DOMAINS, Case, base_ratings

import lowkey as lk
from lowkey.errors import BudgetError, LedgerError, LowkeyError, PlanError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.kept import KeptPosts
from lowkey.privacy.ledger import Ledger


class Killed(BaseException):
    """What a SIGKILL is to a test."""


def billboard(root: Path, **options: Any) -> Billboard:
    return Billboard(Ledger(root / "ledger.jsonl"), kept=KeptPosts(root), **options)


def cut(board: Billboard, after: int, place: str) -> Billboard:
    """Killed at a post: once its reservation is on disk, once it is kept, or once it is committed."""
    count, target = itertools.count(1), {"reserved": "_release", "kept": "commit", "committed": "on_post"}[place]
    holder: Any = board.ledger if target == "commit" else board
    original = getattr(holder, target)

    def killed(*args: Any) -> Any:
        if next(count) == after:
            raise Killed
        return original(*args) if original is not None else None

    setattr(holder, target, killed)
    return board


def fit(case: Case, board: Billboard, **changes: Any) -> Any:
    return case.make(**changes).fit(base_ratings(case.domain), billboard=board)


def arrays(model: Any) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in model.model_.arrays.items()}


SOME = ("DPBias-ratings", "DPFrankWolfe-ratings-power", "DPMoments-ratings", "DPALS-ratings-weights", "DPLMC-ratings")
EVERY = os.environ.get("LOWKEY_FAULTS") is not None  # on demand: every method


@pytest.mark.parametrize("case", [case for case in CASES if EVERY or str(case) in SOME], ids=str)
def test_every_method_goes_on_to_the_same_model_and_asks_nobody_again(case: Case, tmp_path: Path) -> None:
    """Cut off when all is paid: the same bits come out, and the ledger has no new line. Earlier: no more than the plan."""
    first = fit(case, billboard(tmp_path))
    head, planned = Ledger(tmp_path / "ledger.jsonl").head, len(first.ledger_.spent())
    again = fit(case, billboard(tmp_path))
    assert arrays(again) == arrays(first)
    assert Ledger(tmp_path / "ledger.jsonl").head == head
    for place, after in (("committed", planned), ("kept", (planned + 1) // 2)):
        root = tmp_path / place
        root.mkdir()
        board = cut(billboard(root), after, place)
        with pytest.raises(Killed):
            fit(case, board)
        board.end()
        before = {file.name: file.read_bytes() for file in root.glob("*.npy")}
        assert len(before) == after
        ledger = fit(case, billboard(root)).ledger_
        assert len(ledger.spent()) == planned
        assert len(ledger.plans()) == 1
        assert ledger.guarantee().epsilon == first.ledger_.guarantee().epsilon
        assert all((root / name).read_bytes() == data for name, data in before.items())  # none was drawn anew


CASE = next(case for case in CASES if case.estimator is lk.DPALS)


def paid(root: Path, after: int = 3, place: str = "kept", total: tuple[float, float] | None = None) -> int:
    """A fit that was cut off; returns how many posts are reserved."""
    root.mkdir(exist_ok=True)
    ledger = Ledger(root / "ledger.jsonl", total=total)
    board = cut(billboard(root), after, place)
    with pytest.raises(Killed):
        fit(CASE, board)
    board.end()  # as the end of its process does
    return len(Ledger(ledger.path).spent())


def test_a_post_that_was_reserved_and_lost_is_never_drawn_again_under_its_line(tmp_path: Path) -> None:
    assert paid(tmp_path, 3, "reserved") == 3
    with pytest.raises(BudgetError, match="never kept"):
        fit(CASE, billboard(tmp_path))
    assert len(Ledger(tmp_path / "ledger.jsonl").spent()) == 3  # refused before anything was spent
    ledger = fit(CASE, billboard(tmp_path, pay_again=True)).ledger_
    alone = CASE.make().plan(CASE.domain)
    posts = sum(line.times for line in alone.lines)
    assert len(ledger.spent()) == posts + 1
    assert ledger.guarantee().epsilon > alone.price.epsilon
    commits = [record["reservation"] for record in ledger.records if record["kind"] == "commit"]
    assert len(set(commits)) == len(commits) == posts
    lost = [record["seq"] for record in ledger.records if record["kind"] == "reserve"][2]
    assert lost not in commits
    assert fit(CASE, billboard(tmp_path)).ledger_.head == ledger.head  # and now it is whole


def test_a_lost_post_that_does_not_fit_the_total_is_not_paid_again(tmp_path: Path) -> None:
    price = CASE.make().plan(CASE.domain).price
    paid(tmp_path, 2, "reserved", total=(price.epsilon, price.delta))
    with pytest.raises(BudgetError, match="used up"):
        fit(CASE, billboard(tmp_path, pay_again=True))


def test_what_was_cut_off_is_no_longer_held_and_must_fit_again(tmp_path: Path) -> None:
    price = CASE.make().plan(CASE.domain).price
    paid(tmp_path, 2, total=(1.1 * price.epsilon, price.delta))
    other = Billboard(Ledger(tmp_path / "ledger.jsonl"))
    small = CASE.make(epsilon=0.5 * price.epsilon)
    small.fit(base_ratings(CASE.domain), billboard=other)  # somebody else takes what it had announced
    spent = len(Ledger(tmp_path / "ledger.jsonl").spent())
    with pytest.raises(BudgetError, match="used up"):
        fit(CASE, billboard(tmp_path))
    assert len(Ledger(tmp_path / "ledger.jsonl").spent()) == spent  # its next post would fit, the rest would not


def test_another_plan_pays_for_itself(tmp_path: Path) -> None:
    before = paid(tmp_path, 4)
    ledger = fit(CASE, billboard(tmp_path), epsilon=1.5).ledger_
    plan = CASE.make(epsilon=1.5).plan(CASE.domain)
    assert len(ledger.spent()) == before + sum(line.times for line in plan.lines)


@pytest.mark.parametrize("change", ["reg", "init_seed", "catalogue"])
def test_the_same_plan_with_other_settings_gets_no_kept_post(tmp_path: Path, change: str) -> None:
    """Not one of these is in the plan or, at first, in a sum's inputs: they decide what is made of the posts."""
    before = paid(tmp_path, 4)
    rows, domain = base_ratings(CASE.domain), CASE.domain
    if change == "catalogue":
        names = [f"another {i}" for i in range(domain.n_items)]
        renamed = lk.Domain(names, domain.rating_range, expected_users=domain.expected_users)
        model, rows = CASE.make(), base_ratings(renamed)
        assert model.plan(renamed).to_json() == model.plan(domain).to_json()
    else:
        model = CASE.make(**{change: 1})
    with pytest.raises(LedgerError, match="another sum"):
        model.fit(rows, billboard=billboard(tmp_path))
    assert len(Ledger(tmp_path / "ledger.jsonl").spent()) == before


def test_a_changed_post_and_one_of_another_ledger_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        paid(tmp_path / name, 3, "committed")
    file = next((tmp_path / "a").glob("*.npy"))
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(LedgerError, match="not the one that was committed"):
        fit(CASE, billboard(tmp_path / "a"))
    with pytest.raises(LedgerError, match="another sum"):
        fit(CASE, Billboard(Ledger(tmp_path / "a" / "ledger.jsonl"), kept=KeptPosts(tmp_path / "b")))


def test_only_one_goes_on_at_a_time(tmp_path: Path) -> None:
    paid(tmp_path, 3)
    first, plan = billboard(tmp_path), CASE.make().plan(CASE.domain)
    first.begin(plan)
    with pytest.raises(LedgerError, match="goes on with it"):
        billboard(tmp_path).begin(plan)
    first.end()
    billboard(tmp_path).begin(plan)


def test_what_was_used_again_is_not_in_the_plan_any_more(tmp_path: Path) -> None:
    """A method that asks once more than was planned gets nothing, however much of it was kept."""

    class Greedy(lk.DPBias):
        more = False

        def _run(self, settings: Any, curator: Any) -> Any:
            asked: list[Any] = []
            ask = curator.ask
            curator.ask = lambda sweep, local=None: (asked.append(sweep), ask(sweep, local))[1]
            released = super()._run(settings, curator)
            if self.more:
                ask(asked[-1])
            return released

    rows = base_ratings(DOMAINS["ratings"])
    first = billboard(tmp_path)
    Greedy(epsilon=1.0, delta=1e-6).fit(rows, billboard=first)
    first.end()
    greedy = Greedy(epsilon=1.0, delta=1e-6)
    greedy.more = True
    spent = len(Ledger(tmp_path / "ledger.jsonl").spent())
    with pytest.raises(PlanError, match="all used"):
        greedy.fit(rows, billboard=billboard(tmp_path))
    assert len(Ledger(tmp_path / "ledger.jsonl").spent()) == spent


def test_a_disk_without_room_is_found_before_a_post_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    board = billboard(tmp_path)
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(LowkeyError, match="nothing was spent"):
        fit(CASE, board)
    assert Ledger(tmp_path / "ledger.jsonl").spent() == []


def test_a_plan_is_the_same_to_the_letter_or_another_one(tmp_path: Path) -> None:
    paid(tmp_path, 3)
    board = billboard(tmp_path)
    plan = CASE.make().plan(CASE.domain)
    board.begin(replace(plan, caveats=(*plan.caveats, "one more")))
    assert board.paid(plan.lines[0].name) is None
