"""The catalogue of mutants: small privacy bugs, each a text in one file that is exchanged for another.

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

    def mutated(self, root: Path) -> str:
        """The text of the file with the bug in it."""
        path = root / self.file
        if not path.is_file():
            raise Stale(f"{self.name}: there is no {self.file}")
        text = path.read_text("utf-8")
        if (count := text.count(self.old)) != 1:
            raise Stale(f"{self.name}: its old text occurs {count} times in {self.file}, not once")
        return text.replace(self.old, self.new)

    def check(self, root: Path) -> None:
        """Raise ``Stale`` unless the mutant applies, is Python, and its tests are there."""
        try:
            compile(self.mutated(root), str(self.file), "exec")
        except SyntaxError:
            raise Stale(f"{self.name}: with its new text {self.file} is no Python") from None
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
            fields["file"], fields["tests"] = PACKAGE / fields["file"], tuple(fields["tests"])
            mutant = Mutant(kind=file.stem, **fields)
            if mutant.old == mutant.new or not mutant.tests:
                raise ValueError(f"{mutant.name} changes nothing, or names no test")
            found.append(mutant)
    names = [mutant.name for mutant in found]
    if len(set(names)) < len(names):
        raise ValueError(f"a name occurs twice: {sorted(name for name in set(names) if names.count(name) > 1)}")
    return found
