"""Lab room: Figure 2 of the private Frank-Wolfe paper: RMSE against epsilon, beside SVD after cleansing.

Paper: Jain, Thakkar and Thakurta 2018, section 4. At most 80 ratings of a user, a hundredth of the ratings as test, the
user's own mean taken off; T and the nuclear norm are chosen on draws that no trial uses, per epsilon and column; L is the
largest row of that draw. Deviates: Jester is part 1 of 3, with the nuclear norms scaled by the square root of its size;
SVD after cleansing is the product's ``DPSVD(cleansing=True)`` at the same epsilon, in every column. Smaller than the paper:
the synthetic set has 1,500 users and 0.3 % of the noise that its 500,000 have, Jester 8,000 users with the noise of its
24,983, which is the same experiment: c copies of every user with c times the noise and sqrt(c) times the nuclear norm give
the same rows, to the last digit (a test). T is 5 or 10, chosen on one draw; three of the epsilons; without noise 20 rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu
from lowkey_lab import sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent, in_columns, row_of
from lowkey_lab.printed import dpfw
from lowkey_lab.printed.dpals import chosen, sample, with_values
from lowkey_lab.printed.held import noise_for
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell, Draws, Row, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less

DELTA = 1e-6
EPSILONS = (0.1, 1.0, 20.0)
SMALL = 1.0  # "even for very small values of epsilon": up to here
NEAR = 0.05  # "close": this share of the distance from predicting the user's mean to the non-private form
ROUNDS = (5, 10)
PAPER_USERS, FULL_USERS, QUICK_USERS = 500_000, 1_500, 1_000  # of the synthetic set
JESTER_USERS = 8_000
MOST, TESTED = 80, 0.01
FREE = "Frank-Wolfe without noise, 20 rounds"
MEAN = "the user's own mean"
SVD = "DPSVD(cleansing=True), product"
ALGORITHMS = {
    PRINTED: "Algorithm 1, noise of line 2",
    EXACT: "Algorithm 1, exact accounting",
    OURS: "DPFrankWolfe, product",
}


class Data(NamedTuple):
    """Training rows less the users' means, their scale, and test cells; each user stands for ``copies`` of the paper's."""

    rows: Any
    means: np.ndarray
    scale: tuple[float, float]
    user: np.ndarray
    item: np.ndarray
    truth: np.ndarray
    nuclear_norms: tuple[float, ...]
    copies: float = 1.0


def cells(data: str, quick: bool) -> list[Cell]:
    """All of a panel: every column at every epsilon, SVD, the non-private form and the mean."""
    epsilons = (1.0, 20.0) if quick else EPSILONS
    found = [Cell.of(column, name, data=data, epsilon=e) for e in epsilons for column, name in ALGORITHMS.items()]
    found += [Cell.of(column, SVD, data=data, epsilon=e) for e in epsilons for column in (EXACT,)]
    return found + [Cell.of("not private", name, data=data, epsilon=None) for name in (FREE, MEAN)]


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    """RMSE on the test cells, and the epsilon that holds."""
    data = load(cell["data"], seed, quick)
    rng = np.random.default_rng([seed, 7])
    epsilon = cell["epsilon"]
    if cell.algorithm == MEAN:
        return {"rmse": _rmse(data, np.zeros(len(data.truth))), "held": math.inf}
    if cell.algorithm in (SVD, ALGORITHMS[OURS]):
        return {"rmse": _product_rmse(data, cell.algorithm, epsilon), "held": epsilon}
    norm = _row_norm(cell["data"], quick)
    if cell.algorithm == FREE:
        settings = dpfw.Settings(10 if quick else 20, norm, max(data.nuclear_norms), 0.0)
        return {"rmse": _fitted(data, settings, rng), "held": math.inf}
    settings = _tuned(cell["data"], epsilon, cell.column, quick)
    whole = replace(settings, sigma=settings.sigma * data.copies)
    return {"rmse": _fitted(data, settings, rng), "held": dpfw.frank_wolfe_held(whole, DELTA, epsilon).epsilon}


def claims(found: Draws) -> list[Claim]:
    """Section 4's two sentences, for one panel."""
    (data,) = found.facts("data")
    epsilons = sorted({row["facts"]["epsilon"] for row in found.rows if row["facts"]["epsilon"]})
    free, trivial = (found.of("rmse", algorithm=name, data=data) for name in (FREE, MEAN))
    curve = lambda name: {e: found.of("rmse", algorithm=name, data=data, epsilon=e) for e in epsilons}
    svd = curve(SVD)
    means = lambda of: row_of([float(np.mean(of[e])) for e in epsilons])

    def close(column: str) -> Finding:
        mine = curve(ALGORITHMS[column])
        gap = lambda e: estimate([(m - f) / (t - f) for m, f, t in zip(mine[e], free, trivial, strict=True)])
        falls = less(mine[epsilons[-1]], mine[epsilons[0]], paired=True)
        near = every(between(gap(e), -math.inf, NEAR) for e in epsilons if e <= SMALL)
        held = [found.of("held", algorithm=ALGORITHMS[column], data=data, epsilon=e)[0] for e in epsilons]
        text = f"RMSE {means(mine)} at epsilon {row_of(epsilons)} (holds: "
        text += f"{row_of(held, 3)}); not private {np.mean(free):.4g}, the user's mean {np.mean(trivial):.4g}"
        return Finding(ALGORITHMS[column], text, every([near, falls]))

    def below(column: str) -> Finding:
        mine = curve(ALGORITHMS[column])
        verdict: Verdict = every(less(mine[e], svd[e], paired=True) for e in epsilons)
        text = f"RMSE {means(mine)} against {means(svd)}"
        return Finding(f"{ALGORITHMS[column]}; {SVD}", text, verdict)

    rule = f"close: within {NEAR:.0%} of the way to the user's mean at every epsilon up to {SMALL:g}; falls: first to last"
    return [
        in_columns(f"{data}: private Frank-Wolfe is close to the non-private baseline even for very small epsilon, and its "
                   "error goes down significantly as epsilon grows.", "section 4, Figure 2", rule, found, close),
        in_columns(f"{data}: private Frank-Wolfe has a significantly lower error than SVD after cleansing.",
                   "section 4, Figure 2", "below at every epsilon", found, below, judged=EXACT),
    ]  # fmt: skip


