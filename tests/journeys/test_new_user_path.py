"""A new user's path: the README's own commands, as one shell script in an empty folder, and then its Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

pytestmark = pytest.mark.xdist_group("newcomer")  # the script runs once, in one process
README = Path(__file__).parents[2] / "README.md"


def block(kind: str) -> str:
    found = re.findall(rf"^```{kind} demo\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(found) == 1, f"the README has one block that starts with ```{kind} demo"
    return found[0]


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder after the script, and what it printed."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / "script.sh").write_text("set -eu\n" + block("sh"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "script.sh"], cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, done.stdout


def test_the_script_goes_from_a_million_ratings_to_an_export(visited: tuple[Path, str]) -> None:
    folder, printed = visited
    ratings = pyarrow.parquet.ParquetFile(folder / "lowkey-demo" / "ratings.parquet")
    assert 0.9e6 < ratings.metadata.num_rows < 1.1e6
    assert str(ratings.schema_arrow.field("user").type) == str(ratings.schema_arrow.field("item").type) == "string"
    assert printed.count("The folder is consistent: its files, ledger, price and report say the same.") == 1
    exported = pyarrow.parquet.read_table(folder / "exported" / "items.parquet")
    catalogue = (folder / "lowkey-demo" / "catalogue.txt").read_text().splitlines()
    assert exported["item"].to_pylist() == catalogue
    assert any(film in printed for film in catalogue)  # somebody was recommended something


def test_the_demo_compares_explains_and_points_on(visited: tuple[Path, str]) -> None:
    _, printed = visited
    for part in ("private (DP", "not private (Bias)", "not private (Popularity)", "tossing a coin", "lowkey-demo/release"):
        assert part in printed
    assert "lowkey release lowkey-demo/ratings.parquet --user user" in printed  # the same for the reader's own file
    assert "open lowkey-demo/site/index.html" in printed
    assert (visited[0] / "lowkey-demo" / "site" / "index.html").is_file()


def test_the_python_of_the_readme_runs(visited: tuple[Path, str]) -> None:
    folder, _ = visited
    done = subprocess.run([sys.executable, "-c", block("python")], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "epsilon = " in done.stdout
    assert done.stdout.strip().endswith("True")
