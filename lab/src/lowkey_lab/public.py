"""Lab room: what public ratings and item features give, and that useless ones cost nothing.

``python -m lowkey_lab.public [--tables ratings,bench,lists,moments,harmless,new] [--draws 1,2] results.jsonl`` prints means
over draws, by the protocol of ``lowkey_lab.anyone``; fits of a draw have the same noise, so that differences are those of
what is public. ``bench`` is MovieLens-1M by the one split of ``lowkey bench``: its draws are those of noise and sources.
What the results file holds is not run again. Methods were tuned on other draws of MovieLens-1M (201 to 203) than those
printed by default.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey_lab import sources
from lowkey_lab.anyone import DELTA, RANGES, rows_of, split_of
from lowkey_lab.bounds import owners
from lowkey_lab.datasets import load

SHARE = 0.1  # of the training users who give their ratings openly, and of the films that are new
EPSILONS = (1.0, 5.0)
SOURCES = {
    "ml-1m": ("none", "features", "crossed", "ml-100k", "ml-100k+features", "tenth", "tenth+features"),
    "ml-100k": ("none", "features"),
    "ciaodvd": ("none", "tenth"),
    "book-crossing": ("none", "tenth"),
}
LISTS = {
    "ml-1m": ("none", "ml-100k", "tenth", "other order", "other scale"),
    "ml-100k": ("none", "tenth", "other order"),
    "msweb": ("none", "tenth", "other order"),
}
MOMENTS, MOMENTS_DATA = ("none", "tenth", "other order"), ("jester5k", "ml-100k")
HARMLESS = ("none", "random features", "other order", "other scale")
HARMLESS_DATA = ("ml-1m", "ml-100k", "ciaodvd")
NEW = ("offset only", "new items")
BENCH = "ml-1m (bench)"


@cache
def catalogue(name: str) -> Any:
    """The source's item ids, in the order of the columns of ``rows_of``."""
    return np.unique(sources.columns(name)["item"])


@cache
def features(name: str, *, crossed: bool = False) -> pa.Table:
    """Years and genres by column position; ``crossed``: every pair of genres is a tag, too."""
    table = pyarrow.parquet.read_table(sources.data_folder() / f"{name}-items.parquet").to_pydict()
    at = {item: k for k, item in enumerate(table["item"])}
    order = [at[item] for item in catalogue(name).tolist()]
    genres = [table["genres"][k] for k in order]
    if crossed:
        genres = [[*own, *(f"{a} and {b}" for a in own for b in own if a < b)] for own in genres]
    return pa.table({"item": range(len(order)), "year": [table["year"][k] for k in order], "genres": genres})


@cache
def titles(name: str) -> list[str]:
    table = pyarrow.parquet.read_table(sources.data_folder() / f"{name}-items.parquet").to_pydict()
    found = dict(zip(table["item"], table["title"], strict=True))
    return [found[item] for item in catalogue(name).tolist()]


def names_of(title: str) -> set[str]:
    """Every name of a film, each with its year: the whole title and its parts, without articles and punctuation.

    "Postino, Il (The Postman) (1994)" is "postino il" and "postman" of 1994.
    """
    title, year = title.strip()[:-6], title.strip()[-6:]
    parts = [title, *re.split(r"[:()]| - |a\.k\.a\.", title)]
    words = (
        " ".join(word for word in re.findall(r"\w+", part.lower()) if word not in ("the", "a", "an")) for part in parts
    )
    return {name + year for name in words if name}


def matched(name: str, other: str) -> Any:
    """The rows of ``other`` on the catalogue of ``name``: by the title, or by a name that one film of that year has."""
    places: dict[str, set[int]] = {}
    for k, title in enumerate(titles(name)):
        for each in (title, *names_of(title)):
            places.setdefault(each, set()).add(k)

    def place(title: str) -> int:
        found = places.get(title) or set().union(*(places.get(each, set()) for each in names_of(title)))
        return min(found) if len(found) == 1 else -1

    to = np.array([place(title) for title in titles(other)])
    rows = rows_of(other).tocoo()
    kept = to[rows.col] >= 0
    shape = (rows.shape[0], len(catalogue(name)))
    pairs = rows.row[kept].astype(np.int64) * shape[1] + to[rows.col[kept]]
    first = np.unique(pairs, return_index=True)[1]
    return scipy.sparse.coo_array((rows.data[kept][first], divmod(pairs[first], shape[1])), shape=shape).tocsr()


def given_openly(train: lk.Ratings, draw: int) -> tuple[lk.Ratings, Any]:
    """The protected users, and the rows of a tenth who are not."""
    rows: Any = train._open_csr()
    order = np.random.default_rng(draw).permutation(rows.shape[0])
    some = round(SHARE * rows.shape[0])
    return lk.Ratings.from_csr(rows[np.sort(order[some:])], train.domain), rows[np.sort(order[:some])]


def prepared(name: str, draw: int, source: str, train: lk.Ratings) -> tuple[lk.Ratings, lk.Public | None]:
    """Who is protected, and what is public."""
    n_items, rng = train.domain.n_items, np.random.default_rng(1000 + draw)
    if source == "none":
        return train, None
    if source in ("features", "crossed"):
        return train, lk.Public(features=features(name, crossed=source == "crossed"))
    if source == "random features":
        vectors = pa.array(list(rng.standard_normal((n_items, 20))))
        return train, lk.Public(features=pa.table({"item": range(n_items), "drawn": vectors}))
    if source == "other order":
        _, public = given_openly(train, draw)
        return train, lk.Public(ratings=scipy.sparse.csr_array(public[:, rng.permutation(n_items)]))
    if source == "other scale":  # jokes, as if they were these items
        jokes = rows_of("jester5k")[:1000].tocoo()
        places = rng.permutation(n_items)[: jokes.shape[1]]
        placed = scipy.sparse.coo_array((jokes.data, (jokes.row, places[jokes.col])), shape=(1000, n_items)).tocsr()
        return train, lk.Public(ratings=placed, rating_range=RANGES["jester5k"])
    first, _, more = source.partition("+")
    train, public = (train, matched(name, first)) if first in RANGES else given_openly(train, draw)
    return train, lk.Public(ratings=public, features=features(name) if more else None)


