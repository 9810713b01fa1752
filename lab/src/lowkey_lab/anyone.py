"""Lab room: ratings on data that no default was set on: is any release behind what is trivial?

``python -m lowkey_lab.anyone [--data a,b] [--draws 1,2] [--epsilons 1,5] [--unknown] results.jsonl`` prints one row per
data set and epsilon: the *trivial* model (a global mean and a damped own offset), *two ridges* (mean, item effects and
offsets; both ridges chosen on the tested users: a bound, not a method), ``Bias``, and the private methods, all as RMSE on
the same held-out users. What the results file holds is not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey_lab import sources
from lowkey_lab.datasets import most_rated

RANGES = {
    "ciaodvd": (1.0, 5.0),
    "ml-100k": (1.0, 5.0),
    "jester5k": (-10.0, 10.0),
    "book-crossing": (1.0, 10.0),
    "ml-1m": (1.0, 5.0),
}
TOP = {"book-crossing": 20_000}
EPSILONS = (0.5, 1.0, 2.0, 5.0, 20.0)
METHODS = ("DPBias", "DPFactors")
REGS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 15.0)
TURNS = 6  # of items and users in the two-ridge fit
DELTA, HELD_OUT, FOLD_IN = 1e-5, 0.1, 0.8


def rows_of(name: str) -> Any:
    """Explicit ratings alone (Book-Crossing writes 0 where somebody only had a book); of a repeated pair the last one."""
    table = sources.columns(name)
    given = table["rating"] >= RANGES[name][0]
    pairs = np.stack([table["user"], table["item"]])[:, given][:, ::-1]
    last = np.flatnonzero(given)[::-1][np.unique(pairs, axis=1, return_index=True)[1]]
    rows = sources.as_rows({column: values[last] for column, values in table.items()})
    rows = most_rated(rows, TOP[name]) if name in TOP else rows
    return scipy.sparse.csr_array(rows[np.diff(rows.indptr) > 0])


def split_of(name: str, draw: int, *, known_crowd: bool) -> Split:
    rows = rows_of(name)
    users = round((1.0 - HELD_OUT) * rows.shape[0]) if known_crowd else None
    domain = lk.Domain(rows.shape[1], RANGES[name], expected_users=users)
    return hold_out_users(lk.Ratings.from_csr(rows, domain), HELD_OUT, FOLD_IN, draw)


def owners(rows: Any) -> Any:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def rmse(prior: Any, offset_reg: float, split: Split, limits: tuple[float, float]) -> float:
    """Of prior + own damped offset."""
    history, held = split.histories, split.held_out
    rest = np.bincount(owners(history), history.data - prior[history.indices], history.shape[0])
    offsets = rest / (np.diff(history.indptr) + offset_reg)
    guess = np.clip(prior[held.indices] + offsets[owners(held)], *limits)
    return float(np.sqrt(np.mean((guess - held.data) ** 2)))


def trivial(split: Split, limits: tuple[float, float]) -> float:
    train: Any = split.train._open_csr()
    prior = np.full(train.shape[1], float(train.data.mean()))
    return min(rmse(prior, reg, split, limits) for reg in REGS)


def two_ridges(split: Split, limits: tuple[float, float]) -> float:
    train: Any = split.train._open_csr()
    who, lengths = owners(train), np.diff(train.indptr)
    counts, center = np.bincount(train.indices, minlength=train.shape[1]), float(train.data.mean())
    found = []
    for offset_reg in REGS:
        for item_reg in REGS:
            effects = np.zeros(train.shape[1])
            for _ in range(TURNS):
                rest = train.data - center - effects[train.indices]
                offsets = np.bincount(who, rest, len(lengths)) / (lengths + offset_reg)
                rest = train.data - center - offsets[who]
                effects = np.bincount(train.indices, rest, len(counts)) / (counts + item_reg)
            found.append(rmse(center + effects, offset_reg, split, limits))
    return min(found)


def measured(name: str, draw: int, method: str, epsilon: float | None, known_crowd: bool) -> float:
    split = split_of(name, draw, known_crowd=known_crowd)
    if method in ("trivial", "two ridges"):
        return (trivial if method == "trivial" else two_ridges)(split, RANGES[name])
    make = getattr(lk, method)
    model = (make() if epsilon is None else make(epsilon=epsilon, delta=DELTA)).fit(split.train)
    return float(evaluate(model, split.histories, split.held_out)["rmse"])


def tasks(arguments: argparse.Namespace) -> Iterator[tuple[str, int, str, float | None, bool]]:
    for name in arguments.data.split(","):
        for draw in map(int, arguments.draws.split(",")):
            yield from ((name, draw, method, None, True) for method in ("trivial", "two ridges", "Bias"))
            for epsilon in map(float, arguments.epsilons.split(",")):
                yield from ((name, draw, method, epsilon, not arguments.unknown) for method in arguments.methods.split(","))


def table(results: dict[str, float], arguments: argparse.Namespace) -> Iterator[str]:
    """Means over draws; of private methods also how far they are above the trivial model of the same draw."""
    draws = list(map(int, arguments.draws.split(",")))

    def mean(*task: Any) -> tuple[float, float]:
        name, method, epsilon, known = task
        values = np.array([results.get(json.dumps([name, d, method, epsilon, known]), np.nan) for d in draws])
        base = np.array([results.get(json.dumps([name, d, "trivial", None, True]), np.nan) for d in draws])
        return float(np.mean(values)), float(np.mean(values - base))

    for name in arguments.data.split(","):
        fixed = [f"{method} {mean(name, method, None, True)[0]:.4f}" for method in ("trivial", "two ridges", "Bias")]
        yield f"{name}: " + ", ".join(fixed)
        for epsilon in map(float, arguments.epsilons.split(",")):
            found = [(m, *mean(name, m, epsilon, not arguments.unknown)) for m in arguments.methods.split(",")]
            yield f"  epsilon {epsilon:g}: " + ", ".join(f"{m} {value:.4f} ({above:+.4f})" for m, value, above in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--data", default=",".join(RANGES))
    parser.add_argument("--draws", default="101,102,103")
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--unknown", action="store_true", help="do not say how many users to expect")
    arguments = parser.parse_args()
    results: dict[str, float] = {}
    if arguments.results.exists():
        results = dict(map(json.loads, arguments.results.read_text("utf-8").splitlines()))
    for task in tasks(arguments):
        key = json.dumps(list(task))
        if key not in results:
            results[key] = measured(*task)
            with arguments.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, results[key]]) + "\n")
    print("\n".join(table(results, arguments)))


if __name__ == "__main__":
    main()
