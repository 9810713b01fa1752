"""The first hour of a newcomer: every command of docs/start.md, in its order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

DOCS = Path(__file__).parents[2] / "docs"


def script(page: str, mark: str) -> str:
    """The blocks of a page that the comment ``run: mark`` precedes, as one shell script."""
    marked = rf"^<!-- run: {mark} -->\n```(sh|python)\n(.*?)^```"
    blocks = re.findall(marked, (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks, f"{page} has no block {mark}"
    python = "python - <<'END_OF_PYTHON'\n{}END_OF_PYTHON\n"
    return "set -eu\n" + "".join(text if kind == "sh" else python.format(text) for kind, text in blocks)


def follow(page: str, mark: str, folder: Path, **more: str) -> str:
    """What a reader sees who types in what a page says."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    (folder / "script.sh").write_text(script(page, mark))
    done = subprocess.run(
        ["bash", "script.sh"], cwd=folder, env={**os.environ, "PATH": path, **more}, capture_output=True, text=True,
        timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("hour")
    return folder, follow("start.md", "start", folder)


def test_a_messy_file_becomes_lists_for_all_users(hour: tuple[Path, str]) -> None:
    folder, printed = hour
    lists = pq.read_table(folder / "lists.parquet")
    assert lists.column_names == ["user", "item", "score", "rank", "ignored"]
    assert len(lists) == 10 * 1500
    assert dict(zip(lists["user"].to_pylist(), lists["ignored"].to_pylist(), strict=True))["p3"] == 1
    catalogue = set((folder / "catalogue.txt").read_text().splitlines())
    assert set(lists["item"].to_pylist()) <= catalogue
    assert "Protects one 'User ID' (--user), and recommends 'Film' (--item)." in printed
    assert "one 'User ID' is protected" in (folder / "release" / "privacy_report.html").read_text().replace("&#x27;", "'")


def test_every_step_of_the_hour_says_something(hour: tuple[Path, str]) -> None:
    folder, printed = hour
    for part in (
        "The Tale of 016", "line 2 of the input", '"who": 2', "shape: (6, 4)", "Model(DPLists, epsilon = 4",
        "against its floor and", "each release:",
    ):  # fmt: skip
        assert part in printed, part
    assert ElementTree.parse(folder / "curve.svg").getroot().tag.endswith("svg")
    assert (folder / "site" / "index.html").is_file()
    assert (folder / "vectors" / "items.parquet").is_file()


def test_clicks_become_a_served_page(tmp_path: Path) -> None:
    printed = follow("messy-data.md", "clicks", tmp_path)
    assert "more is taken for 20" in (tmp_path / "clicked" / "privacy_report.html").read_text()
    assert "True\n['page-" in printed  # the page has its heading, and the service answers


def test_a_duckdb_table_becomes_a_vector_index(tmp_path: Path) -> None:
    printed = follow("vector-stores.md", "duckdb", tmp_path)
    nearest = re.search(r"nearest: (.*)", printed)
    assert nearest is not None
    skus = [int(sku.removeprefix("sku-")) for sku in nearest[1].split()]
    assert len(skus) == 5
    assert sum(sku % 4 == 0 for sku in skus) >= 4  # customers buy what is in their own shelf, every fourth number


def test_the_officers_path_from_report_to_verify_with_a_key(tmp_path: Path) -> None:
    printed = follow("for-privacy-officers.md", "officer", tmp_path)
    assert "yes  It is signed with the key that you were given" in printed
    assert "is a strong promise" in printed
    assert "Whoever asks for erasure" in printed
    assert re.search(r"NO +It is signed with the key that you were given: no signature", printed)
    assert "refused with exit code 1" in printed
    assert "not exported: exit code 1" in printed
    assert not (tmp_path / "officer" / "nowhere").exists()
    assert "privacy@library.example" in (tmp_path / "release" / "privacy_report.html").read_text()


def test_a_full_ledger_says_what_fits_and_takes_it(tmp_path: Path) -> None:
    printed = follow("budget.md", "full", tmp_path)
    assert "refused with exit code 2" in printed
    named = re.search(r"Try --epsilon ([\d.]+), which fits; lowkey ledger plan", printed)
    assert named is not None
    assert 1.2 <= float(named[1]) < 1.5
    assert f"one more release of epsilon = {named[1]} at delta = 1e-06" in printed
    first, second = re.findall(r"Spent: epsilon = ([\d.]+) at", printed)
    assert float(first) == 1.5
    assert 1.95 < float(second) <= 2.0
    assert (tmp_path / "summer" / "manifest.json").is_file()
