"""Lab room: stand-ins for the rating figures of the DPALS paper (3a, 3b, 5, 8, 9, 10, 12), on MovieLens 1M.

Paper: Chien et al. 2021; the figures need MovieLens 10M. Here each of 2,000 users of MovieLens 1M stands for ``crowd``
users with the same ratings: 240, so 480,000 people, as many as Netflix had; with fewer the printed form learns less. A
tenth of the ratings of 1,000 users is the test. As in Table 4 k = 50, sigma_G = 2 sigma_g, (nu, mu) = (1, 0.5), beta = 0.05
and 0.5 in Figure 3b; a tenth of mu^2 goes to Algorithm 3; rank 8 where the paper has up to 128. Rounds, ridge and steps are
chosen for every cell on a draw that no trial uses, from four candidates of each method. *As printed* books as Table 4 does;
*exact accounting* prices the mean rightly and takes Z as public. Beside stand DPFW, DP-SGD and DPALS with the ridge added
after the projection, as its authors' public code has it, all with exact accounting.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu
from lowkey_lab import sgd, sources
from lowkey_lab.papers.dpals_tables import on_top
from lowkey_lab.printed import dpals, dpfw
from lowkey_lab.printed.held import noise_for
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell

DELTA, VALIDATION, TESTED = 1e-5, 1000, 1_000
EPSILONS, ALL = (1.0, 10.0), 3_706  # films of MovieLens 1M
USERS, CROWDS = 2_000, (60, 240)
ALS, LAST, FW, SGD, MEAN = "DPALS", "DPALS, ridge last", "DPFW", "DP-SGD", "the mean of all ratings"
CLEAR = "not private"
NAMES = {
    (PRINTED, ALS): "DPALS, Algorithms 1 and 3, booked as Table 4",
    (EXACT, ALS): "DPALS, Algorithms 1 and 3, exact accounting",
    (EXACT, LAST): "DPALS, ridge after the projection, exact accounting",
    (EXACT, FW): "DPFW, Algorithm 1, exact accounting",
    (EXACT, SGD): "DP-SGD, exact accounting",
    (OURS, ALS): "DPFactors, product",
    (CLEAR, ALS): "Algorithm 1 without noise",
}
STANDARD = {"crowd": CROWDS[-1], "rank": 8, "fraction": 1.0, "exponents": True, "sampling": "adaptive", "films": 400}


class Data(NamedTuple):
    train: Any
    user: Any
    item: Any
    truth: Any

    def rmse(self, guess: Any) -> float:
        return float(np.sqrt(np.mean((np.clip(guess, 1.0, 5.0) - self.truth) ** 2)))


@lru_cache(maxsize=3)
def load(films: int, seed: int, quick: bool) -> Data:
    """The most rated films, less the test cells of the first users."""
    rows: Any = sources.as_rows(sources.columns("ml-1m"))
    most = np.argsort(-np.bincount(rows.indices, minlength=rows.shape[1]), kind="stable")[: 100 if quick else films]
    rows = scipy.sparse.csr_array(rows[: 600 if quick else USERS, np.sort(most)], dtype=float)
    user = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    tested = (np.random.default_rng([seed, films]).random(rows.nnz) < 0.1) & (user < TESTED)
    return Data(dpals.chosen(rows, ~tested), user[tested], rows.indices[tested], rows.data[tested])


def cells() -> list[Cell]:
    """By figure; what a figure varies, and the standard for the rest."""
    found: list[Cell] = []

    def add(figure: str, epsilons: Sequence[float | None], *what: tuple[str, str], **changes: Any) -> None:
        facts = {**STANDARD, **changes}
        found.extend(Cell.of(column, NAMES.get((column, method), method), figure=figure, method=method, epsilon=e, **facts)
                     for e in epsilons for column, method in what)  # fmt: skip

    add("3a", EPSILONS, *(key for key in NAMES if key[0] != CLEAR))
    add("3a", (None,), (CLEAR, ALS), (CLEAR, MEAN))
    for epsilon, fraction in zip(EPSILONS, (0.05, 0.5), strict=True):
        add("3b", (epsilon,), (PRINTED, ALS), (EXACT, ALS), (EXACT, FW), (OURS, ALS), films=ALL, fraction=fraction)
    for crowd in CROWDS:
        add("8", EPSILONS, (EXACT, ALS), (EXACT, LAST), crowd=crowd)
    for rank in (4, 16):
        add("9", EPSILONS, (EXACT, ALS), (EXACT, LAST), rank=rank)
    for fraction in (0.1, 0.4, 1.0):
        add("10", EPSILONS, (EXACT, ALS), (EXACT, LAST), fraction=fraction, films=ALL)
    for sampling in ("adaptive", "uniform", "no projection"):
        add("5", (10.0,), (EXACT, ALS), sampling=sampling, films=ALL, fraction=0.4)
    for sampling, fraction in (("none", 1.0), ("none", 0.4), ("adaptive", 0.4), ("uniform", 0.4)):
        add("5", (None,), (CLEAR, ALS), sampling=sampling, films=ALL, fraction=fraction)
    for exponents in (True, False):
        add("12", (10.0,), (EXACT, ALS), exponents=exponents, films=ALL, fraction=0.4)
    return found


def als_settings(cell: Cell, rounds: int, ridge: float) -> dpals.Settings:
    """mu^2 = kT(1/sigma_G^2 + 1/sigma_g^2) + 4k/sigma_p^2, or as Table 4 books it: in rho^2, with k + 1 for the mean."""
    epsilon, k = cell["epsilon"], ALL if cell["sampling"] == "none" else 50
    if cell.column == CLEAR:
        sigma = pre = 0.0
    else:
        if cell.column == PRINTED:
            rho = math.sqrt(math.log(1.0 / DELTA) + epsilon) - math.sqrt(math.log(1.0 / DELTA))
            whole, pre = 2.0 * rho**2, math.sqrt((k + 1.0) / (0.1 * rho**2))
        else:
            whole = gaussian_mu(epsilon, DELTA) ** 2
            pre = math.sqrt(4.0 * k / (0.1 * whole))
        sigma = math.sqrt(k * rounds * 1.25 / (0.9 * whole))  # of the right-hand sides
    powers = (0.5, 1.0) if cell["exponents"] else (0.0, 0.0)
    return dpals.Settings(
        cell["rank"], rounds, k, ridge, 2.0 * sigma, sigma, entry_bound=5.0, orthonormal=False, item_exponent=powers[0],
        user_exponent=powers[1], sigma_pre=pre, frequent=cell["fraction"], adaptive=cell["sampling"] != "uniform",
        projected=cell["sampling"] != "no projection", ridge_last=cell["method"] == LAST, copies=cell["crowd"],
    )  # fmt: skip


def candidates(cell: Cell) -> tuple[Any, ...]:
    """Four of each method: rounds and ridge, rounds, steps."""
    ridges = (20.0, 60.0) if cell.column == CLEAR else (80.0, 160.0)
    rounds = (4, 10) if cell.column == CLEAR else (2, 4)
    als = tuple(product(rounds, ridges))
    return {ALS: als, LAST: als, FW: (2, 5, 10, 20), SGD: (0.1, 0.3, 1.0, 3.0)}[cell["method"]]


def fitted(cell: Cell, data: Data, choice: Any, rng: np.random.Generator) -> float:
    method, people = cell["method"], int(data.user.max()) + 1
    if method in (ALS, LAST):
        model = dpals.fit(data.train, als_settings(cell, *choice), rng)
        return data.rmse(dpals.predict(model, data.train[:people])[data.user, data.item])
    capped = dpals.sample(data.train, 80, rng)
    lengths = np.diff(capped.indptr)
    means = np.asarray(capped.sum(axis=1)).ravel() / np.maximum(lengths, 1)
    centred = dpals.with_values(capped, capped.data - np.repeat(means, lengths))
    if method == FW:
        guess = _frank_wolfe(centred, data, choice, cell, rng)
    else:
        noise = sgd.noise_multiplier(cell["epsilon"], DELTA, 10) / cell["crowd"]
        s = sgd.Settings(cell["rank"], 10, choice, 10.0, 5.0, noise, capped.shape[0])
        guess = sgd.predict(sgd.fit(centred, s, rng), centred[:people], s)[data.user, data.item]
    return data.rmse(means[data.user] + guess)


def _frank_wolfe(centred: Any, data: Data, rounds: int, cell: Cell, rng: np.random.Generator) -> Any:
    """The norms are those of the paper's panel, by its users."""
    norm, nuclear = 10.0, 30_000.0 * math.sqrt(centred.shape[0] / 70_000)
    sigma = noise_for(dpfw.frank_wolfe_mu(rounds, norm, 1.0), cell["epsilon"], DELTA) / cell["crowd"]
    return on_top(centred, dpfw.Settings(rounds, norm, nuclear, sigma), (data.user, data.item), rng)


@lru_cache(maxsize=256)
def tuned(cell: Cell, quick: bool) -> Any:
    data = load(cell["films"], VALIDATION, quick)
    score = lambda choice: fitted(cell, data, choice, np.random.default_rng([VALIDATION, 3]))
    return candidates(cell)[0] if quick else min(candidates(cell), key=score)


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    data = load(cell["films"], seed, quick)
    if cell["method"] == MEAN:
        return {"rmse": data.rmse(np.full(len(data.truth), data.train.data.mean()))}
    if cell.column == OURS:  # c users with the same ratings and c times the noise: the same as fewer and less
        asked = gaussian_epsilon(cell["crowd"] * gaussian_mu(cell["epsilon"], DELTA), DELTA)
        domain = lk.Domain(data.train.shape[1], (1.0, 5.0), expected_users=data.train.shape[0])
        model = lk.DPFactors(asked, DELTA).fit(lk.Ratings.from_csr(data.train, domain))
        guess = model.predict(data.train[: int(data.user.max()) + 1])
        return {"rmse": data.rmse(guess[data.user, data.item])}
    return {"rmse": fitted(cell, data, tuned(cell, quick), np.random.default_rng([seed, 3]))}