def figure_2a(quick: bool, pieces: Path | None = None) -> Outcome:
    """The synthetic panel."""
    return _panels(["synthetic"], [], quick, pieces)


def figure_2(quick: bool, pieces: Path | None = None) -> Outcome:
    """All panels of real data that are here."""
    here, told = panels()
    return _panels(here[1:], told, quick, pieces)


def _panels(here: list[str], told: list[Claim], quick: bool, pieces: Path | None) -> Outcome:
    rows: dict[str, list[Row]] = {}
    for data in here:
        rows[data] = run(cells(data, quick), lambda c, seed: measure(c, seed, quick), 2 if quick else 10, pieces)
        told = [*claims(Draws(rows[data])), *told]
    return Outcome(told, rows)


PANELS = {"synthetic": None, "jester": "jester", "ml-10m-top400": "ml-10m", "netflix-top400": "netflix"}


def panels() -> tuple[list[str], list[Claim]]:
    """The data sets that are here, and claims for those that are not."""
    missing = [absent(f"{name}, 400 most rated", s, sources.SOURCES[s].where, "Figure 2")
               for name, s in PANELS.items() if s and sources.found(s) is None]  # fmt: skip
    missing.append(absent("Yahoo! Music, 400 most rated", "Yahoo! Music", "Yahoo Webscope, on request", "Figure 2"))
    return [name for name, s in PANELS.items() if s is None or sources.found(s) is not None], missing


# Data -------------------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=2)
def load(name: str, seed: int, quick: bool) -> Data:
    """One draw: the data (made up, or the real set), its test cells and at most 80 of a user's other ratings."""
    rng = np.random.default_rng([seed, 1])
    copies = 1.0
    if name == "synthetic":
        n_users = QUICK_USERS if quick else FULL_USERS
        ratings, norms = rank_one(n_users, rng)
        scale, copies = (-1.0, 1.0), PAPER_USERS / n_users
    else:
        table, domain = _real(name)
        ratings, scale = table, domain
        if name == "jester":
            some = np.sort(rng.permutation(table.shape[0])[: 2_000 if quick else JESTER_USERS])
            ratings, copies = table[some], table.shape[0] / len(some)
        norms = _scaled_norms(name, ratings.shape[0])
    tested = rng.random(ratings.nnz) < TESTED
    user = np.repeat(np.arange(ratings.shape[0]), np.diff(ratings.indptr))
    train = chosen(ratings, ~tested)
    train = train if name == "jester" else sample(train, MOST, rng)
    lengths = np.diff(train.indptr)
    means = np.asarray(train.sum(axis=1)).ravel() / np.maximum(lengths, 1)
    centred = with_values(train, train.data - np.repeat(means, lengths))
    return Data(centred, means, scale, user[tested], ratings.indices[tested], ratings.data[tested], norms, copies)


def rank_one(n_users: int, rng: np.random.Generator, n_items: int = 400) -> tuple[Any, tuple[float, ...]]:
    """u v^T with largest entry 1, 80 cells of a row and about one more for the test; its true nuclear norm."""
    u, v = rng.uniform(-1.0, 1.0, n_users), rng.uniform(-1.0, 1.0, n_items)
    u, v = u / np.abs(u).max(), v / np.abs(v).max()
    count = MOST + 1
    items = np.empty((n_users, count), np.int32)
    for low in range(0, n_users, 10_000):
        draws = rng.random((min(10_000, n_users - low), n_items), np.float32)
        items[low : low + len(draws)] = np.sort(np.argpartition(draws, count, axis=1)[:, :count], axis=1)
    rows = np.arange(n_users + 1, dtype=np.int64) * count
    values = (u[:, None] * v[items]).ravel()
    table = scipy.sparse.csr_array((values, items.ravel(), rows), shape=(n_users, n_items))
    return table, (float(np.linalg.norm(u) * np.linalg.norm(v)),)


