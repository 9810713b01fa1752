"""An old copy of a ledger, restored with everything beside it: told by a head that was kept elsewhere, and only so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from test_ledger import PLAN, reserve

from lowkey.cli.main import run
from lowkey.errors import InputError, LedgerError
from lowkey.privacy.ledger import Ledger


class Place:
    """A ledger's folder, another folder with the anchor, and an old copy of the former."""

    def __init__(self, root: Path) -> None:
        self.folder, self.anchor, self.copy = root / "people", root / "elsewhere" / "anchor.json", root / "backup"
        self.folder.mkdir()
        self.anchor.parent.mkdir()
        self.path = self.folder / "ledger.jsonl"

    def back_up(self) -> None:
        shutil.copytree(self.folder, self.copy)

    def restore(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def begun(place: Place, **options: object) -> Ledger:
    ledger = Ledger(place.path, total=(100.0, 1e-6), **options)  # type: ignore[arg-type]
    ledger.add_plan(PLAN)
    return ledger


def test_without_an_anchor_a_restore_gives_the_budget_back(place: Place) -> None:
    """What docs/privacy.md says plainly: nothing inside the folder can tell."""
    ledger = begun(place)
    place.back_up()
    reserve(ledger)
    place.restore()
    assert Ledger(place.path).spent() == []


def test_a_restored_copy_is_behind_its_anchor(place: Place) -> None:
    ledger = begun(place, anchor=place.anchor)
    place.back_up()
    reserve(ledger)
    assert len(Ledger(place.path, anchor=place.anchor).spent()) == 1
    place.restore()
    with pytest.raises(LedgerError, match="behind"):
        Ledger(place.path, anchor=place.anchor)
    shutil.rmtree(place.folder)
    place.folder.mkdir()
    with pytest.raises(LedgerError, match="behind"):  # nor may one begin anew
        Ledger(place.path, anchor=place.anchor)
    assert not place.path.exists()


def test_a_restore_under_a_running_process_is_seen_before_the_next_post(place: Place) -> None:
    ledger = begun(place, anchor=place.anchor)
    place.back_up()
    other = Ledger(place.path, anchor=place.anchor)  # read before the post
    reserve(ledger)
    place.restore()
    with pytest.raises(LedgerError, match="behind"):
        reserve(other)
    assert Ledger(place.path).spent() == []


def test_an_expected_head_may_be_the_last_or_an_earlier_one(place: Place) -> None:
    ledger = begun(place)
    early = ledger.fingerprint
    place.back_up()
    reserve(ledger)
    late = ledger.fingerprint
    for head in (early, late, ledger.head):
        assert len(Ledger(place.path, expect_head=head).spent()) == 1
    place.restore()
    assert Ledger(place.path, expect_head=early).fingerprint == early
    for head in (late, ledger.head, f"1:{ledger.head}"):
        with pytest.raises(LedgerError, match="behind"):
            Ledger(place.path, expect_head=head)
    with pytest.raises(InputError, match="expect_head"):
        Ledger(place.path, expect_head="12:abc")


def test_an_anchor_in_the_folder_of_its_ledger_is_refused(place: Place) -> None:
    for inside in (place.folder / "anchor", place.folder / "deeper" / "anchor"):
        with pytest.raises(InputError, match="own folder"):
            Ledger(place.path, anchor=inside)
    with pytest.raises(InputError, match="memory"):
        Ledger(anchor=place.anchor)


def test_a_lost_anchor_is_no_reason_to_begin_another(place: Place) -> None:
    begun(place, anchor=place.anchor)
    place.anchor.unlink()
    with pytest.raises(LedgerError, match="missing"):
        Ledger(place.path, anchor=place.anchor)
    place.anchor.write_text("nonsense")
    with pytest.raises(LedgerError, match="anchor"):
        Ledger(place.path, anchor=place.anchor)


def test_an_anchor_that_can_not_move_stops_the_post(place: Place) -> None:
    ledger = begun(place, anchor=place.anchor)
    shutil.rmtree(place.anchor.parent)
    with pytest.raises(LedgerError, match="anchor"):
        reserve(ledger)


def test_an_anchor_that_lags_behind_by_a_crash_is_no_contradiction(place: Place) -> None:
    """The process died between the line and the anchor: the line counts, and the next one moves the anchor on."""
    begun(place, anchor=place.anchor)
    reserve(Ledger(place.path))
    again = Ledger(place.path, anchor=place.anchor)
    reserve(again)
    assert json.loads(place.anchor.read_text())["hash"] == again.head
    assert len(again.spent()) == 2


def test_the_head_on_the_command_line(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = begun(place)
    place.back_up()
    assert run(["ledger", "head", str(place.path)]) == 0
    early = capsys.readouterr().out.strip()
    assert early == ledger.fingerprint == f"1:{ledger.head}"
    reserve(ledger)
    assert run(["ledger", "head", str(place.path), "--to", str(place.anchor), "--expect-head", early]) == 0
    assert json.loads(place.anchor.read_text()) == {"seq": 2, "hash": ledger.head}
    place.restore()
    assert run(["ledger", "head", str(place.path), "--to", str(place.anchor)]) == 1  # an anchor never goes back
    assert run(["ledger", "head", str(place.path), "--expect-head", ledger.fingerprint]) == 1
    assert "behind" in capsys.readouterr().err
    assert run(["ledger", "head", str(place.folder / "none.jsonl")]) == 2
    assert not (place.folder / "none.jsonl").exists()
