"""The officer's path: a report with the curator's answers, a signature, and a verdict in words; and a forger's."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lowkey as lk
from lowkey.cli.main import run
from lowkey.errors import InputError
from lowkey.privacy.guarantee import verdict
from lowkey.release.folder import SIGNATURE
from lowkey.release.signing import check_signature

TABLE = "ratings.parquet --user user --item item --rating rating --scale 0.5 5 --items catalogue.txt --method bias"
ABOUT = """
product = "Film tips"
organisation = "Town library <script>alert(1)</script>"
contact = "privacy@library.example"
why_epsilon = '''As strong
as lists allow'''
"""


FILES = 300, 40, 10  # users, items, ratings of a user


@pytest.fixture(scope="module")
def files(files: Path) -> Path:
    (files / "about.toml").write_text(ABOUT)
    with contextlib.chdir(files):
        assert lowkey("keygen curator") == lowkey("keygen forger") == 0
        signed = "--about about.toml --sign curator.key"
        assert lowkey(f"release {TABLE} --epsilon 1 --expected-users 300 --out signed -q {signed}") == 0
        assert lowkey(f"release {TABLE} --epsilon 1000 --expected-users 300 --out weak -q") == 0
    return files


@pytest.fixture(autouse=True)
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)


def lowkey(line: str) -> int:
    return run(shlex.split(line))


def test_the_officers_path(capsys: Any) -> None:
    """From the report to a check with the key: who answers, what it promises, and that it is theirs."""
    report = json.loads(Path("signed/privacy_report.json").read_text())
    assert report["title"] == "Privacy report: Film tips"
    assert report["about"]["why_epsilon"] == "As strong as lists allow"
    assert report["about"]["columns"] == "user: user, item: item, rating: rating"
    assert report["registry_entry"]["data curator"].startswith("Town library")
    page = Path("signed/privacy_report.html").read_text()
    assert "privacy@library.example" in page
    assert "<script" not in page
    assert "privacy@library.example" in Path("signed/MODEL_CARD.md").read_text()
    assert lowkey("verify signed --key curator.pub") == 0
    said = capsys.readouterr().out
    assert "yes  It is signed with the key that you were given" in said
    assert "strong promise" in said
    assert "anybody could have made" not in said
    assert all(check.ok for check in lk.verify("signed", key=Path("curator.pub").read_text().splitlines()[1]))
    assert lowkey("explain signed") == 0
    said = capsys.readouterr().out
    assert "erasure" in said
    assert "strong promise" in said


def test_a_change_of_what_the_curator_said_is_seen(tmp_path: Path) -> None:
    for name in ("privacy_report.html", "MODEL_CARD.md", "manifest.json"):
        folder = tmp_path / name
        shutil.copytree("signed", folder)
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("library.example", "another.example"))
        assert not all(check.ok for check in lk.verify(folder))


def test_a_forged_folder_is_consistent_and_not_the_curators(tmp_path: Path, capsys: Any) -> None:
    """A forger writes all of it anew, takes the curator's signature along, or signs with a key of their own."""
    forger = lk.load("signed")  # with nothing changed: what is consistent is as good as the curator's own
    forger.release(tmp_path / "bare", about={"product": "Film tips"})
    assert lowkey(f"verify {tmp_path / 'bare'}") == 0
    said = capsys.readouterr().out
    assert "anybody could have made this folder" in said
    assert "curator's word" in said
    forger.release(tmp_path / "theirs", sign="forger.key")
    shutil.copytree(tmp_path / "bare", tmp_path / "taken")
    shutil.copy(f"signed/{SIGNATURE}", tmp_path / "taken")
    assert lowkey(f"verify {tmp_path / 'taken'} --key curator.pub -q") == 1
    for name in ("bare", "theirs", "taken"):
        assert not all(check.ok for check in lk.verify(tmp_path / name, key="curator.pub"))
        assert all(check.ok for check in lk.verify(tmp_path / name, key="forger.pub")) == (name == "theirs")


@pytest.mark.parametrize("to", ["web", "npy", "parquet"])
def test_with_a_key_only_what_it_signed_is_exported(to: str, tmp_path: Path, capsys: Any) -> None:
    shutil.copytree("signed", tmp_path / "bare")
    (tmp_path / "bare" / SIGNATURE).unlink()
    for folder, key, code in (
        (tmp_path / "bare", "curator.pub", 1),
        ("signed", "forger.pub", 1),
        ("signed", "about.toml", 2),
    ):
        assert lowkey(f"export {folder} --to {to} --out {tmp_path / 'out'} --key {key} -q") == code
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert not (tmp_path / "out").exists()
    assert lowkey(f"export signed --to {to} --out {tmp_path / 'out'} --key curator.pub -q") == 0


