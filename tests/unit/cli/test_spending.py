"""What a release spends, it keeps: settings that fail are found before, and a release that is cut off goes on."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import write_taste

TABLE = "ratings.parquet --user user --item item --rating rating --scale 0.5 5"
GOOD = f"{TABLE} --items catalogue.txt --epsilon 2 --delta 1e-5"


FILES = 400, 40, 10  # users, items, ratings of a user


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(files)
    return files


def lowkey(line: str) -> int:
    return run(shlex.split(line))


def spent(ledger: Path) -> int:
    return len(lk.Ledger(ledger).spent()) if ledger.exists() else 0


class Broken(lk.DPBias):
    """A method whose last step fails whatever was posted: only a rehearsal can know."""

    def _run(self, settings: Any, curator: Any) -> Any:
        super()._run(settings, curator)
        raise ZeroDivisionError


class Endless(lk.DPBias):
    """A method that comes to its end with numbers that are none."""

    def _run(self, settings: Any, curator: Any) -> Any:
        released = super()._run(settings, curator)
        return released._replace(arrays={**released.arrays, "item_bias": released.arrays["item_bias"] * float("nan")})


@pytest.mark.parametrize("method", [Broken, Endless])
def test_a_fit_that_would_fail_after_spending_fails_before(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, method: Any
) -> None:
    from lowkey.cli import training

    monkeypatch.setattr(training, "estimator", lambda name: method)
    ledger = tmp_path / "people.jsonl"
    assert lowkey(f"release {GOOD} --ledger {ledger} --out {tmp_path / 'r'} -q") == 2
    assert spent(ledger) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "--method bias --set residual_bound=NaN",
        "--method als --set reg=NaN",
        "--method svd --items 1..100000",
        "--method bias --epsilon 1e6",
    ],
)
def test_settings_that_fail_are_found_before_anything_is_spent(here: Path, tmp_path: Path, wrong: str) -> None:
    ledger = tmp_path / "people.jsonl"
    assert lowkey(f"release {GOOD} {wrong} --ledger {ledger} --out {tmp_path / 'r'} -q") == 2
    assert spent(ledger) == 0


class Cut(lk.DPBias):
    """A method whose second pass is cut off, when somebody says so."""

    at: str | None = None

    def _run(self, settings: Any, curator: Any) -> Any:
        ask = curator.ask

        def cut(sweep: Any, local: Any = None) -> Any:
            posts = ask(sweep, local)
            if Cut.at == "interrupt":
                raise KeyboardInterrupt
            if Cut.at == "disk":
                raise OSError(28, "No space left on device")
            return posts

        curator.ask = cut
        return super()._run(settings, curator)


@pytest.mark.parametrize("how", ["interrupt", "disk"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_release_that_is_cut_off_goes_on_and_pays_nothing_twice(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, how: str, shared: bool
) -> None:
    from lowkey.cli import paid, training

    monkeypatch.setattr(training, "estimator", lambda name: Cut)
    monkeypatch.setattr(paid, "rehearse", lambda order, place: None)
    ledger = tmp_path / "people.jsonl"
    line = f"release {GOOD} {f'--ledger {ledger} --total-epsilon 2' if shared else ''} --out {tmp_path / 'r'} -q"
    assert lowkey(f"{line} --resume") == 2  # nothing was cut off yet
    monkeypatch.setattr(Cut, "at", how)
    assert lowkey(line) == (130 if how == "interrupt" else 1)
    said = capsys.readouterr().err
    (kept,) = tmp_path.glob("*.paid-*")
    assert "--resume" in said
    assert str(kept) in said
    assert "epsilon = " in said
    assert kept.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o077 == 0 for file in kept.glob("*.npy"))
    monkeypatch.setattr(Cut, "at", None)
    assert lowkey(line) == 2  # it is a decision to pay again
    assert "--resume" in capsys.readouterr().err
    assert lowkey(f"{line.replace('--epsilon 2', '--epsilon 1.9')} --resume") == 2  # another order has no part in it
    assert lowkey(f"{line} --resume") == 0
    assert all(check.ok for check in lk.verify(tmp_path / "r"))
    plan = lk.load(tmp_path / "r").ledger.plans()[0]
    assert len(lk.load(tmp_path / "r").ledger.spent()) == sum(planned.times for planned in plan.lines)
    assert list(tmp_path.glob("*.paid-*")) == []
    if shared:
        assert lk.load(tmp_path / "r").ledger.head == lk.Ledger(ledger).head


@pytest.mark.parametrize("catalogue", ["--items catalogue.txt", "--private-catalogue --set n_iter=1"])
def test_a_lost_race_for_the_folder_keeps_what_was_paid(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, catalogue: str
) -> None:
    """Somebody else fills ``--out`` while the fit runs: the release is made elsewhere, and nothing is spent for it."""
    from lowkey.cli import training

    out, ledger, original = tmp_path / "r", tmp_path / "people.jsonl", training.train

    def meanwhile(*args: Any) -> Any:
        fitted = original(*args)
        out.mkdir()
        (out / "precious").write_text("mine")
        return fitted

    options = GOOD.replace("--items catalogue.txt", catalogue)
    line = f"release {options} --method bias --ledger {ledger} --total-epsilon 2 -q"
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", meanwhile)
        assert lowkey(f"{line} --out {out}") == 2
    assert (out / "precious").read_text() == "mine"
    assert "--resume" in capsys.readouterr().err
    paid = spent(ledger)
    assert lowkey(f"{line} --out {tmp_path / 'elsewhere'} --resume") == 0
    assert spent(ledger) == paid
    assert all(check.ok for check in lk.verify(tmp_path / "elsewhere"))
    assert lk.load(tmp_path / "elsewhere").ledger.head == lk.Ledger(ledger).head


def test_a_delta_that_allows_a_whole_row_needs_force(here: Path, tmp_path: Path, capsys: Any) -> None:
    line = f"release {TABLE} --items catalogue.txt --epsilon 2 --delta 0.01 --expected-users 400 --method bias -q"
    assert lowkey(f"{line} --out {tmp_path / 'r'}") == 2
    assert "whole row" in capsys.readouterr().err
    assert lowkey(f"{line} --out {tmp_path / 'r'} --force") == 0
    with pytest.raises(lk.errors.InputError, match="whole row"):  # in Python, too
        lk.load(tmp_path / "r").release(tmp_path / "again")
    assert not (tmp_path / "again").exists()
    lk.load(tmp_path / "r").release(tmp_path / "again", force=True)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_private_row_stays_on_disk_after_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """The moment a scratch file holds rows, and twice, as impatient people do. There is nothing to find even before."""
    facts = write_taste(tmp_path / "ratings.parquet", 20_000, 200, 30, seed=5)
    (tmp_path / "catalogue.txt").write_text("\n".join(facts["items"]) + "\n")
    before = set(os.listdir(tmp_path))
    command = [sys.executable, "-c", "from lowkey.cli.main import main; main()", "release", *shlex.split(GOOD)]
    command += ["--method", "bias", "--out", str(tmp_path / "r"), "--out-of-core", "-q"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    until = time.time() + 60
    while not rows_on_disk(process.pid, tmp_path) and process.poll() is None and time.time() < until:
        time.sleep(0.002)
    assert process.poll() is None
    # what was paid for is kept: noisy sums, for the curator alone, and no row
    here = lambda: {name for name in os.listdir(tmp_path) if not name.startswith("lowkey.paid-")}
    assert here() <= before | {"r"}
    process.send_signal(number)
    time.sleep(0.005)
    if number in (signal.SIGHUP, signal.SIGTERM) and process.poll() is None:
        process.send_signal(number)
    assert process.wait(60) in (128 + number, 130, -number)
    assert here() == before


def rows_on_disk(process: int, place: Path) -> bool:
    """Whether a process has written to a file without a name in a place."""
    for link in Path(f"/proc/{process}/fd").glob("*"):
        try:
            if os.readlink(link).startswith(str(place)) and (found := os.stat(link)).st_nlink == 0 and found.st_size:
                return True
        except OSError:
            continue
    return False
