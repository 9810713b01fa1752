"""A method as another package would bring it: the suites, the command line, release, verify and report work for it.

It is installed into a folder of the test's own, and every check runs in a process that has that folder on its path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
SUITES = """
from lowkey.testing import Case, Violation, check_estimator, check_privacy
from lowkey_votes import kernel
from lowkey_votes.method import DPVotes

case = Case(DPVotes, "ratings", personal=False)
print(len(check_estimator(case)))
print(max(check_privacy(case).values()))
whole = kernel._add_votes
def unbounded(offsets, items, values, center, step, votes):
    whole(offsets, items, values, center, step / 1.5, votes)  # every user counts one and a half times
kernel._add_votes = unbounded
try:
    check_privacy(Case(DPVotes, "ratings", personal=False), sized=False)
except Violation as error:
    print(error)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installer leaves behind: the package, its metadata and its entry points."""
    target = tmp_path_factory.mktemp("site")
    shutil.copytree(HERE / "lowkey_votes", target / "lowkey_votes")
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    metadata = target / f"lowkey_votes-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [line for group, names in groups for line in (f"[{group}]", *(f"{n} = {v}" for n, v in names.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


def python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1"}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=600)


def lowkey(installed: Path, *arguments: str) -> str:
    done = python(installed, "-c", "from lowkey.cli.main import main; main()", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_suites_take_it_and_find_its_bug(installed: Path) -> None:
    done = python(installed, "-c", SUITES)
    assert done.returncode == 0, done.stderr
    checks, largest, violation = done.stdout.strip().splitlines()
    assert int(checks) >= 20
    assert 0.9 < float(largest) <= 1.0
    assert "one user moves the sum by 1.5 times the declared sensitivity" in violation


def test_from_ratings_to_a_checked_release(installed: Path, tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(3), ["user,item,rating"]
    for user in range(300):  # everybody loves film 4 and has something to say against a few others
        others = rng.choice([i for i in range(20) if i != 4], 5, replace=False)
        rows += [f"{user},4,5", *(f"{user},{item},1" for item in others)]
    (tmp_path / "ratings.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "items.csv").write_text("item\n" + "\n".join(map(str, range(20))) + "\n")
    (tmp_path / "mine.csv").write_text("item,rating\n7,2\n")
    folder = str(tmp_path / "release")
    columns = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5"]
    order = ["--items", str(tmp_path / "items.csv"), "--epsilon", "1", "--delta", "1e-6", "--method", "votes"]
    lowkey(installed, "release", str(tmp_path / "ratings.csv"), *columns, *order, "--out", folder)
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert manifest["method"] == "DPVotes"
    assert "DPVotes" in (tmp_path / "release" / "privacy_report.html").read_text()
    assert "votes" in lowkey(installed, "explain", folder)
    lowkey(installed, "verify", folder)
    asked = json.loads(lowkey(installed, "recommend", folder, "--history", str(tmp_path / "mine.csv"), "-n", "1", "--json"))
    assert [str(item) for item in asked["items"]] == ["4"]  # a lead of over 100 votes; the noise has a width of about 5


def test_a_researcher_compares_it_in_the_bench(installed: Path, tmp_path: Path) -> None:
    """The command of docs/add-a-method.md, on a file of one's own."""
    rng, rows = np.random.default_rng(4), ["user,item,rating"]
    for user in range(200):
        rows += [f"{user},{item},{1 + 4 * (item % 2)}" for item in rng.choice(20, 8, replace=False)]
    (tmp_path / "ratings.csv").write_text("\n".join(rows) + "\n")
    columns = ["--user", "user", "--item", "item", "--rating", "rating", "--scale", "0.5", "5"]
    asked = ["--methods", "votes,bias", "--epsilons", "1", "--draws", "1", "--results", str(tmp_path / "rows.jsonl")]
    lowkey(installed, "bench", "--data", str(tmp_path / "ratings.csv"), *columns, *asked, "--no-exact", "--no-bounds")
    found = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["method"] for row in found} == {"votes", "bias"}
    assert all(row["booked_epsilon"] <= 1.0 and 0.0 <= row["recall@20"] <= 1.0 for row in found)