def test_with_a_key_only_what_it_signed_is_served(tmp_path: Path, capsys: Any) -> None:
    """Also when the folder is exchanged for another one later: the one at hand goes on."""
    import asyncio

    from lowkey.cli.service import Service
    from lowkey.release.opened import open_release
    from lowkey.release.signing import public_key
    from lowkey.serving.http.limits import Limits

    for folder, key, code in (("weak", "curator.pub", 1), ("signed", "forger.pub", 1), ("signed", "nowhere.pub", 2)):
        assert lowkey(f"serve {folder} --port 0 --key {key}") == code
        assert len(capsys.readouterr().err.splitlines()) == 1
    link, key, said = tmp_path / "current", public_key("curator.pub"), list[str]()
    link.symlink_to(Path("signed").absolute())
    opened = lambda path: open_release(path, page=False, key=key)
    service = Service(link, opened, limits=Limits(), name="lowkey", drain=0.0, say=said.append)
    first = service.current.served.id
    link.unlink()
    link.symlink_to(Path("weak").absolute())
    asyncio.run(service.reload())
    assert service.current.served.id == first
    assert service.current.swaps == {"done": 0, "refused": 1}


def test_every_flipped_bit_of_a_signature_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree("signed", folder)
    text = (folder / SIGNATURE).read_bytes()
    first = text.index(b"\n") + 1  # the untrusted comment is nobody's word
    for at in range(first, len(text) - 2, 3):
        changed = bytearray(text)
        changed[at] ^= 4
        (folder / SIGNATURE).write_bytes(changed)
        with pytest.raises(lk.errors.LowkeyError):
            check_signature(folder, "curator.pub")
    (folder / SIGNATURE).write_bytes(text)
    assert check_signature(folder, "curator.pub").startswith("release ")


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")
def test_minisign_agrees() -> None:
    subprocess.run(["minisign", "-Vm", "signed/manifest.json", "-p", "curator.pub"], check=True)


def test_a_secret_key_is_its_owners_alone() -> None:
    assert Path("curator.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "wrong",
    [
        "keygen curator",
        f"release {TABLE} --epsilon 1 --delta 1e-6 --out r --sign nowhere.key",
        f"release {TABLE} --epsilon 1 --delta 1e-6 --out r --sign curator.pub",
        f"release {TABLE} --epsilon 1 --delta 1e-6 --out r --about nowhere.toml",
        f"release {TABLE} --epsilon 1 --delta 1e-6 --out r --about catalogue.txt",
        "release --init --about about.toml",
        "release",
    ],
)
def test_bad_input_is_one_line(wrong: str, capsys: Any) -> None:
    assert lowkey(f"{wrong} {'-q' if 'release' in wrong else ''}") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not Path("r").exists()


def test_a_key_that_is_none_is_a_no() -> None:
    assert not all(check.ok for check in lk.verify("signed", key="about.toml"))


def test_answers_must_be_known_short_and_plain() -> None:
    with pytest.raises(InputError, match="a field"):
        lk.load("signed").release("r", about={"sponsor": "x"})
    with pytest.raises(InputError, match="no text, or long"):
        lk.load("signed").release("r", about={"purpose": "x" * 3000})


def test_epsilon_1000_is_not_all_green(capsys: Any) -> None:
    assert lowkey("verify weak --json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "none"
    assert json.loads(Path("weak/privacy_report.json").read_text())["verdict_good"] is False
    assert "next to nothing" in Path("weak/privacy_report.html").read_text()
    assert "next to nothing" in Path("weak/MODEL_CARD.md").read_text()
    assert lowkey(f"release {TABLE} --epsilon 1000 --delta 1e-6 --dry-run") == 0
    assert "next to nothing" in capsys.readouterr().out


def test_a_verdict_has_thresholds() -> None:
    levels = [verdict(epsilon, 1e-6, 1000).level for epsilon in (1.0, 1.01, 10.0, 10.1, 100.0, 101.0)]
    assert levels == ["strong", "reasonable", "reasonable", "weak", "weak", "none"]
    assert verdict(1.0, 1e-4, 1000).good
    assert not verdict(1.0, 5e-4, 1000).good  # below one over the people, and not by far
    assert "whole row" in verdict(1.0, 1e-3, 1000).text
    assert "not stated" in verdict(1.0, 1e-3, None).text
