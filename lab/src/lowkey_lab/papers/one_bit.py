"""Lab room: Figures 1 to 5 of the one-bit paper: four perturbations, both links, on synthetic signs, ML-100K and RC.

Paper: Li et al. 2021, section 5. *As printed* are Algorithms 1 to 4. *Exact accounting* has the noise that holds at the
asked epsilon for one sign: twice as much in the objective (logistic link; none is proven for the Gaussian one, which has no
cell), and d1 d2 times as much in the output. *Ours* are the four of ``DPOneBit``, sound, pure epsilon. The paper gives no
radius, bound or number of gradient steps for real data: alpha = 1, the radius of rank 1 (ML-100K) and 0.1 (RC), and one
step. Smaller than the paper: ten draws, not 40, in Figure 1; three epsilons; two observation ratios; of ML-100K the 250
most rated films, with the five official splits twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.linalg.links import link_of
from lowkey_lab import sources
from lowkey_lab.printed import one_bit as printed
from lowkey_lab.printed.one_bit import Signs
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell

Array = Any
MECHANISMS = ("input", "objective", "gradient", "output")
NOISE = {"logistic": "logistic", "probit": "Gaussian"}  # the paper's names of the links
LINKS = tuple(NOISE)
CLEAR, MAJORITY = "not private", "the commoner sign"
ALGORITHMS = {PRINTED: "Algorithms 1 to 4", EXACT: "Algorithms 1 to 4, noise that holds", OURS: "DPOneBit, product"}


class Problem(NamedTuple):
    """Signs to learn from, and either the truth or held-out signs to be measured by."""

    signs: Signs
    steps: int  # of gradient perturbation
    rank: float
    truth: Array = None
    held_out: Any = None  # cells and their signs

    def value(self, guess: Array) -> float:
        if self.truth is not None:
            return float(np.sum((guess - self.truth) ** 2) / np.sum(self.truth**2))  # ARE
        cells, signs = self.held_out
        return float(np.mean((guess.ravel()[cells] > 0.0) == (signs > 0.0)))


# Data -------------------------------------------------------------------------------------------------------------------
def rank_one(side: int, share: float, link: str, seed: int, bound: float = 1.0) -> tuple[Array, Array]:
    """M of rank 1 scaled to |M| <= bound by its largest |entry|, and a CSR array of signs of a share of its cells."""
    rng = np.random.default_rng(seed)
    truth = np.outer(rng.uniform(-0.5, 0.5, side), rng.uniform(-0.5, 0.5, side))
    truth *= bound / np.abs(truth).max()
    cells = np.flatnonzero(rng.random(side * side) < share)
    signs = np.where(rng.random(len(cells)) < link_of(link).probability(truth.ravel()[cells]), 1.0, -1.0)
    return truth, scipy.sparse.csr_array((signs, (cells // side, cells % side)), shape=(side, side))


def movielens(seed: int, quick: bool) -> tuple[Any, Any]:
    """The official splits u1 to u5, of the most rated films; a rating above 3.5 is a plus."""
    table = sources.columns(f"ml-100k-u{seed % 5 + 1}", "split")
    user, item = table["user"] - 1, table["item"] - 1
    films = np.sort(np.argsort(-np.bincount(item), kind="stable")[: 80 if quick else 250])
    people = 120 if quick else 943
    kept = np.isin(item, films) & (user < people)
    place, sign = (user, np.searchsorted(films, item)), np.where(table["rating"] > 3.5, 1.0, -1.0)
    part = lambda s: scipy.sparse.csr_array((sign[s], (place[0][s], place[1][s])), (people, len(films)))
    return part(kept & (table["split"] == 0)), part(kept & (table["split"] == 1))


def restaurants(seed: int, quick: bool) -> tuple[Any, Any]:
    """RC, 80/20; two stars are a plus."""
    rows = sources.as_rows(sources.columns("rc"))
    coordinates = rows.tocoo()
    tested = np.random.default_rng(seed).permutation(rows.nnz) < rows.nnz // 5
    sign = np.where(coordinates.data > 1.5, 1.0, -1.0)
    part = lambda s: scipy.sparse.csr_array((sign[s], (coordinates.row[s], coordinates.col[s])), rows.shape)
    return part(~tested), part(tested)


def _cells(rows: Any) -> tuple[Array, Array]:
    flat = rows.tocoo()
    cells = flat.row.astype(np.int64) * rows.shape[1] + flat.col
    order = np.argsort(cells)
    return cells[order], flat.data[order].astype(float)


@lru_cache(maxsize=2)
def problem(data: str, share: float | None, link: str, seed: int, quick: bool) -> Problem:
    if data == "synthetic":
        assert share is not None
        truth, train = rank_one(40 if quick else 100, share, link, seed)
        return Problem(_signs(train, link, 1.0, 2e-3, 200), 10, 1.0, truth)
    train, test = {"ml-100k": movielens, "rc": restaurants}[data](seed, quick)
    rank, steps = (1.0, 12) if data == "ml-100k" else (0.1, 12 if quick else 60)
    return Problem(_signs(train, link, rank, 2e-2, steps), 1, rank, held_out=_cells(test))


def _signs(train: Any, link: str, rank: float, tol: float, max_iter: int) -> Signs:
    radius = math.sqrt(train.shape[0] * train.shape[1] * rank)
    return Signs(train.shape, *_cells(train), radius, 1.0, link, tol, max_iter)


@lru_cache(maxsize=2)
def minimiser(*place: Any) -> Array:
    """The non-private optimum, which output perturbation starts from."""
    return printed.completion(problem(*place).signs)


# Fits -------------------------------------------------------------------------------------------------------------------
def cells(data: str, links: Iterable[str], shares: Iterable[float | None], epsilons: Iterable[float]) -> list[Cell]:
    found: list[Cell] = []
    for link in links:
        for share in shares:
            facts = {"data": data, "link": link, "share": share}
            found.append(Cell.of(CLEAR, "Problem (2)", **facts, mechanism="none", epsilon=None))
            if data != "synthetic":
                found.append(Cell.of(CLEAR, MAJORITY, **facts, mechanism="majority", epsilon=None))
            found += [Cell.of(column, f"{name}, {mechanism}", **facts, mechanism=mechanism, epsilon=e)
                      for e in epsilons for column, name in ALGORITHMS.items() for mechanism in MECHANISMS
                      if (column, mechanism, link) != (EXACT, "objective", "probit")]  # fmt: skip
    return found


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    place = (cell["data"], cell["share"], cell["link"], seed, quick)
    given = problem(*place)
    if cell["mechanism"] == "majority":
        return {"value": float(max(np.mean(given.held_out[1] > 0.0), np.mean(given.held_out[1] < 0.0)))}
    if cell["mechanism"] == "none":
        return {"value": given.value(minimiser(*place))}
    if cell.column == OURS:
        return {"value": given.value(_product(given, cell))}
    rng = np.random.default_rng([seed, MECHANISMS.index(cell["mechanism"]), int(cell["epsilon"])])
    return {"value": given.value(_printed(given, cell, place, rng))}


def _printed(given: Problem, cell: Cell, place: tuple[Any, ...], rng: np.random.Generator) -> Array:
    signs, epsilon, exact = given.signs, cell["epsilon"], cell.column == EXACT
    match cell["mechanism"]:
        case "input":
            return printed.input_perturbation(signs, epsilon, rng)
        case "objective":
            return printed.objective_perturbation(signs, epsilon / 2.0 if exact else epsilon, rng)
        case "gradient":
            return printed.gradient_perturbation(signs, epsilon, given.steps, rng)
        case _:
            size = signs.shape[0] * signs.shape[1] if exact else 1
            return printed.output_perturbation(signs, epsilon / size, rng, minimiser(*place))


def _product(given: Problem, cell: Cell) -> Array:
    signs = given.signs
    rows = scipy.sparse.csr_array((signs.values, np.divmod(signs.cells, signs.shape[1])), shape=signs.shape)
    ratings = lk.Ratings.from_csr(rows, lk.Domain(signs.shape[1], (-1.0, 1.0)))
    settings = {"link": cell["link"], "rank": given.rank, "n_iter": given.steps}
    return lk.DPOneBit(cell["epsilon"], None, perturbation=cell["mechanism"], **settings).complete(ratings)
