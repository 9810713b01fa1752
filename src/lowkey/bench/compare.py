"""Lab room: methods side by side: same split, same adjacency, same delta, same accounting; results as JSON lines.

Every row says how its hyper-parameters were chosen: ``defaults`` (public facts and posted numbers only), or the settings
that were given by hand. Rows that a results file already holds are not run again.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lowkey.bench import datasets
from lowkey.evaluation.protocol import evaluate
from lowkey.methods.registry import estimator

Row = dict[str, Any]
SHOWN = ("rmse", "recall@20")  # the measure of ratings, else that of binary feedback


@dataclass(frozen=True)
class Task:
    """One fit: ``epsilon`` is None for a baseline; ``draw`` numbers the repetitions (noise is never seeded)."""

    data: str
    method: str
    epsilon: float | None
    draw: int
    split_seed: int = 0
    delta: float = 1e-5
    adjacency: str = "add-remove"
    settings: dict[str, Any] = field(default_factory=dict)

    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def tasks(
    data: str,
    methods: Sequence[str],
    epsilons: Sequence[float],
    draws: int,
    settings: dict[str, dict[str, Any]] | None = None,
    **shared: Any,
) -> list[Task]:
    """Every method at every epsilon, ``draws`` times; a baseline once."""
    settings = settings or {}
    rows: list[Task] = []
    for method in methods:
        private = estimator(method).private
        for epsilon in epsilons if private else [None]:
            count = draws if private else 1
            rows += [Task(data, method, epsilon, d, settings=settings.get(method, {}), **shared) for d in range(count)]
    return rows


def run(
    todo: Iterable[Task], results: Path | None = None, on_row: Callable[[dict[str, Any]], None] | None = None
) -> list[dict]:
    """Carry out the tasks, one after another; with ``results``, resume from and append to that file."""
    done = {row["key"]: row for row in _read(results)} if results is not None else {}
    rows: list[Row] = []
    for task, split in _with_splits(todo, done):
        row = done.get(task.key()) or _measure(task, split)
        if task.key() not in done and results is not None:
            results.parent.mkdir(parents=True, exist_ok=True)
            with open(results, "a") as file:
                file.write(json.dumps(row) + "\n")
        rows.append(row)
        if on_row is not None:
            on_row(row)
    return rows


def _with_splits(todo: Iterable[Task], done: dict[str, Any]) -> Iterator[tuple[Task, Any]]:
    """Each task with its split, which is made once per data set and only if it is needed."""
    loaded: dict[tuple[str, int], Any] = {}
    for task in todo:
        place = (task.data, task.split_seed)
        if task.key() not in done and place not in loaded:
            loaded = {place: datasets.load(*place)}
        yield task, loaded.get(place)


def _measure(task: Task, split: Any) -> Row:
    kind = estimator(task.method)
    budget = {"epsilon": task.epsilon, "delta": task.delta, "adjacency": task.adjacency} if kind.private else {}
    started = time.perf_counter()
    model = kind(**budget, **task.settings).fit(split.train)
    seconds = time.perf_counter() - started
    return {
        "key": task.key(),
        **asdict(task),
        **evaluate(model, split.histories, split.held_out),
        "booked_epsilon": model.guarantee_.epsilon if kind.private else None,
        "tuning": "given settings" if task.settings else "defaults",
        "fit_seconds": round(seconds, 2),
        "peak_rss_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "version": version("lowkey"),
    }


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Methods down, epsilons across: mean and standard error of the measure. The first row is the header."""
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
    lines = [["data", "method", "measure", *(f"eps {e:g}" for e in epsilons), "non-private", "tuning", "s/fit"]]
    for data, method in dict.fromkeys((row["data"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["data"], row["method"]) == (data, method)]
        measure = next(name for name in SHOWN if name in mine[0])
        cells = [_cell([row[measure] for row in mine if row["epsilon"] == e]) for e in (*epsilons, None)]
        seconds = float(np.mean([row["fit_seconds"] for row in mine]))
        lines.append([data, method, measure, *cells, mine[0]["tuning"], f"{seconds:.1f}"])
    return lines


def _cell(values: list[float]) -> str:
    if not values:
        return "–"
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{error}"


def _read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
