"""Lab room: an experiment as cells that are measured in repeated draws, and resumed where a file already holds them.

A cell says in which column it stands (the paper as printed, as printed with exact accounting, or ours), which algorithm
makes it, and its facts. A row is one draw of a cell, with its seconds, the versions and the commit that made it.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import lowkey as lk

Row = dict[str, Any]
PRINTED, EXACT, OURS = "as printed", "exact accounting", "ours"
COLUMNS = (PRINTED, EXACT, OURS)


@dataclass(frozen=True)
class Cell:
    """``column``, the ``algorithm`` in words, and facts that JSON can hold."""

    column: str
    algorithm: str
    facts: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, column: str, algorithm: str, **facts: Any) -> Cell:
        return cls(column, algorithm, tuple(sorted(facts.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.facts)[name]

    def key(self, seed: int) -> str:
        return json.dumps([self.column, self.algorithm, dict(self.facts), seed], sort_keys=True)


class Draws(NamedTuple):
    """The rows of an experiment, asked for by what they are."""

    rows: Sequence[Row]

    def of(self, measure: str, **wanted: Any) -> list[float]:
        """The values in the order of their seeds: of equal data, where two cells have the same facts of it."""
        at = lambda row, name: row[name] if name in ("column", "algorithm") else row["facts"].get(name)
        found = [row for row in self.rows if all(at(row, name) == value for name, value in wanted.items())]
        if not found:
            raise LookupError(f"no rows with {wanted}")
        return [row["values"][measure] for row in sorted(found, key=lambda row: row["seed"])]

    def facts(self, name: str) -> list[Any]:
        """All values that a fact takes, sorted."""
        return sorted({row["facts"][name] for row in self.rows if name in row["facts"]})


def run(
    cells: Iterable[Cell],
    measure: Callable[[Cell, int], dict[str, float]],
    draws: int,
    results: Path | None = None,
    told: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Every cell in ``draws`` draws; seed k is the same data for all cells. What ``results`` holds is not run again."""
    kept = [json.loads(line) for line in results.read_text().splitlines()] if results and results.exists() else []
    done = {row["key"]: row for row in kept}
    rows: list[Row] = []
    for seed in range(draws):
        for cell in cells:
            key = cell.key(seed)
            if key not in done:
                done[key] = _measured(cell, seed, measure)
                if results:
                    results.parent.mkdir(parents=True, exist_ok=True)
                    with open(results, "a") as file:
                        file.write(json.dumps(done[key]) + "\n")
            rows.append(done[key])
            told(done[key])
    return rows


def _measured(cell: Cell, seed: int, measure: Callable[[Cell, int], dict[str, float]]) -> Row:
    began = time.perf_counter()
    values = measure(cell, seed)
    spent = round(time.perf_counter() - began, 2)
    what = {"column": cell.column, "algorithm": cell.algorithm, "facts": dict(cell.facts), "seed": seed}
    return {"key": cell.key(seed), **what, "values": values, "seconds": spent, **made_with()}


@cache
def made_with() -> dict[str, str]:
    """The versions, and the commit where there is a repository."""
    answer = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return {"versions": f"lowkey {lk.__version__}, numpy {np.__version__}", "commit": answer.stdout.strip() or "unknown"}
