"""requirements.lock: every pin of requirements.txt with the sha256 of all its files, as the package index states them.

`make lock` after a change of requirements.txt. pip then installs these files and no others (`--require-hashes`).
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from urllib.parse import unquote
from urllib.request import urlopen

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version
from pip._internal.models.index import PyPI

PINS, LOCK = Path("requirements.txt"), Path("requirements.lock")
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


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        entries = list(pool.map(entry, pins()))
    LOCK.write_text("# Made by `make lock` from requirements.txt: change that.\n" + "\n".join(entries) + "\n")
    print(f"{LOCK}: {len(entries)} packages")
