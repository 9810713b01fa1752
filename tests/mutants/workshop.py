"""Where mutants are tried: a clean copy of the tree, and for each mutant a clone of it with one file exchanged.

A clone is made of hard links, so it costs milliseconds, keeps every file's time, and with that numba's compiled code, which
is kept beside the sources and goes by their time and size. Numba does not see that a function which was compiled *into*
another one has changed, in another file; ``users_of`` finds those files, and their compiled code is left out of the clone.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from catalogue import PACKAGE, Mutant

PARTS = ("src", "lab", "tests", "conftest.py", "pyproject.toml")
LEFT_OUT = ("mutants", ".pytest_cache", ".hypothesis")
SOURCES = PACKAGE.parent
TEST_FAILED, ALL_PASSED = 1, 0


@dataclass(frozen=True)
class Outcome:
    """What a run of tests said: the first test that failed, if one did."""

    failed: str | None
    words: str  # of that test's failure
    seconds: float


class NoVerdict(Exception):
    """Tests could not be run at all: nothing is known about the mutant."""


class Workshop:
    """A clean copy of ``root``, which goes when the workshop is closed."""

    def __init__(self, root: Path, time_limit: float = 900.0) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="lowkey-mutants-")
        self.clean, self.time_limit = Path(self._folder.name) / "clean", time_limit
        self.clean.mkdir()
        for part in PARTS:
            source, target = root / part, self.clean / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
            elif source.is_file():
                shutil.copy2(source, target)
        self._running: set[subprocess.Popen[str]] = set()

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def stop(self) -> None:
        """End the tests that run, with all that they have started."""
        for process in list(self._running):
            _end(process)

    @contextmanager
    def clone(self, mutant: Mutant) -> Iterator[Path]:
        """The tree with this bug, for a while."""
        texts, tree = mutant.mutated(self.clean), Path(self._folder.name) / mutant.name
        shutil.copytree(self.clean, tree, copy_function=os.link)
        try:
            for changed, text in texts.items():
                (tree / changed).unlink()  # and not written over: the clean copy has the same file
                (tree / changed).write_text(text, "utf-8")
                for file in users_of(self.clean, changed):
                    for compiled in (tree / file).parent.glob(f"__pycache__/{file.stem}.*"):
                        compiled.unlink()
            yield tree
        finally:
            shutil.rmtree(tree, ignore_errors=True)  # the workshop's folder goes as a whole

    def run(self, tree: Path, tests: tuple[str, ...]) -> Outcome:
        """Run tests in a process of their own, up to the first that fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=no", *tests]
        path = os.pathsep.join(str(tree / part) for part in ("src", "lab/src"))
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "1000"}
        begin = time.monotonic()
        outputs: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        process = subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True, **outputs)
        self._running.add(process)
        try:
            said, _ = process.communicate(timeout=self.time_limit)
        except subprocess.TimeoutExpired:
            raise NoVerdict(f"the tests took more than {self.time_limit:.0f} s") from None
        finally:
            _end(process)
            self._running.discard(process)
        seconds = time.monotonic() - begin
        if process.returncode == ALL_PASSED:
            return Outcome(None, "", seconds)
        failures = re.findall(r"^(?:FAILED|ERROR) (\S+?::.+?)(?: - (.*))?$", said, re.MULTILINE)
        if process.returncode != TEST_FAILED or not failures:
            raise NoVerdict(f"pytest ended with {process.returncode}: {said[-1500:]}")
        return Outcome(failures[0][0], failures[0][1], seconds)


def _end(process: subprocess.Popen[str]) -> None:
    """The process and its children, which are a group of their own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def users_of(root: Path, file: Path) -> set[Path]:
    """The file, and those whose compiled functions use a name from it, directly or through others."""
    if not file.is_relative_to(PACKAGE):  # the laboratory: nothing of the package uses it
        return {file}
    uses = _compiled_uses(root)
    found, new = {file}, {file}
    while new:
        modules = {".".join(path.relative_to(SOURCES).with_suffix("").parts) for path in new}
        new = {path for path, needed in uses.items() if needed & modules} - found
        found |= new
    return found


@cache
def _compiled_uses(root: Path) -> dict[Path, set[str]]:
    return {path.relative_to(root): _compiled_imports(path.read_text("utf-8")) for path in (root / PACKAGE).rglob("*.py")}


def _compiled_imports(text: str) -> set[str]:
    """The modules from which a module takes names that stand in code compiled by numba."""
    if "numba" not in text:
        return set()
    tree = ast.parse(text)
    compiled = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_compiled(node)]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and "njit" in ast.unparse(node.func)]
    names = {name.id for part in (*compiled, *calls) for name in ast.walk(part) if isinstance(name, ast.Name)}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {str(node.module) for node in imports if any((alias.asname or alias.name) in names for alias in node.names)}


def _is_compiled(function: ast.FunctionDef) -> bool:
    return any("njit" in ast.unparse(d) or "_compiled" in ast.unparse(d) for d in function.decorator_list)
