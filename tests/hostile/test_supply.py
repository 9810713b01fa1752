"""What is installed, what it consists of and what is built: pinned by hashes, listed, and the same bit by bit."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def test_the_lock_has_every_pin_and_its_hashes() -> None:
    """`make lock` makes it anew."""
    pins = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line and line[0] != "#"]
    entries = (ROOT / "requirements.lock").read_text().replace("\\\n", "").splitlines()[1:]
    assert [entry.split()[0] for entry in entries] == pins
    for entry in entries:
        assert re.fullmatch(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+", entry), entry.split()[0]


def test_make_installs_nothing_else() -> None:
    installs = re.findall(r"pip install (.*)", (ROOT / "Makefile").read_text())
    assert len(installs) == 4  # for the demo, and for everything
    assert all("--require-hashes" in install for install in installs[::2])
    assert all("--no-deps --no-build-isolation" in install for install in installs[1::2])  # what builds is pinned too


def test_the_demo_installs_what_an_installed_lowkey_needs_and_little_else() -> None:
    read = lambda name: (ROOT / name).read_text().replace("\\\n", "").splitlines()[1:]
    demo = read("requirements-demo.lock")
    assert set(demo) <= set(read("requirements.lock"))
    names = {canonicalize_name(entry.partition("==")[0]) for entry in demo}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {canonicalize_name(Requirement(text).name) for text in wanted} | {"llvmlite", "hatchling", "editables"} <= names
    assert not names & {"matplotlib", "pyspark", "pytest", "pandas", "polars", "duckdb", "mkdocs"}


def test_the_bill_of_materials_has_everything_that_is_needed_to_run() -> None:
    made = [subprocess.run([sys.executable, "tools/sbom.py"], cwd=ROOT, capture_output=True, check=True) for _ in range(2)]
    bill = json.loads(made[0].stdout)
    assert made[0].stdout == made[1].stdout
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    named = {component["name"]: component for component in bill["components"]}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {canonicalize_name(Requirement(text).name) for text in wanted} <= set(named)
    assert "llvmlite" in named  # what numba stands on
    assert all(component["hashes"] and component["purl"] == component["bom-ref"] for component in named.values())
    references = {component["bom-ref"] for component in [*bill["components"], bill["metadata"]["component"]]}
    assert {other for entry in bill["dependencies"] for other in [entry["ref"], *entry["dependsOn"]]} == references


def test_a_wheel_is_the_same_bit_by_bit(tmp_path: Path) -> None:
    """From two copies of the tree, in places, with times and modes of their own."""
    digests = set()
    for at, name in enumerate(("one", "another/place")):
        copy = tmp_path / name
        shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, copy / file)
        for path in copy.rglob("*"):
            os.utime(path, (1e9 + at, 1e9 + at))
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "TZ": ("UTC", "Asia/Tokyo")[at]}
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=copy, env=environment, check=True)
        (wheel,) = (copy / "dist").glob("*.whl")
        digests.add((wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest()))
    assert len(digests) == 1
