"""What a ledger has left, and what it says when a spend is refused: an epsilon that fits, and hardly more would."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from estimators import DOMAINS, base_ratings

import lowkey as lk
from lowkey.cli.main import run
from lowkey.errors import BudgetError
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Plan, Request

TABLE = "ratings.parquet --user user --item item --rating rating --scale 0.5 5 --method bias --delta 1e-6"
PUBLIC = f"{TABLE} --items catalogue.txt"


FILES = 2000, 40, 10  # users, items, ratings of a user


@pytest.fixture(autouse=True)
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)


def lowkey(line: str) -> int:
    return run(shlex.split(line))


def plan_of(epsilon: float, delta: float, shares: tuple[float, ...] = (1.0,), size: int = 1000) -> Plan:
    requests = [Request(f"sum_{i}", size, share) for i, share in enumerate(shares)]
    return Plan.calibrated("Test", requests, epsilon=epsilon, delta=delta)


@pytest.mark.parametrize(("spent", "delta"), [((1.0,), 1e-6), ((0.5, 0.9, 1.7), 1e-6), ((1.9,), 1e-8), ((0.02,), 1e-4)])
@pytest.mark.parametrize("held", [0.0, 0.4])
def test_the_epsilon_of_a_refusal_fits_and_hardly_more_would(spent: tuple[float, ...], delta: float, held: float) -> None:
    ledger = Ledger(total=(2.0, 1e-6))
    for epsilon in spent:
        plan = plan_of(epsilon / math.sqrt(len(spent)), 1e-6)
        for line in plan.lines:
            ledger.reserve(line, {}, noise_is_private=True, plan=ledger.add_plan(plan).seq)
    other = ledger.add_plan(plan_of(held, 1e-6)) if held else None  # under way while the refused one asks
    with pytest.raises(BudgetError) as refused:
        ledger.add_plan(plan_of(3.0, delta, (0.7, 0.3)))
    fits = float(re.findall(r"epsilon=([\d.e-]+)", refused.value.try_)[0])
    with pytest.raises(BudgetError):
        ledger.add_plan(plan_of(1.003 * fits, delta, (0.7, 0.3)))
    hold = ledger.add_plan(plan_of(fits, delta, (0.7, 0.3)))
    assert hold.lives
    assert other is None or other.lives


def test_a_ledger_that_is_full_says_so() -> None:
    ledger = Ledger(total=(1.0, 1e-6))
    plan = plan_of(1.0, 1e-6)
    ledger.reserve(plan.lines[0], {}, noise_is_private=True, plan=ledger.add_plan(plan).seq)
    with pytest.raises(BudgetError, match=r"is used up.*nothing more on this ledger.*used for ever"):
        ledger.add_plan(plan_of(0.5, 1e-6))


@pytest.mark.parametrize("catalogue", ["--items catalogue.txt", "--private-catalogue"])
def test_a_refused_release_names_what_fits(catalogue: str, tmp_path: Path, capsys: Any) -> None:
    ledger = f"--ledger {tmp_path / 'people.jsonl'} --total-epsilon 6"
    assert lowkey(f"release {TABLE} {catalogue} --epsilon 5 {ledger} --out {tmp_path / 'a'} -q") == 0
    assert lowkey(f"release {TABLE} {catalogue} --epsilon 5 {ledger} --out {tmp_path / 'b'} -q") == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    fits = re.search(r"Try --epsilon ([\d.]+), which fits", said)
    assert fits is not None
    assert 2.0 < float(fits[1]) < 5.0
    assert lowkey(f"release {TABLE} {catalogue} --epsilon {fits[1]} {ledger} --out {tmp_path / 'c'} -q") == 0
    assert lk.Ledger(tmp_path / "people.jsonl").price(1e-6).epsilon <= 6.0


def test_status_and_plan_of_a_shared_ledger(tmp_path: Path, capsys: Any) -> None:
    ledger = tmp_path / "people.jsonl"
    assert lowkey(f"release {PUBLIC} --epsilon 1 --ledger {ledger} --total-epsilon 2 --out {tmp_path / 'a'} -q") == 0
    assert lowkey(f"ledger status {ledger} --json") == 0
    status = json.loads(capsys.readouterr().out)
    assert [(fit["method"], fit["delta"]) for fit in status["fits"]] == [("DPBias", 1e-6)]
    assert 0.99 < status["epsilon"] <= 1.0
    assert status["total"] == {"epsilon": 2.0, "delta": 1e-6}
    assert status["head"] == Ledger(ledger).fingerprint
    assert lowkey(f"ledger plan {ledger} --releases 4,1 --json") == 0
    divided = {row["releases"]: row for row in json.loads(capsys.readouterr().out)["divided"]}
    assert divided[1]["epsilon_each"] == status["fits_epsilon"]
    assert divided[1]["stream_worth"] > divided[4]["stream_worth"] > divided[4]["epsilon_each"]
    each = divided[4]["epsilon_each"]
    for name in "bcde":  # all four of them fit, and nothing worth having is left
        assert lowkey(f"release {PUBLIC} --epsilon {each} --ledger {ledger} --out {tmp_path / name} -q") == 0
    assert lowkey(f"ledger status {ledger}") == 0
    said = capsys.readouterr().out
    assert said.count("done, ") == 5
    assert lowkey(f"ledger plan {ledger} --releases 1 --json") == 0
    assert json.loads(capsys.readouterr().out)["fits_epsilon"] < 0.05
    assert lowkey(f"ledger status {tmp_path / 'e'}") == 0  # the copy in a release
    assert capsys.readouterr().out.count("done, ") == 5


def test_status_of_a_stream_and_of_what_was_cut_off(tmp_path: Path, capsys: Any) -> None:
    domain = DOMAINS["binary"]
    lk.Stream(tmp_path / "people.stream", lk.DPBias(1.0, 1e-6), domain, lk.Calendar(0, 10, 10, 40), 12)
    assert lowkey(f"ledger status {tmp_path / 'people.stream'}") == 0
    assert "stream, 0 of 12 made" in capsys.readouterr().out
    cut = Ledger(tmp_path / "cut.jsonl")
    plan = plan_of(1.0, 1e-6, (0.5, 0.5))
    hold = cut.add_plan(plan)
    cut.reserve(plan.lines[0], {}, noise_is_private=True, plan=hold.seq)
    assert lowkey(f"ledger status {tmp_path / 'cut.jsonl'}") == 0
    said = capsys.readouterr().out
    assert "1 of 2 posts, not done" in said
    assert "No total was set" in said
    assert lowkey(f"ledger plan {tmp_path / 'cut.jsonl'}") == 2


def test_a_stream_that_does_not_fit_is_told_what_would() -> None:
    board = Billboard(Ledger(total=(1.0, 1e-6)))
    lk.DPBias(0.6, 1e-6).fit(base_ratings(DOMAINS["binary"]), billboard=board)
    schedule = lk.privacy.stream.Schedule.optimal("a", 52)
    make = lambda epsilon: Plan.calibrated(
        "DPBias", [Request("taken_counts", 40, 1.0)], epsilon=epsilon, delta=1e-6, schedule=schedule
    )
    with pytest.raises(BudgetError) as refused:
        board.ledger.add_plan(make(0.9))
    fits = float(re.findall(r"epsilon=([\d.]+)", refused.value.try_)[0])
    assert 0.6 < fits < 0.9
    board.ledger.add_plan(make(fits))


def test_a_stream_that_is_interrupted_says_what_was_spent(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    from lowkey.methods.stream import Stream

    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, "release", cut)
    (tmp_path / "r.csv").write_text("user,item,time\nu,1,5\n")
    stream = "--user user --item item --time time --binary --items 1..40 --first 10 --releases 12 --total-epsilon 1"
    line = f"refresh {tmp_path / 'r.csv'} --stream {tmp_path / 's'} {stream} --delta 1e-6 --out {tmp_path / 'w'} -q"
    assert lowkey(line) == 130
    assert re.search(r"booked in full before, for epsilon = (1|0\.99\d*): the same command again", capsys.readouterr().err)


@pytest.mark.parametrize(
    "wrong", ["status none.jsonl", "plan none.jsonl", "head none.jsonl", "plan p.jsonl --releases 0",
              "plan p.jsonl --delta 2", "plan p.jsonl --releases many", "status ratings.parquet"],
)  # fmt: skip
def test_bad_input_is_one_line(wrong: str, files: Path, capsys: Any) -> None:
    if not Path("p.jsonl").exists():
        Ledger("p.jsonl", total=(1.0, 1e-6))
    assert lowkey(f"ledger {wrong}") == (1 if "parquet" in wrong else 2)  # a damaged ledger is a failed check
    assert len(capsys.readouterr().err.splitlines()) == 1
