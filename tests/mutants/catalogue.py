"""The catalogue of mutants: small privacy bugs, each a text in a file that is exchanged for another.

Where a bound is held twice (a clip, and a second look at what is added), only both deletions are a bug: ``also``.

One TOML file per class of bug stands in ``bugs/``. A mutant is found by its old text and not by a line number, so it lives
through changes around it. Where that text is no longer there exactly once, the mutant is stale: the bug may still be
possible, but nobody checks any more that a test would see it. So a stale mutant is an error, and is to be written anew.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

BUGS = Path(__file__).parent / "bugs"
PACKAGE = Path("src/lowkey")


class Stale(Exception):
    """A mutant that no longer fits the tree."""


@dataclass(frozen=True)
class Mutant:
    name: str
    kind: str  # the class of bug: the name of the TOML file
    bug: str  # in one sentence
    file: Path  # relative to the root of the tree
    old: str
    new: str
    tests: tuple[str, ...]  # what is tried first: files, or nodes of pytest
    also: tuple[tuple[Path, str, str], ...] = ()  # more exchanges of the same bug: file, old and new text

    def mutated(self, root: Path) -> dict[Path, str]:
        """The texts of the files with the bug in them."""
        texts: dict[Path, str] = {}
        for file, old, new in ((self.file, self.old, self.new), *self.also):
            if not (root / file).is_file():
                raise Stale(f"{self.name}: there is no {file}")
            text = texts[file] if file in texts else (root / file).read_text("utf-8")
            if (count := text.count(old)) != 1:
                raise Stale(f"{self.name}: its old text occurs {count} times in {file}, not once")
            texts[file] = text.replace(old, new)
        return texts

    def check(self, root: Path) -> None:
        """Raise ``Stale`` unless the mutant applies, is Python, and its tests are there."""
        for file, text in self.mutated(root).items():
            try:
                compile(text, str(file), "exec")
            except SyntaxError:
                raise Stale(f"{self.name}: with its new text {file} is no Python") from None
        for test in self.tests:
            file, _, name = test.partition("::")
            if not (root / file).is_file():
                raise Stale(f"{self.name}: there is no {file}")
            if name and f"def {name.partition('[')[0]}(" not in (root / file).read_text("utf-8"):
                raise Stale(f"{self.name}: {file} has no {name}")


def load(folder: Path = BUGS) -> list[Mutant]:
    """All mutants, class by class."""
    found: list[Mutant] = []
    for file in sorted(folder.glob("*.toml")):
        for fields in tomllib.loads(file.read_text("utf-8"))["mutant"]:
            more = [
                (_located(part.get("file", fields["file"])), part["old"], part["new"]) for part in fields.pop("also", ())
            ]
            fields["file"], fields["tests"] = _located(fields["file"]), tuple(fields["tests"])
            mutant = Mutant(kind=file.stem, also=tuple(more), **fields)
            if mutant.old == mutant.new or not mutant.tests:
                raise ValueError(f"{mutant.name} changes nothing, or names no test")
            found.append(mutant)
    names = [mutant.name for mutant in found]
    if len(set(names)) < len(names):
        raise ValueError(f"a name occurs twice: {sorted(name for name in set(names) if names.count(name) > 1)}")
    return found


def _located(file: str) -> Path:
    """A file of the package, or, where its name says so, of the laboratory."""
    return Path(file) if file.startswith("lab/") else PACKAGE / file
