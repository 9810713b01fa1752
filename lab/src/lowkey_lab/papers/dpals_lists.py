"""Lab room: stand-ins for the lists of the DPALS paper (Figures 3c and 11, half of 9), on MovieLens 1M as binary feedback.

Paper: Chien et al. 2021; the figures need MovieLens 20M. Here who rated what in MovieLens 1M; 600 users are held out, four
fifths of their films are shown and Recall@20 is on the rest; each of 2,000 others stands for 240 with the same films:
480,000 people, where MovieLens 20M has 136,677. Algorithms 1 and 3 with lambda_0; k = 60 and sigma_G = sigma_g, as in Table
4, and sigma_K the same; a tenth of mu^2 goes to the counts; delta = 1/n; rank 16 where the paper has 32 and 128. Rounds,
ridge and lambda_0 are chosen for every cell on a draw that no trial uses, from eight. Nothing is centred; off the frequent
films the score is 0.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu
from lowkey_lab import datasets, sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent, in_columns
from lowkey_lab.papers.dpals_tables import printed_score
from lowkey_lab.printed import dpals
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell, Draws, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less, ratio

DELTA, VALIDATION, USERS, CROWD, K, MEASURE = 1.0 / 480_000, 1000, 2_000, 240, 60, "recall@20"
EPSILONS, CLEAR = (1.0, 10.0), "not private"
NAMES = {
    PRINTED: "DPALS, Algorithms 1 and 3, booked as Table 4",
    EXACT: "DPALS, Algorithms 1 and 3, exact accounting",
    OURS: "DPMoments, product",
    CLEAR: "Algorithm 1 without noise",
}
COMPARABLE = 0.9  # "comparable": nine tenths of the recall without noise


def cells() -> list[Cell]:
    cell = lambda figure, column, e, fraction=0.1, rank=16: Cell.of(
        column, NAMES[column], figure=figure, epsilon=e, fraction=fraction, rank=rank
    )
    found = [cell("3c", column, e) for e in EPSILONS for column in (PRINTED, EXACT, OURS)]
    found += [cell("3c", CLEAR, None, 1.0), Cell.of(CLEAR, "Popularity", figure="3c", epsilon=None, fraction=1.0, rank=0)]
    found += [cell("11", EXACT, 5.0, fraction) for fraction in (0.05, 0.1, 0.4, 1.0)]
    return found + [cell("9", EXACT, e, 0.1, rank) for e in (1.0, 20.0) for rank in (8, 32)]


@lru_cache(maxsize=2)
def load(seed: int, quick: bool) -> Any:
    split = datasets.ml_1m(seed, "binary")
    rows = split.train._open_csr()
    if quick:
        return rows[:600, :300], split.histories[:60, :300], split.held_out[:60, :300]
    return rows[:USERS], split.histories, split.held_out


def settings(cell: Cell, rounds: int, ridge: float, unobserved: float) -> dpals.Settings:
    """mu^2 = kT(1/sigma_G^2 + 1/sigma_g^2) + T/sigma_K^2 + 2k/sigma_p^2; as printed in rho^2, K not priced."""
    epsilon = cell["epsilon"]
    if cell.column == CLEAR:
        sigma = pre = 0.0
    elif cell.column == PRINTED:
        rho = math.sqrt(math.log(1.0 / DELTA) + epsilon) - math.sqrt(math.log(1.0 / DELTA))
        sigma, pre = math.sqrt(K * rounds / (0.9 * rho**2)), math.sqrt((K + 1.0) / (0.1 * rho**2))
    else:
        whole = gaussian_mu(epsilon, DELTA) ** 2
        sigma, pre = math.sqrt(rounds * (2.0 * K + 1.0) / (0.9 * whole)), math.sqrt(2.0 * K / (0.1 * whole))
    k = 4_000 if cell.column == CLEAR else K
    return dpals.Settings(
        cell["rank"], rounds, k, ridge, sigma, sigma, orthonormal=False, unobserved=unobserved, sigma_unobserved=sigma,
        sigma_pre=pre, frequent=cell["fraction"], copies=CROWD,
    )  # fmt: skip


CANDIDATES = tuple(product((1, 2), (1.0, 30.0), (0.02, 0.1)))


def fitted(cell: Cell, data: Any, choice: tuple[int, float, float], rng: np.random.Generator) -> float:
    train, histories, held_out = data
    rounds, ridge, unobserved = choice
    s = settings(cell, 4 if cell.column == CLEAR else rounds, ridge, unobserved)
    return printed_score(dpals.fit(train.astype(float), s, rng), histories, held_out, MEASURE)


@lru_cache(maxsize=64)
def tuned(cell: Cell, quick: bool) -> tuple[int, float, float]:
    score = lambda choice: fitted(cell, load(VALIDATION, quick), choice, np.random.default_rng([VALIDATION, 3]))
    return CANDIDATES[0] if quick else max(CANDIDATES, key=score)


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    train, histories, held_out = load(seed, quick)
    if cell.column == OURS or cell.algorithm == "Popularity":
        ratings = lk.Ratings.from_csr(train, lk.Domain(train.shape[1], None, "binary", expected_users=USERS))
        model: Any = lk.Popularity()
        if cell.column == OURS:  # the noise of a crowd of CROWD times as many
            model = lk.DPMoments(gaussian_epsilon(CROWD * gaussian_mu(cell["epsilon"], DELTA), DELTA), DELTA)
        return {MEASURE: evaluate(model.fit(ratings), histories, held_out)[MEASURE]}
    return {MEASURE: fitted(cell, (train, histories, held_out), tuned(cell, quick), np.random.default_rng([seed, 3]))}


# Claims -----------------------------------------------------------------------------------------------------------------
def figures(quick: bool, pieces: Path | None = None) -> Outcome:
    """Figures 3c, 9 and 11, from one run."""
    if sources.found("ml-1m") is None:
        where = sources.SOURCES["ml-1m"].where
        return Outcome([absent("Figures 3c and 11 on a stand-in", "ml-1m.parquet", where, "Figure 3 (c), Figure 11")])
    rows = run(cells(), lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)
    return Outcome(claims(Draws(rows)), {"dpals-lists": rows})


def claims(found: Draws) -> list[Claim]:
    at = lambda figure, column, e, **facts: found.of(MEASURE, figure=figure, column=column, epsilon=e, **facts)
    popular = found.of(MEASURE, algorithm="Popularity")
    clear = found.of(MEASURE, algorithm=NAMES[CLEAR])

    def above(column: str) -> Finding:
        mine = [at("3c", column, e) for e in EPSILONS]
        text = f"Recall@20 at epsilon 1 and 10: {'; '.join(str(estimate(m)) for m in mine)}; popularity {estimate(popular)}"
        return Finding(NAMES[column], text, every(less(popular, m, paired=True) for m in mine))

    def near(column: str) -> Finding:
        folds = [ratio(at("3c", column, e), clear, paired=True) for e in EPSILONS]
        text = f"{'; '.join(map(str, folds))} of the {estimate(clear)} without noise, at epsilon 1 and 10"
        return Finding(NAMES[column], text, every(between(fold, COMPARABLE, 9.0) for fold in folds))

    def told(sentence: str, place: str, rule: str, lists: dict[str, list[float]], verdict: Verdict) -> Claim:
        text = "Recall@20 " + "; ".join(f"{name}: {estimate(draws)}" for name, draws in lists.items())
        finding = Finding(NAMES[EXACT], text, verdict)
        return Claim(f"{sentence}, on a stand-in.", place=place, reason=rule, columns={EXACT: finding}, judged=EXACT)

    shares = {f"{f:.0%}": at("11", EXACT, 5.0, fraction=f) for f in (0.05, 0.1, 0.4, 1.0)}
    few: list[Verdict] = [less(shares["100%"], shares[f], paired=True) for f in ("5%", "10%")]
    ranks = {f"rank {k}, epsilon {e:g}": at("9", EXACT, e, rank=k) for e in (1.0, 20.0) for k in (8, 32)}
    order: list[Verdict] = [less(ranks["rank 32, epsilon 1"], ranks["rank 8, epsilon 1"], paired=True),
                            less(ranks["rank 8, epsilon 20"], ranks["rank 32, epsilon 20"], paired=True)]  # fmt: skip
    place = "section 6.2, Figure 3 (c)"
    return [
        in_columns("DPALS has a higher Recall@20 than the most rated films, on a stand-in.", place, "at epsilon 1 and 10",
                   found, above, judged=EXACT),
        in_columns("The recall of DPALS is comparable to that without privacy, even at small epsilon, on a stand-in.",
                   place, f"comparable: at least {COMPARABLE:.0%}, at epsilon 1 and 10", found, near, judged=EXACT),
        told("The best fraction of films is between 5 % and 10 %", "Figure 11", "5 % and 10 % against all, at epsilon 5",
             shares, every(few)),
        told("For lists a lower rank is better at small epsilon and a higher one at 20", "Figure 9", "8 against 32",
             ranks, every(order)),
    ]  # fmt: skip
