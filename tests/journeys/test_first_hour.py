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
