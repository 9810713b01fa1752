"""Lab room: anybody's data: is any default release behind what is trivial?

``python -m lowkey_lab.anyone results.jsonl [--goals ratings,lists] [--data a,b] [--draws 0,1] [--epsilons 1,5]`` fits the
defaults of ``DPRecommender``, with an expected number of users and without one, and prints a table per goal. ``--readme``
prints the README's small table from what the file holds, and runs nothing.

Ratings, by RMSE: beside the *trivial* model (a global mean and a damped own offset), *two ridges* (mean, item effects,
offsets), the non-private ``Bias`` and ``DPBias``; and, of the same releases, Recall@20 beside ``Popularity``. Lists, by
Recall@20 of who took what: beside ``Popularity`` and EASE without noise. *Trivial*, *two ridges* and EASE are
``lowkey_lab.bounds``, tuned on the tested users. A fifth of the users is tested, each with four fifths of the ratings
shown; of a large set a sample of them (``MOST_SCORES``). What the results file holds is not run again. NOT PRIVATE.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey_lab import bounds, sources
from lowkey_lab.datasets import most_rated

RANGES = {
    "ml-100k": (1.0, 5.0),
    "ciaodvd": (1.0, 5.0),
    "rc": (0.0, 2.0),
    "jester5k": (-10.0, 10.0),
    "msweb": None,  # who went where
    "ml-1m": (1.0, 5.0),
    "book-crossing": (1.0, 10.0),
    "jester": (-10.0, 10.0),
}
TOP = {"book-crossing": 20_000}
EPSILONS = (0.5, 1.0, 2.0, 5.0, 20.0)
DELTA, HELD_OUT, FOLD_IN = 1e-5, 0.2, 0.8
MOST_SCORES = 6e7  # tested users times items
BOUNDS = {"ratings": ("trivial", "two ridges", "Bias", "Popularity"), "lists": ("Popularity", "EASE")}
METHODS = {"ratings": ("default", "DPBias"), "lists": ("default",)}
MEASURE = {"ratings": "rmse", "lists": "recall@20"}
SIMPLEST = {
    "ratings": {"trivial": "trivial", "two ridges": "two ridges"},
    "lists": {"Popularity": "popularity", "EASE": "EASE"},
}
README_EPSILONS = (1.0, 5.0, 20.0)


class Task(NamedTuple):
    goal: str
    data: str
    draw: int
    method: str
    epsilon: float | None
    known_crowd: bool


@lru_cache(2)
def rows_of(name: str, goal: str = "ratings") -> Any:
    """Explicit ratings alone (Book-Crossing writes 0 where somebody only had a book); of a repeated pair the last one."""
    table, limits = sources.columns(name), RANGES[name]
    given = table["rating"] >= (-np.inf if limits is None else limits[0])
    pairs = np.stack([table["user"], table["item"]])[:, given][:, ::-1]
    last = np.flatnonzero(given)[::-1][np.unique(pairs, axis=1, return_index=True)[1]]
    rows = sources.as_rows({column: values[last] for column, values in table.items()})
    rows = most_rated(rows, TOP[name]) if name in TOP else rows
    rows = scipy.sparse.csr_array(rows[np.diff(rows.indptr) > 0])
    if goal == "lists":
        rows.data[:] = 1.0
    return rows


@lru_cache(2)
def split_of(name: str, draw: int, goal: str = "ratings", *, known_crowd: bool = True) -> Split:
    rows = rows_of(name, goal)
    users = rows.shape[0] - round(HELD_OUT * rows.shape[0]) if known_crowd else None
    feedback, limits = ("ratings", RANGES[name]) if goal == "ratings" else ("binary", None)
    domain = lk.Domain(rows.shape[1], limits, feedback, expected_users=users)
    split = hold_out_users(lk.Ratings.from_csr(rows, domain), HELD_OUT, FOLD_IN, draw)
    tested = max(1, int(MOST_SCORES / rows.shape[1]))
    return Split(split.train, split.histories[:tested], split.held_out[:tested])


def measured(task: Task) -> dict[str, float]:
    split = split_of(task.data, task.draw, task.goal, known_crowd=task.known_crowd)
    if task.method in bounds.NAMES:
        return bounds.measured(task.method, split)
    if task.method == "default":
        model: Any = lk.DPRecommender(task.epsilon, DELTA, goal=task.goal)
    else:
        kind: Any = getattr(lk, task.method)
        model = kind() if task.epsilon is None else kind(epsilon=task.epsilon, delta=DELTA)
    found = evaluate(model.fit(split.train), split.histories, split.held_out)
    return {name: float(found[name]) for name in ("rmse", "recall@20") if name in found}


def tasks(given: argparse.Namespace) -> Iterator[Task]:
    """One draw of everything after the other: a table of fewer draws is whole, too."""
    epsilons = list(map(float, given.epsilons.split(",")))
    for draw in map(int, given.draws.split(",")):
        for name in given.data.split(","):
            for goal in given.goals.split(","):
                if goal == "ratings" and RANGES[name] is None:
                    continue
                yield from (Task(goal, name, draw, method, None, True) for method in BOUNDS[goal])
                for known in (True, False):
                    yield from (Task(goal, name, draw, m, e, known) for e in epsilons for m in METHODS[goal])


class Table:
    """Means over the draws of which everything is there."""

    def __init__(self, results: dict[str, dict[str, float]], given: argparse.Namespace) -> None:
        self.results, self.draws = results, list(map(int, given.draws.split(",")))
        self.epsilons = list(map(float, given.epsilons.split(",")))

    def values(self, goal: str, name: str, method: str, epsilon: float | None, known: bool, measure: str) -> Any:
        keys = [json.dumps(Task(goal, name, draw, method, epsilon, known)) for draw in self.draws]
        return np.array([self.results.get(key, {}).get(measure, np.nan) for key in keys])

    def lines(self, goal: str, name: str) -> Iterator[str]:
        """Each with the difference to the simplest model of the same draw; of ratings, that of their lists, too."""
        measure, bounds, other = MEASURE[goal], BOUNDS[goal], {"Popularity": "recall@20"}
        of_bounds = {m: self.values(goal, name, m, None, True, other.get(m, measure)) for m in bounds}
        for known in (True, False):
            for epsilon in self.epsilons:
                found = [self.values(goal, name, m, epsilon, known, measure) for m in METHODS[goal]]
                whole = np.isfinite(np.sum([*found, of_bounds[bounds[0]]], axis=0))
                if not whole.any():
                    continue
                cells = [name, "yes" if known else "no", f"{epsilon:g}", str(int(whole.sum()))]
                cells += [f"{np.mean(values[whole]):.4f}" for values in of_bounds.values()]
                gain = np.mean((found[0] - of_bounds[bounds[0]])[whole])
                ceiling = np.mean((of_bounds[bounds[1]] - of_bounds[bounds[0]])[whole])
                better = -ceiling if goal == "ratings" else ceiling
                kept = f"{gain / ceiling:.0%}" if better > 0.005 else ""  # where there is something to gain
                cells += [f"{np.mean(values[whole]):.4f}" for values in found] + [f"{gain:+.4f}", kept]
                if goal == "ratings":
                    lists = self.values(goal, name, "default", epsilon, known, "recall@20")
                    cells += [f"{np.mean((lists - of_bounds['Popularity'])[whole]):+.4f}"]
                yield "| " + " | ".join(cells) + " |"

    def markdown(self, goal: str, names: list[str]) -> Iterator[str]:
        against = "above trivial" if goal == "ratings" else "above popularity"
        columns = ["data", "users expected", "epsilon", "draws", *BOUNDS[goal], *METHODS[goal], against, "gain kept"]
        columns += ["Recall@20 above popularity"] if goal == "ratings" else []
        yield "| " + " | ".join(columns) + " |"
        yield "|" + "---|" * len(columns)
        for name in names:
            if goal == "lists" or RANGES[name] is not None:
                yield from self.lines(goal, name)

    def small(self, goal: str, names: list[str]) -> Iterator[str]:
        """The README's form: a data set a line, the default at three epsilons between the simplest and no noise."""
        measure, simplest = MEASURE[goal], SIMPLEST[goal]
        for name in names:
            cells = [name, {"rmse": "RMSE ↓"}.get(measure, "Recall@20 ↑")]
            for method, called in simplest.items():
                values = self.values(goal, name, method, None, True, measure)
                cells.append(f"{np.nanmean(values):.3f} ({called})" if np.isfinite(values).any() else "–")
            found = [self.values(goal, name, "default", epsilon, True, measure) for epsilon in README_EPSILONS]
            if any(np.isfinite(values).any() for values in found):
                yield "| " + " | ".join([*cells, *(f"{np.nanmean(values):.3f}" for values in found)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--goals", default="ratings,lists")
    parser.add_argument("--data", default=",".join(RANGES))
    parser.add_argument("--draws", default="0,1,2,3,4")
    parser.add_argument("--epsilons", default=",".join(f"{e:g}" for e in EPSILONS))
    parser.add_argument("--readme", action="store_true")
    given = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    if given.results.exists():
        results = dict(map(json.loads, given.results.read_text("utf-8").splitlines()))
    if given.readme:
        print("| data | measure | simplest | without noise | " + " | ".join(f"ε = {e:g}" for e in README_EPSILONS) + " |")
        print("|" + "---|" * (4 + len(README_EPSILONS)))
        for goal in given.goals.split(","):
            print("\n".join(Table(results, given).small(goal, given.data.split(","))))
        return
    for task in tasks(given):
        key = json.dumps(task)
        if key not in results:
            results[key] = measured(task)
            with given.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, results[key]]) + "\n")
    for goal in given.goals.split(","):
        print(f"\n{goal}: {MEASURE[goal]}\n")
        print("\n".join(Table(results, given).markdown(goal, given.data.split(","))))


if __name__ == "__main__":
    main()
