"""Lab room: methods side by side: same split, same adjacency, same delta, same accounting; results as JSON lines.

Every row says how its hyper-parameters were chosen (``tuning``). Rows that a results file already holds are not
run again. Every fit has a process of its own, so that time and memory are its own; several run at once with ``jobs``.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.evaluation.protocol import evaluate, exact_twin
from lowkey.evaluation.splits import Split
from lowkey.methods.registry import estimator
from lowkey_lab import bounds, datasets, processes, sources, tuning
from lowkey_lab.private_selection import select_privately
from lowkey_lab.variants import varied

Row = dict[str, Any]
SHOWN = ("rmse", "recall@20")  # the measure of ratings, else that of binary feedback
NO_NOISE = 1e5  # the epsilon that an exact twin is told, so that defaults which follow the noise level expect none
SLICES = ("most popular third", "middle third", "least popular third")  # of the ratings, not of the items
LIBRARIES = ("lowkey", "numpy", "scipy", "numba", "dp-accounting")


@dataclass(frozen=True)
class Task:
    """One fit; ``draw`` numbers the repetitions (noise is never seeded). No ``epsilon``: a baseline or an exact twin."""

    data: str
    method: str
    epsilon: float | None
    draw: int
    split_seed: int = 0
    delta: float = 1e-5
    adjacency: str = "add-remove"
    settings: dict[str, Any] = field(default_factory=dict)  # parameters, and fields of the resolved ones (``variants``)
    tuning: str = tuning.DEFAULTS
    file: datasets.File | None = None  # how to read ``data``, where it is a file

    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def tasks(
    data: str,
    methods: Sequence[str],
    epsilons: Sequence[float],
    draws: int,
    settings: dict[str, dict[str, Any]] | None = None,
    exact: bool = False,
    **shared: Any,
) -> list[Task]:
    """Every method at every epsilon, ``draws`` times; a baseline once. Oracle tuning: every candidate of a method.

    ``exact`` adds every private method without noise, once: how good it could be.
    """
    oracle = shared.get("tuning") == tuning.ORACLE
    rows: list[Task] = []
    for method in methods:
        if method in bounds.NAMES:
            rows.append(Task(data, method, None, 0, **{**shared, "tuning": tuning.BOUND}))
            continue
        private = estimator(method).private
        given = (settings or {}).get(method, {})
        candidates = tuning.candidates(method) if oracle else [given]
        for epsilon in [*epsilons, *([None] if exact else [])] if private else [None]:
            for chosen in candidates:
                rows += [
                    Task(data, method, epsilon, draw, **{"settings": chosen, **shared, **_stated(epsilon, given, shared)})
                    for draw in range(1 if epsilon is None else draws)
                ]
    return rows


def _stated(epsilon: float | None, given: dict[str, Any], shared: dict[str, Any]) -> dict[str, Any]:
    """What has no noise is never selected privately; settings given by hand are called so."""
    if given:
        return {"tuning": tuning.GIVEN}
    return {} if epsilon is not None or shared.get("tuning") != tuning.SELECTION else {"tuning": tuning.DEFAULTS}


def run(
    todo: Iterable[Task],
    results: Path | None = None,
    on_row: Callable[[Row], None] | None = None,
    jobs: int = 1,
) -> list[Row]:
    """Carry out the tasks; with ``results``, resume from and append to that file. Rows come in the order of the tasks."""
    todo = list(todo)
    done = {row["key"]: row for row in read(results)} if results is not None else {}
    for place, group in groupby(todo, key=lambda task: (task.data, task.split_seed, task.file)):
        missing: list[Task] = []
        for task in group:
            if task.key() not in done:
                missing.append(task)
            elif on_row is not None:
                on_row(done[task.key()])
        if not missing:
            continue
        split = datasets.load(*place)  # once per data set, and only if it is needed
        slices = popularity_slices(split)
        measure: Callable[[Task], Row] = lambda task, split=split, slices=slices: _measure(task, split, slices)
        for task, row in processes.each(measure, missing, jobs):
            done[task.key()] = row
            if results is not None:
                _append(results, row)
            if on_row is not None:
                on_row(row)
    return [done[task.key()] for task in todo]


def popularity_slices(split: Split) -> dict[str, np.ndarray]:
    """Items by their number of training ratings, in three sets that hold a third of these ratings each."""
    train: Any = split.train._open_csr()
    counts = np.bincount(train.indices, minlength=train.shape[1])
    order = np.argsort(-counts, kind="stable")
    before = np.empty(len(counts))
    before[order] = np.concatenate([[0], np.cumsum(counts[order])[:-1]])
    third = np.minimum(3.0 * before / max(counts.sum(), 1), 2.0).astype(int)
    return {name: third == at for at, name in enumerate(SLICES)}


def _measure(task: Task, split: Split, slices: dict[str, np.ndarray]) -> Row:
    """One fit and its figures; in a process of its own."""
    if task.method in bounds.NAMES:
        return _bound(task, split)
    kind, epsilon = estimator(task.method), task.epsilon
    if kind.private and epsilon is None:
        kind, epsilon = exact_twin(kind), NO_NOISE
    budget = {"epsilon": epsilon, "delta": task.delta, "adjacency": task.adjacency} if epsilon is not None else {}
    row: Row = {"key": task.key(), **asdict(task), "data_file": _data_file(task.data), **_environment()}
    try:
        _warm_up(kind, budget, task.settings, split.train.domain.feedback)
        processes.forget_peak()
        before, started, ran = processes.peak_memory(), time.perf_counter(), time.process_time()
        if task.tuning == tuning.SELECTION:
            model, more = select_privately(kind, task.method, budget, split)
        else:
            model, more = varied(kind, **budget, **task.settings).fit(split.train), {}
    except InputError as error:  # a method that does not take this kind of feedback
        return {**row, "refused": str(error)}
    seconds, spent = time.perf_counter() - started, time.process_time() - ran
    memory = processes.peak_memory()
    return {
        **row,
        **more,
        **evaluate(model, split.histories, split.held_out, k=min(20, split.histories.shape[1]), slices=slices),
        "booked_epsilon": more.get("booked_epsilon", model.guarantee_.epsilon) if task.epsilon is not None else None,
        "how_tuned": tuning.statement(task.method, task.tuning),
        "fit_seconds": round(seconds, 3),
        "cpu_seconds": round(spent, 3),  # of all threads; unlike the former, hardly touched by what else is running
        "fit_memory_gb": round((memory - before) / 2**30, 3),  # beyond the data, which were there before
        "peak_memory_gb": round(memory / 2**30, 3),
    }


def _bound(task: Task, split: Split) -> Row:
    row: Row = {"key": task.key(), **asdict(task), "data_file": _data_file(task.data), **_environment()}
    ran = time.process_time()
    found = bounds.measured(task.method, split)
    if not found:
        return {**row, "refused": "a bound of another measure, or the catalogue is too large for it"}
    how = tuning.STATEMENTS[tuning.BOUND]
    return {**row, **found, "how_tuned": how, "cpu_seconds": round(time.process_time() - ran, 3)}


def _warm_up(kind: Any, budget: dict[str, Any], settings: dict[str, Any], feedback: str) -> None:
    """A tiny fit, so that loading compiled code is not in the time."""
    varied(kind, **budget, **settings).fit(taste(300, 50, 10.0, feedback=feedback).ratings())


def _data_file(name: str) -> str:
    source = datasets.source_of(name)
    return "made up" if source is None and name in datasets.DATASETS else "a file" if source is None else _checked(source)


@cache
def _checked(source: str) -> str:
    return sources.checksum(source)


@cache
def _environment() -> Row:
    versions = {name: version(name) for name in LIBRARIES} | {"python": platform.python_version()}
    return {"versions": versions, "threads": int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))}


def _append(results: Path, row: Row) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    with open(results, "ab+") as file:
        if file.tell() and not _ends_a_line(file):
            file.write(b"\n")  # an interruption cut the last row off
        file.write(json.dumps(row).encode() + b"\n")


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def read(*paths: Path) -> list[Row]:
    """The rows of results files, the last of each key; a line that was cut off by an interruption is left out."""
    rows: dict[str, Row] = {}
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else []:
            with suppress(json.JSONDecodeError):
                row = json.loads(line)
                rows[row["key"]] = row
    return list(rows.values())
