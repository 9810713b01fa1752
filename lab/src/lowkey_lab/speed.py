"""Lab room: one protocol for speed: what one more iteration takes on the clock, peers in turn, and one table of it all.

A fit of n iterations less a fit of one, over n - 1: neither side pays for reading, compiling or starting. Each is the best
of several, taken in turn, so that a busy moment is not one side's alone. Every script of `benchmarks/speed` that has a
target tells it here; with `LOWKEY_BENCH` set to a file, `python -m lowkey_lab.speed FILE` prints the table at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = "LOWKEY_BENCH"


def clocked(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def in_turn(works: dict[str, Callable[[], Any]], repeats: int = 3) -> dict[str, float]:
    """Seconds on the clock, the best of ``repeats``, one after the other each time."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            found[name].append(clocked(work))
    return {name: min(seconds) for name, seconds in found.items()}


def per_iteration(fits: dict[str, Callable[[int], Any]], n_iter: int = 3, repeats: int = 3) -> dict[str, float]:
    """Seconds that one more iteration takes: (``n_iter`` iterations - 1)/(``n_iter`` - 1)."""
    works = {(name, n): lambda fit=fit, n=n: fit(n) for name, fit in fits.items() for n in (1, n_iter)}
    best = in_turn({str(key): work for key, work in works.items()}, repeats)
    return {name: (best[str((name, n_iter))] - best[str((name, 1))]) / (n_iter - 1) for name in fits}


def told(what: str, found: float, target: float, at_least: bool = False) -> bool:
    """A figure and its target: printed now, and in the table at the end."""
    met = found >= target if at_least else found <= target
    row = {"what": what, "found": found, "target": target, "at_least": at_least, "load": os.getloadavg()[0]}
    print(_line(row), flush=True)
    if file := os.environ.get(FILE):
        with Path(file).open("a") as rows:
            rows.write(json.dumps(row) + "\n")
    return met


def _line(row: dict[str, Any]) -> str:
    word = "at least" if row["at_least"] else "at most"
    met = row["found"] >= row["target"] if row["at_least"] else row["found"] <= row["target"]
    answer = "met" if met else "missed"
    return f"| {row['what']} | {row['found']:.2f} | {word} {row['target']:g} | {answer} | {row['load']:.1f} |"


def table(file: Path) -> str:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    head = ["| ratio on the clock, equal threads | found | target | | load of the machine |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(_line, rows)])


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
