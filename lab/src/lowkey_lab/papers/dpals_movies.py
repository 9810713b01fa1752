"""Lab room: stand-ins for the MovieLens figures of the DPALS paper, on half-thinned copies of MovieLens 1M.

Paper: Chien et al. 2021, Figures 3, 5, 8, 9, 10 and 12, which need MovieLens 10M. Here: each user of MovieLens 1M as two
copies that keep half of the ratings (12,080 users), rank 8 where the paper has up to 128; a tenth of the ratings of 1,000
users is the test. As in Table 4 T = 2, k = 50, sigma_G = 2 sigma_g, (nu, mu) = (1, 0.5); a tenth of mu^2 goes to Algorithm
3. Ridge, rounds and steps are chosen for every cell on a draw that no trial uses. *As printed* books as Table 4 does;
*exact accounting* prices the mean rightly and takes Z as public. DPFW and DP-SGD stand beside with exact accounting. What
is seen is of the stand-in alone. Figures 2 and 6 show how ratings are spread, and claim nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.privacy.accounting import gaussian_mu
from lowkey_lab import sgd, sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent, in_columns, row_of
from lowkey_lab.printed import dpals, dpfw
from lowkey_lab.printed.held import noise_for
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell, Draws, run
from lowkey_lab.verdicts import Verdict, estimate, every, less

DELTA, VALIDATION, TESTED = 1e-5, 1000, 1_000
ALS, FW, SGD, MEAN = "DPALS", "DPFW", "DP-SGD", "the mean of all ratings"
NAMES = {
    (PRINTED, ALS): "DPALS, Algorithms 1 and 3, booked as Table 4",
    (EXACT, ALS): "DPALS, Algorithms 1 and 3, exact accounting",
    (EXACT, FW): "DPFW, Algorithm 1, exact accounting",
    (EXACT, SGD): "DP-SGD, exact accounting",
    (OURS, ALS): "DPFactors, product",
}
STANDARD = {"copies": 2, "rank": 8, "fraction": 1.0, "exponents": True, "sampling": "adaptive", "films": 400}


class Data(NamedTuple):
    train: Any
    user: Any
    item: Any
    truth: Any

    def rmse(self, guess: Any) -> float:
        return float(np.sqrt(np.mean((np.clip(guess, 1.0, 5.0) - self.truth) ** 2)))


@lru_cache(maxsize=3)
def load(films: int, copies: int, seed: int, quick: bool) -> Data:
    """The most rated films, each user ``copies`` times with half of the ratings, less the test cells of the first users."""
    rows = sources.as_rows(sources.columns("ml-1m"))
    most = np.argsort(-np.bincount(rows.indices, minlength=rows.shape[1]), kind="stable")[: 100 if quick else films]
    rows = scipy.sparse.csr_array(rows[: 600 if quick else None, np.sort(most)]).astype(float)
    rng = np.random.default_rng([seed, films, copies])
    whole: Any = scipy.sparse.csr_array(
        scipy.sparse.vstack([dpals.chosen(rows, rng.random(rows.nnz) < 0.5) for _ in range(copies)])
    )
    user = np.repeat(np.arange(whole.shape[0]), np.diff(whole.indptr))
    tested = (rng.random(whole.nnz) < 0.1) & (user < TESTED)
    return Data(dpals.chosen(whole, ~tested), user[tested], whole.indices[tested], whole.data[tested])


def cells(quick: bool) -> list[Cell]:
    """By figure; what a figure varies, and the standard for the rest."""
    found = [Cell.of(column, name, figure="3", method=method, epsilon=e, **STANDARD)
             for e in (1.0, 10.0) for (column, method), name in NAMES.items()]  # fmt: skip
    found.append(Cell.of("not private", MEAN, figure="3", method=MEAN, epsilon=None, **STANDARD))

    def vary(figure: str, epsilons: tuple[float, ...], **changes: Any) -> None:
        found.extend(Cell.of(EXACT, NAMES[EXACT, ALS], figure=figure, method=ALS, epsilon=e, **{**STANDARD, **changes})
                     for e in epsilons)  # fmt: skip

    for copies in (1, 2):
        vary("8", (1.0, 10.0), copies=copies)
    for rank in (4, 16):
        vary("9", (1.0, 10.0), rank=rank)
    for fraction in (0.1, 0.4, 1.0):
        vary("10", (1.0, 10.0), fraction=fraction, films=3706)
    for sampling in ("adaptive", "uniform", "no projection"):
        vary("5", (10.0,), sampling=sampling, films=3706, fraction=0.4)
    for exponents in (True, False):
        vary("12", (10.0,), exponents=exponents, films=3706, fraction=0.4)
    return found


def als_settings(cell: Cell, ridge: float) -> dpals.Settings:
    """mu^2 = kT(1/sigma_G^2 + 1/sigma_g^2) + 4k/sigma_p^2, or as Table 4 books it: in rho^2, with k + 1 for the mean."""
    k, rounds, epsilon = 50, 2, cell["epsilon"]
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
        projected=cell["sampling"] != "no projection",
    )  # fmt: skip


def candidates(cell: Cell) -> tuple[Any, ...]:
    """Three of each method: the ridge, the rounds, the step."""
    return {ALS: (10.0, 40.0, 160.0), FW: (2, 5, 10), SGD: (0.1, 0.3, 1.0)}[cell["method"]]


def fitted(cell: Cell, data: Data, choice: Any, rng: np.random.Generator) -> float:
    method, people = cell["method"], int(data.user.max()) + 1
    if method == ALS:
        model = dpals.fit(data.train, als_settings(cell, choice), rng)
        return data.rmse(dpals.predict(model, data.train[:people])[data.user, data.item])
    capped = dpals.sample(data.train, 80, rng)
    lengths = np.diff(capped.indptr)
    means = np.asarray(capped.sum(axis=1)).ravel() / np.maximum(lengths, 1)
    centred = dpals.with_values(capped, capped.data - np.repeat(means, lengths))
    if method == FW:
        norm, nuclear = 10.0, 30_000.0 * math.sqrt(capped.shape[0] / 70_000)  # of the paper's panel, by its users
        sigma = noise_for(dpfw.frank_wolfe_mu(choice, norm, 1.0), cell["epsilon"], DELTA) if choice > 1 else 0.0
        found = dpfw.frank_wolfe(centred, dpfw.Settings(choice, norm, nuclear, sigma), rng)
        guess = np.einsum("nt,nt->n", found.coefficients[data.user], found.directions[:, data.item].T)
    else:
        noise = sgd.noise_multiplier(cell["epsilon"], DELTA, 10)
        s = sgd.Settings(cell["rank"], 10, choice, 10.0, 5.0, noise, capped.shape[0])
        guess = sgd.predict(sgd.fit(centred, s, rng), centred[:people], s)[data.user, data.item]
    return data.rmse(means[data.user] + guess)


@lru_cache(maxsize=256)
def tuned(cell: Cell, quick: bool) -> Any:
    data = load(cell["films"], cell["copies"], VALIDATION, quick)
    score = lambda choice: fitted(cell, data, choice, np.random.default_rng([VALIDATION, 3]))
    return candidates(cell)[0] if quick else min(candidates(cell), key=score)


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    data = load(cell["films"], cell["copies"], seed, quick)
    if cell["method"] == MEAN:
        return {"rmse": data.rmse(np.full(len(data.truth), data.train.data.mean()))}
    if cell.column == OURS:
        domain = lk.Domain(data.train.shape[1], (1.0, 5.0), expected_users=data.train.shape[0])
        model = lk.DPFactors(cell["epsilon"], DELTA).fit(lk.Ratings.from_csr(data.train, domain))
        guess = model.predict(data.train[: int(data.user.max()) + 1])
        return {"rmse": data.rmse(guess[data.user, data.item])}
    return {"rmse": fitted(cell, data, tuned(cell, quick), np.random.default_rng([seed, 3]))}


# Claims -----------------------------------------------------------------------------------------------------------------
def figures(quick: bool, pieces: Path | None = None) -> Outcome:
    """All of them, from one run."""
    if sources.found("ml-1m") is None:
        where = sources.SOURCES["ml-1m"].where
        return Outcome([absent("Figures 3, 5, 8 to 10 and 12 on a stand-in", "ml-1m.parquet", where, "section 6")])
    rows = run(cells(quick), lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)
    return Outcome(claims(Draws(rows)), {"dpals-movies": rows})


def claims(found: Draws) -> list[Claim]:
    def at(figure: str, epsilon: float | None, column: str = EXACT, method: str = ALS, **facts: Any) -> list[float]:
        return found.of("rmse", figure=figure, epsilon=epsilon, column=column, method=method, **facts)

    mean = at("3", None, "not private", MEAN)
    show = lambda draws: str(estimate(draws))

    def against(column: str) -> Finding:
        mine, theirs = ([at("3", e, c, m) for e in (1.0, 10.0)] for c, m in ((column, ALS), (EXACT, FW)))
        beside = [at("3", e, EXACT, SGD) for e in (1.0, 10.0)]
        text = f"RMSE at epsilon 1 / 10: {row_of([float(np.mean(m)) for m in mine])}; DPFW {'; '.join(map(show, theirs))}; "
        text += f"DP-SGD {'; '.join(map(show, beside))}; the mean {show(mean)}"
        verdicts: list[Verdict] = []
        for one, other in zip(mine, theirs, strict=True):
            verdicts.append(less(one, other, paired=True))
            verdicts.append(less(one, mean, paired=True))
        return Finding(NAMES[column, ALS], text, every(verdicts))

    def told(sentence: str, place: str, rule: str, lists: dict[str, list[float]], verdict: Verdict) -> Claim:
        text = "RMSE " + "; ".join(f"{name}: {show(draws)}" for name, draws in lists.items())
        finding = Finding(NAMES[EXACT, ALS], text, verdict)
        return Claim(sentence, place=place, reason=rule, columns={EXACT: finding}, judged=EXACT)

    users = {f"{c} copies, epsilon {e:g}": at("8", e, copies=c) for e in (1.0, 10.0) for c in (1, 2)}
    more: Sequence[Verdict] = [less(at("8", e, copies=b), at("8", e, copies=a), paired=False)
                           for e in (1.0, 10.0) for a, b in pairwise((1, 2))]  # fmt: skip
    ranks = {f"rank {r}, epsilon {e:g}": at("9", e, rank=r) for e in (1.0, 10.0) for r in (4, 16)}
    order: Sequence[Verdict] = [less(at("9", 1.0, rank=4), at("9", 1.0, rank=16), paired=True),
             less(at("9", 10.0, rank=16), at("9", 10.0, rank=4), paired=True)]  # fmt: skip
    share = {f"{f:.0%}, epsilon {e:g}": at("10", e, fraction=f) for e in (1.0, 10.0) for f in (0.1, 0.4, 1.0)}
    fewer: Sequence[Verdict] = [less(at("10", 1.0, fraction=0.1), at("10", 1.0, fraction=1.0), paired=True),
             less(at("10", 10.0, fraction=0.4), at("10", 10.0, fraction=0.1), paired=True)]  # fmt: skip
    ways = {way: at("5", 10.0, sampling=way) for way in ("adaptive", "uniform", "no projection")}
    powers = {name: at("12", 10.0, exponents=flag) for name, flag in (("(1, 0.5)", True), ("(0, 0)", False))}
    here = "on a stand-in"
    return [
        in_columns(f"DPALS has a lower RMSE than DPFW and than the mean, {here}.", "section 6.2, Figure 3a",
                   "at epsilon 1 and 10", found, against, judged=EXACT),
        told(f"More users improve the trade-off, {here}.", "Figure 8", "from each number to the next", users, every(more)),
        told(f"A higher rank is better at larger epsilon and not at 1, {here}.", "Figure 9", "4 against 16", ranks,
             every(order)),
        told(f"As epsilon falls, the best fraction of films falls, {here}.", "Figure 10",
             "at 1 a tenth beats all; at 10 four tenths beat a tenth", share, every(fewer)),
        told(f"Adaptive sampling improves the private model, {here}.", "Figure 5", "against uniform", ways,
             less(ways["adaptive"], ways["uniform"], paired=True)),
        told(f"Without the projection the result is terrible, {here}.", "Figure 5", "worse by more than 0.1", ways,
             less(ways["adaptive"], ways["no projection"], paired=True, by=0.1)),
        told(f"Exponents (nu, mu) of the ridge improve on none, {here}.", "Figure 12", "(1, 0.5) against (0, 0)", powers,
             less(powers["(1, 0.5)"], powers["(0, 0)"], paired=True)),
    ]  # fmt: skip
