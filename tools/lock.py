"""requirements.lock: every pin of requirements.txt with the sha256 of all its files, as the package index states them; and
requirements-demo.lock: those of them that `pip install .` brings, and what builds it.

`make lock` after a change of requirements.txt. pip then installs these files and no others (`--require-hashes`).
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from importlib.metadata import requires
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version
from pip._internal.models.index import PyPI

PINS, LOCK, DEMO = Path("requirements.txt"), Path("requirements.lock"), Path("requirements-demo.lock")
BUILDS = ("hatchling", "editables")  # the second: a folder that is installed as it stands
INDEX = os.environ.get("PIP_INDEX_URL", PyPI.simple_url).rstrip("/")
FILE = re.compile(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]{64})"')


def pins() -> list[tuple[str, str]]:
    lines = [line.split("#")[0].strip() for line in PINS.read_text().splitlines()]
    return [tuple(line.split("==")) for line in lines if line]  # type: ignore[misc]


def version_of(file: str) -> Version | None:
    try:
        return parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def entry(pin: tuple[str, str]) -> str:
    name, version = pin
    with urlopen(f"{INDEX}/{canonicalize_name(name)}/", timeout=60) as page:
        files = FILE.findall(unescape(page.read().decode()))
    hashes = sorted({digest for file, digest in files if version_of(unquote(file)) == Version(version)})
    if not hashes:
        sys.exit(f"no file of {name} {version} on the index")
    return " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in hashes)])


def needed() -> set[str]:
    """What lowkey needs to run and to be built, and what that needs, of the packages installed here."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    found: set[str] = set()
    waiting = [*project["dependencies"], *BUILDS]
    while waiting:
        asked = Requirement(waiting.pop())
        name = canonicalize_name(asked.name)
        if name not in found and (asked.marker is None or asked.marker.evaluate({"extra": ""})):
            found.add(name)
            waiting += requires(name) or []
    return found


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        entries = list(pool.map(entry, pins()))
    wanted = needed()
    few = [one for one in entries if canonicalize_name(one.partition("==")[0]) in wanted]
    for file, listed in ((LOCK, entries), (DEMO, few)):
        file.write_text("# Made by `make lock` from requirements.txt: change that.\n" + "\n".join(listed) + "\n")
        print(f"{file}: {len(listed)} packages")
