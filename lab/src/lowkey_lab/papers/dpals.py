"""Lab room: Figures 4 and 7 of the DPALS paper: synthetic data, DPALS beside private Frank-Wolfe, both as printed.

Paper: Chien et al. 2021, sections 6.1 and 6.2, appendix D.4. M = U V^T with random orthogonal factors of rank 5,
p = 20 ln(n)/1000, scaled to standard deviation 1; four fifths of the cells train, a tenth is the test. Settings are
chosen on a draw that no trial uses, per cell, from grids of equal size. *As printed* is Theorem 1's noise for DPALS (one of
two releases) and line 2's for DPFW; *exact accounting* holds at the asked epsilon when a user is added. Smaller than the
paper: 250 items, not 1000; 1,000 and 4,000 users, not 5,000 to 50,000; epsilon 1 and 20 of its four.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.privacy.accounting import gaussian_mu
from lowkey_lab.claims import Finding, Outcome, in_columns, row_of
from lowkey_lab.printed import dpals, dpfw
from lowkey_lab.printed.dpals import chosen
from lowkey_lab.printed.held import noise_for
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell, Draws, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less, ratio

DELTA, ITEMS, RANK, VALIDATION = 1e-5, 250, 5, 1000
EPSILONS, USERS = (1.0, 20.0), (1_000, 4_000)
TESTED = 2000  # users
TRIVIAL = 1.0  # predicting 0
BOUND = 5.0  # Gamma_M; the paper has 1 or 5
ALS, FW = "DPALS", "DPFW"
NAMES = {
    (PRINTED, ALS): "DPALS, Algorithm 1, noise of Theorem 1",
    (EXACT, ALS): "DPALS, Algorithm 1, exact accounting",
    (OURS, ALS): "DPFactors, product",
    (PRINTED, FW): "DPFW, Algorithm 1, noise of line 2",
    (EXACT, FW): "DPFW, Algorithm 1, exact accounting",
    (OURS, FW): "DPFrankWolfe, product",
}


class Data(NamedTuple):
    train: Any
    user: np.ndarray
    item: np.ndarray
    truth: np.ndarray

    def rmse(self, guess: np.ndarray) -> float:
        return float(np.sqrt(np.mean((guess - self.truth) ** 2)))


@lru_cache(maxsize=2)
def planted(n_users: int, seed: int) -> Data:
    rng = np.random.default_rng([seed, n_users])
    n_items = catalogue(n_users)
    u, v = (np.linalg.qr(rng.standard_normal((side, RANK)))[0] for side in (n_users, n_items))
    count = rng.binomial(n_items, min(1.0, 5.0 * math.log(n_users) / n_items), n_users)  # 20 ln(n)/1000 of 250 items
    items = [np.sort(rng.choice(n_items, c, replace=False)) for c in count]
    user, item = np.repeat(np.arange(n_users), count), np.concatenate(items)
    values = np.einsum("nr,nr->n", u[user], v[item]) * math.sqrt(n_users * n_items / RANK)
    offsets = np.concatenate([[0], np.cumsum(count)])
    rows = scipy.sparse.csr_array((values / values.std(), item, offsets), (n_users, n_items))
    lot = rng.random(len(values))
    tested = (lot > 0.9) & (user < TESTED)
    return Data(chosen(rows, lot < 0.8), user[tested], item[tested], rows.data[tested])


def catalogue(n_users: int) -> int:
    """250 items, and fewer for the few users of the quick form."""
    return ITEMS if n_users >= min(USERS) else n_users // 4


def cells(quick: bool) -> list[Cell]:
    sizes, epsilons = ((500, 1_000), (1.0, 20.0)) if quick else (USERS, EPSILONS)
    found = [Cell.of(column, name, method=method, n_users=n, epsilon=e)
             for n in sizes for e in epsilons for (column, method), name in NAMES.items()]  # fmt: skip
    return found + [Cell.of("not private", "Algorithm 1 without noise", method=ALS, n_users=n, epsilon=None) for n in sizes]


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    n_users, epsilon = cell["n_users"], cell["epsilon"]
    data = planted(n_users, seed)
    if cell.column == OURS:
        return {"rmse": _product(cell["method"], data, epsilon)}
    settings = tuned(cell["method"], cell.column, n_users, epsilon, quick)
    return {"rmse": fitted(cell["method"], settings, data, np.random.default_rng([seed, n_users, 7]))}


def grid(method: str, column: str, n_users: int, epsilon: float | None, quick: bool) -> list[Any]:
    """Eight candidates of each method; the noise follows from them."""
    n_items, thin = catalogue(n_users), 4 if quick else 1
    if method == FW:
        per_user = 4.0 * math.log(n_users)
        norms, nuclear = (math.sqrt(per_user), 1.3 * math.sqrt(per_user)), math.sqrt(RANK * n_users * n_items)
        points = list(product((2, 10), norms, (nuclear, nuclear / 2.0)))[::thin]
        return [dpfw.Settings(t, norm, k, _fw_sigma(column, epsilon, norm, t)) for t, norm, k in points]
    points = list(product((1, 2), (15, 35), (0.001, 0.03)))[::thin]
    found = []
    for t, k, ridge in points:
        sigma = _als_sigma(column, epsilon, k * t)
        found.append(dpals.Settings(RANK, t if epsilon else 10, k if epsilon else n_items, ridge, sigma, sigma, 1.0, BOUND))
    return found


def _als_sigma(column: str, epsilon: float | None, k_rounds: int) -> float:
    if epsilon is None:
        return 0.0
    if column == EXACT:
        return math.sqrt(2.0 * k_rounds) / gaussian_mu(epsilon, DELTA)
    log = math.log(1.0 / DELTA)
    return math.sqrt(k_rounds / 2.0) / (math.sqrt(log + epsilon) - math.sqrt(log))


def _fw_sigma(column: str, epsilon: float | None, norm: float, rounds: int) -> float:
    assert epsilon is not None
    if column == EXACT:
        return noise_for(dpfw.frank_wolfe_mu(rounds, norm, 1.0), epsilon, DELTA)
    return dpfw.printed_sigma(epsilon, DELTA, norm, rounds)


@lru_cache(maxsize=256)
def tuned(method: str, column: str, n_users: int, epsilon: float | None, quick: bool) -> Any:
    data = planted(n_users, VALIDATION)
    score = lambda s: fitted(method, s, data, np.random.default_rng([VALIDATION, n_users, 7]))
    return min(grid(method, column, n_users, epsilon, quick), key=score)


def fitted(method: str, settings: Any, data: Data, rng: np.random.Generator) -> float:
    if method == FW:
        model = dpfw.frank_wolfe(data.train, settings, rng)
        return data.rmse(np.einsum("nt,nt->n", model.coefficients[data.user], model.directions[:, data.item].T))
    model = dpals.fit(data.train, settings, rng)
    people = data.train[: data.user.max() + 1]
    return data.rmse(dpals.predict(model, people)[data.user, data.item])


def _product(method: str, data: Data, epsilon: float) -> float:
    domain = lk.Domain(data.train.shape[1], (-4.0, 4.0), expected_users=data.train.shape[0])
    clipped = dpals.with_values(data.train, np.clip(data.train.data, -4.0, 4.0))
    estimator: Any = lk.DPFactors(epsilon, DELTA, rank=RANK) if method == ALS else lk.DPFrankWolfe(epsilon, DELTA)
    model = estimator.fit(lk.Ratings.from_csr(clipped, domain))
    return data.rmse(model.predict(clipped[: data.user.max() + 1])[data.user, data.item])


def figure_4(quick: bool, pieces: Path | None = None) -> Outcome:
    """DPALS against DPFW."""
    rows = run(cells(quick), lambda c, seed: measure(c, seed, quick), 2 if quick else 10, pieces)
    found, place = Draws(rows), "section 6.2, Figure 4"
    sizes, epsilons = found.facts("n_users"), sorted({r["facts"]["epsilon"] for r in rows if r["facts"]["epsilon"]})
    at = lambda column, method, n, e: found.of("rmse", column=column, method=method, n_users=n, epsilon=e)
    means = lambda column, method, e: row_of([float(np.mean(at(column, method, n, e))) for n in sizes])

    def improves(column: str) -> Finding:
        verdicts: list[Verdict] = [
            less(at(column, ALS, b, e), at(column, ALS, a, e), paired=False) for a, b in pairwise(sizes) for e in epsilons
        ]
        text = "; ".join(f"epsilon {e:g}: {means(column, ALS, e)}" for e in epsilons)
        return Finding(NAMES[column, ALS], f"RMSE at {row_of(sizes, 6)} users, {text}", every(verdicts))

    def trivial(column: str) -> Finding:
        least = epsilons[0]
        low: list[Verdict] = [between(estimate(at(column, ALS, n, least)), 0.0, 0.95 * TRIVIAL) for n in sizes]
        high: list[Verdict] = [between(estimate(at(column, FW, n, least)), 0.95 * TRIVIAL, math.inf) for n in sizes]
        text = f"DPALS {means(column, ALS, least)}; DPFW {means(column, FW, least)} at {row_of(sizes, 6)} users"
        return Finding(f"{NAMES[column, ALS]}; {NAMES[column, FW]}", text, every(low + high))

    def sevenfold(column: str) -> Finding:
        folds = [ratio(at(column, FW, sizes[-1], e), at(column, ALS, sizes[-1], e), paired=True) for e in epsilons]
        text = f"{'; '.join(map(str, folds))} times at epsilon {row_of(epsilons)}, {sizes[-1]:,} users"
        return Finding(f"{NAMES[column, FW]}; {NAMES[column, ALS]}", text, every(between(f, 7.0, math.inf) for f in folds))

    told = [
        in_columns("DPALS improves as the number of users grows.", place, "from each size to the next, at every epsilon",
                   found, improves),
        in_columns("At epsilon = 1 DPFW is no better than the trivial model (RMSE 1), while DPALS is below it.", place,
                   "the line is drawn at 0.95", found, trivial, judged=EXACT),
        in_columns("At the largest n the RMSE of DPFW is at least 7 times that of DPALS, at every epsilon.", place,
                   "at least 7", found, sevenfold, judged=EXACT),
    ]  # fmt: skip
    return Outcome(told, {"dpals-figure-4": rows})


# Figure 7 ---------------------------------------------------------------------------------------------------------------
STEPS = {ALS: 2, FW: 40}


def figure_7(quick: bool, pieces: Path | None = None) -> Outcome:
    """RMSE after a few steps, with the same noise multiplier a step (0, 10, 20) and k = 150."""
    n_users, steps = (1_000, {ALS: 2, FW: 10}) if quick else (4_000, STEPS)
    todo = [Cell.of(PRINTED if sigma else "not private", f"{m}, {steps[m]} steps", method=m, sigma=sigma, n_users=n_users)
            for m in (ALS, FW) for sigma in (0.0, 10.0, 20.0)]  # fmt: skip

    def one(cell: Cell, seed: int) -> dict[str, float]:
        data, rng = planted(n_users, seed), np.random.default_rng([seed, 9])
        norm = 1.3 * math.sqrt(4.0 * math.log(n_users))
        nuclear = math.sqrt(RANK * n_users * catalogue(n_users))
        als = dpals.Settings(RANK, steps[ALS], 150, 0.001, cell["sigma"], cell["sigma"], 1.0, BOUND)
        fw = dpfw.Settings(steps[FW], norm, nuclear, cell["sigma"] * 4.0 * norm**2)
        return {"rmse": fitted(cell["method"], als if cell["method"] == ALS else fw, data, rng)}

    rows = run(todo, one, 2 if quick else 10, pieces)
    found = Draws(rows)

    def sooner(column: str) -> Finding:
        sigmas = [10.0, 20.0]
        pair = lambda s: [found.of("rmse", method=m, sigma=s) for m in (ALS, FW)]
        text = "; ".join(f"sigma {s:g}: {' against '.join(str(estimate(v)) for v in pair(s))}" for s in (0.0, *sigmas))
        return Finding(
            "DPALS and DPFW, Algorithm 1 of each", text, every(less(*pair(s), paired=True) for s in (0.0, *sigmas))
        )

    claim = (
        f"The error of DPALS after {steps[ALS]} iterations is below that of DPFW after {steps[FW]}, with and without noise."
    )
    told = in_columns(claim, "appendix D.4, Figure 7", "at each noise level", found, sooner)
    return Outcome([told], {"dpals-figure-7": rows})