def _real(name: str) -> tuple[Any, tuple[float, float]]:
    table = sources.as_rows(sources.columns(PANELS[name] or ""))
    if name == "jester":
        return with_values(table, (table.data + 10.0) / 4.0), (0.0, 5.0)
    most = np.sort(np.argsort(-np.bincount(table.indices, minlength=table.shape[1]), kind="stable")[:400])
    cut = scipy.sparse.csr_array(table[:, most])
    return cut[np.diff(cut.indptr) > 0], (0.5, 5.0)


def _scaled_norms(name: str, n_users: int) -> tuple[float, ...]:
    """The paper's pairs, which are for its whole sets."""
    pairs = {"jester": (20_000.0, 25_000.0, 73_000), "ml-10m-top400": (30_000.0, 40_000.0, 70_000),
             "netflix-top400": (120_000.0, 130_000.0, 474_000)}  # fmt: skip
    low, high, whole = pairs[name]
    return low * math.sqrt(n_users / whole), high * math.sqrt(n_users / whole)


# Fits -------------------------------------------------------------------------------------------------------------------
def _fitted(data: Data, settings: dpfw.Settings, rng: np.random.Generator) -> float:
    model = dpfw.frank_wolfe(data.rows, settings, rng)
    guess = np.einsum("ut,ut->u", model.coefficients[data.user], model.directions[:, data.item].T)
    return _rmse(data, guess)


def _rmse(data: Data, guess: np.ndarray) -> float:
    shown = np.clip(data.means[data.user] + guess, *data.scale)
    return float(np.sqrt(np.mean((shown - data.truth) ** 2)))


def _product_rmse(data: Data, algorithm: str, epsilon: float) -> float:
    """The product's estimators on the same training cells, by their defaults; histories are the training rows."""
    lengths = np.diff(data.rows.indptr)
    rows = with_values(data.rows, np.clip(data.rows.data + np.repeat(data.means, lengths), *data.scale))
    domain = lk.Domain(rows.shape[1], data.scale, expected_users=rows.shape[0])
    asked = epsilon if data.copies == 1.0 else gaussian_epsilon(data.copies * gaussian_mu(epsilon, DELTA), DELTA)
    estimator = lk.DPSVD(asked, DELTA, cleansing=True) if algorithm == SVD else lk.DPFrankWolfe(asked, DELTA)
    model = estimator.fit(lk.Ratings.from_csr(rows, domain))
    guess = np.empty(len(data.truth))
    order = np.argsort(data.user, kind="stable")
    for part in np.array_split(order, max(1, len(order) // 2000)):
        people, where = np.unique(data.user[part], return_inverse=True)
        guess[part] = model.predict(rows[people])[where, data.item[part]]
    return float(np.sqrt(np.mean((np.clip(guess, *data.scale) - data.truth) ** 2)))


def _row_norm(name: str, quick: bool) -> float:
    """L: the largest row of the draw that only chooses settings (an oracle, as in the paper)."""
    rows = load(name, VALIDATION, quick).rows
    user = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return float(np.sqrt(np.bincount(user, rows.data**2).max()))


VALIDATION = 1000  # the first of the seeds that only choose settings


@lru_cache(maxsize=64)
def _tuned(name: str, epsilon: float, column: str, quick: bool) -> dpfw.Settings:
    """T and the nuclear norm with the least error, on a draw that no trial uses."""
    norm = _row_norm(name, quick)
    best, least = None, math.inf
    for rounds, nuclear in product(ROUNDS[:2] if quick else ROUNDS, load(name, VALIDATION, quick).nuclear_norms):
        sigma = _sigma(column, epsilon, norm, rounds) / load(name, VALIDATION, quick).copies
        settings = dpfw.Settings(rounds, norm, nuclear, sigma)
        draws: Sequence[int] = range(VALIDATION, VALIDATION + 1)
        error = float(np.mean([_fitted(load(name, k, quick), settings, np.random.default_rng([k, 7])) for k in draws]))
        if error < least:
            best, least = settings, error
    assert best is not None
    return best


def _sigma(column: str, epsilon: float, norm: float, rounds: int) -> float:
    if column == PRINTED:
        return dpfw.printed_sigma(epsilon, DELTA, norm, rounds)
    return noise_for(dpfw.frank_wolfe_mu(rounds, norm, 1.0), epsilon, DELTA)