def measured(name: str, draw: int, method: str, source: str, epsilon: float) -> float:
    if name == BENCH:
        name, split = "ml-1m", load("ml-1m")
    else:
        split = split_of(name, draw, "lists" if RANGES[name] is None else "ratings", known_crowd=True)
    train, public = prepared(name, draw, source, split.train)
    noisy = Billboard(noise=SeededNoise(draw))
    model = getattr(lk, method)(epsilon=epsilon, delta=DELTA).fit(train, public=public, billboard=noisy)
    return float(evaluate(model, split.histories, split.held_out, k=20)["recall@20" if method == "DPLists" else "rmse"])


def measured_new(name: str, draw: int, _: str, source: str, epsilon: float) -> float:
    """RMSE on films that no training user rated: by features, or by the level and the user's own offset alone."""
    split = split_of(name, draw, known_crowd=True)
    rows: Any = split.train._open_csr()
    order = np.random.default_rng(2000 + draw).permutation(rows.shape[1])
    new, old = np.sort(order[: round(SHARE * len(order))]), np.sort(order[round(SHARE * len(order)) :])
    domain = lk.Domain(old, RANGES[name], expected_users=split.train.domain.expected_users)
    told = features(name)
    public = lk.Public(features=told.take(old))
    fitted = lk.DPFactors(epsilon=epsilon, delta=DELTA).fit(lk.Ratings.from_csr(rows[:, old], domain), public=public)
    model = fitted.model_.add_items(new, told.take(new))
    history, held = split.histories[:, old], split.held_out[:, new]
    if source == "offset only":
        rest = history.data - model.settings["center"]
        reg = model.settings["offset_reg"]
        offsets = np.bincount(owners(history), rest, history.shape[0]) / (np.diff(history.indptr) + reg)
        guess = model.settings["center"] + offsets[owners(held)]
    else:
        whole = scipy.sparse.csr_array(scipy.sparse.hstack([history, history[:, : len(new)] * 0.0]))
        whole.eliminate_zeros()
        guess = model.predict(whole)[:, len(old) :][owners(held), held.indices]
    return float(np.sqrt(np.mean((np.clip(guess, *RANGES[name]) - held.data) ** 2)))


def tasks(arguments: argparse.Namespace) -> Iterator[tuple[str, int, str, str, float]]:
    asked = arguments.tables.split(",")
    for draw in map(int, arguments.draws.split(",")):
        if "ratings" in asked:
            yield from ((n, draw, "DPFactors", s, e) for n, all in SOURCES.items() for s in all for e in EPSILONS)
        if "bench" in asked:
            yield from ((BENCH, draw, "DPFactors", s, e) for s in SOURCES["ml-1m"] for e in EPSILONS)
        if "lists" in asked:
            yield from ((n, draw, "DPLists", s, e) for n, all in LISTS.items() for s in all for e in EPSILONS)
        if "moments" in asked:
            yield from ((n, draw, "DPMoments", s, e) for n in MOMENTS_DATA for s in MOMENTS for e in EPSILONS)
        if "harmless" in asked:
            yield from ((n, draw, "DPFactors", s, e) for n in HARMLESS_DATA for s in HARMLESS for e in EPSILONS)
        if "new" in asked:
            yield from (("ml-1m", draw, "new", s, e) for s in NEW for e in EPSILONS)


def table(results: dict[str, float], wanted: list[tuple[str, int, str, str, float]]) -> Iterator[str]:
    """Means over draws, and how far they are from the fit without anything public."""
    cells: dict[tuple[str, str, str, float], list[float]] = {}
    for name, draw, method, source, epsilon in wanted:
        cells.setdefault((name, method, source, epsilon), []).append(
            results[json.dumps([name, draw, method, source, epsilon])]
        )
    for (name, method, source, epsilon), values in cells.items():
        plain = cells.get((name, method, "none" if method != "new" else NEW[0], epsilon), values)
        change = float(np.mean(values)) - float(np.mean(plain))
        yield f"{name:14} {method:10} {source:18} epsilon {epsilon:g}: {np.mean(values):.4f} ({change:+.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--tables", default="ratings,bench,lists,moments,harmless,new")
    parser.add_argument("--draws", default="1,2,3,4,5")
    parser.add_argument("--only", default="", help="part of a data set and source, as ml-1m:tenth")
    arguments = parser.parse_args()
    results: dict[str, float] = {}
    if arguments.results.exists():
        results = dict(map(json.loads, arguments.results.read_text("utf-8").splitlines()))
    wanted = list(dict.fromkeys(task for task in tasks(arguments) if arguments.only in f"{task[0]}:{task[3]}"))
    for task in wanted:
        key = json.dumps(list(task))
        if key not in results:
            results[key] = measured_new(*task) if task[2] == "new" else measured(*task)
            with arguments.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, results[key]]) + "\n")
    print("\n".join(table(results, wanted)))


if __name__ == "__main__":
    main()
