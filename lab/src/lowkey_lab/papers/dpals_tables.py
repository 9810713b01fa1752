"""Lab room: Table 4 of the DPALS paper (what its noise guarantees) and Table 5 (accuracy, where the data are).

Paper: Chien et al. 2021, section 6.2 and appendix D. Table 5 has the settings of Table 4, delta = 1e-5 on ML-10M and 1/n on
ML-20M, 20 draws with standard deviations; ALS, popularity, the mean and private Frank-Wolfe stand beside. As no noise is
stated for the users' Gram matrix of ML-20M, it has sigma_G there. Netflix is in no table of this paper: its 400 most rated
films run with the settings of ML-10M-top400, beside Frank-Wolfe, which has a panel of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.privacy.accounting import gaussian_epsilon
from lowkey_lab import datasets, sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent, in_columns, row_of
from lowkey_lab.dpals_table4 import ML_10M, ML_10M_DELTA, ML_10M_TOP400, ML_20M, ML_20M_DELTA, Column
from lowkey_lab.printed import dpals, dpfw
from lowkey_lab.printed.held import noise_for
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell, Draws, Row, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less

CLEAR = "not private"
SETS = {  # columns of Table 4, items, delta
    "ml-10m-top400": (ML_10M_TOP400, 400, ML_10M_DELTA),
    "ml-10m": (ML_10M, 10_677, ML_10M_DELTA),
    "ml-20m": (ML_20M, 20_108, ML_20M_DELTA),
}
PLACE = "Table 5, Figure 3"
PUBLISHED = {  # Table 5: the mean over 20 runs, and the standard deviation
    "ml-10m-top400": ("rmse", (0.8855, 0.8321, 0.8201, 0.8147), (0.0025, 0.0009, 0.0011, 0.0008)),
    "ml-10m": ("rmse", (0.9398, 0.8725, 0.8530, 0.8373), (0.0009, 0.0006, 0.0004, 0.0005)),
    "ml-20m": ("recall@20", (0.3120, 0.3330, 0.3368, 0.3444), (0.0016, 0.0010, 0.0012, 0.0013)),
}
NAMES = {
    PRINTED: "DPALS, Algorithms 1 and 3, Table 4",
    EXACT: "DPALS, Algorithms 1 and 3, Table 4, noise that holds",
    OURS: "DPFactors or DPMoments, product",
}
NETFLIX = "netflix-top400"
DRAWS = 20
BESIDE = ("ALS", "Popularity", "Bias", "DPFW, Algorithm 1, exact accounting")


def settings_of(name: str, column: Column) -> dpals.Settings:
    """A column of Table 4; Gamma_M is the largest rating."""
    bound = 1.0 if name == "ml-20m" else 5.0
    return dpals.Settings(
        column.rank, column.n_iter, column.max_ratings, column.reg, column.gram_noise, column.rhs_noise,
        entry_bound=bound, orthonormal=False, item_exponent=column.item_exponent or 0.0,
        user_exponent=column.user_exponent or 0.0, unobserved=column.global_reg,
        sigma_pre=column.preprocessing_noise, frequent=column.head_fraction,
    )  # fmt: skip


# Table 4 ----------------------------------------------------------------------------------------------------------------
def table_4(quick: bool) -> Outcome:
    """What the noise of Table 4 guarantees: computed, not drawn."""
    rows: list[Row] = []
    claims: list[Claim] = []
    for name, (columns, n_items, delta) in SETS.items():
        held = [dpals.held(settings_of(name, column), delta) for column in columns]
        public = [dpals.held(replace(settings_of(name, column), user_exponent=0.0), delta) for column in columns]
        asked = [column.claimed_epsilon for column in columns]
        domain = lk.Domain(n_items, None if name == "ml-20m" else (0.5, 5.0), "binary" if name == "ml-20m" else "ratings",
                           expected_users=70_000)  # fmt: skip
        ours = [lk.DPALS(e, delta).plan(domain).price.epsilon for e in asked]
        booked, exact = [h.claimed for h in held], [gaussian_epsilon(h.mu, delta) for h in public]
        rows += [{"data": name, "claimed": a, "booked": b, "as printed": h.epsilon, "Z public": e, "ours": o}
                 for a, b, h, e, o in zip(asked, booked, held, exact, ours, strict=True)]  # fmt: skip
        fine = lambda values, asked=asked: all(v <= a * 1.0005 for v, a in zip(values, asked, strict=True))
        word: Callable[[Any], Verdict] = lambda values, fine=fine: "holds" if fine(values) else "does not hold"
        leak = "no noise is stated for the users' Gram matrix" if name == "ml-20m" else "Z is made of exact user counts"
        told = {
            PRINTED: Finding(NAMES[PRINTED], f"{held[0].word}: {leak}; it books {row_of(booked, 4)}",
                             word([h.epsilon for h in held])),
            EXACT: Finding(f"{NAMES[PRINTED]}, Z public, priced exactly", f"epsilon {row_of(exact, 4)}", word(exact)),
            OURS: Finding("DPALS, product", f"epsilon {row_of(ours, 4)}", word(ours)),
        }  # fmt: skip
        stated = f"The noise of Table 4 gives epsilon {row_of(asked)} on {name} (delta = {delta:.3g})."
        claims.append(Claim(stated, place="Table 4", reason="at most the claimed epsilon, in every column", columns=told))
    return Outcome(claims, {"dpals-table-4": rows})


# Table 5 ----------------------------------------------------------------------------------------------------------------
def table_5(quick: bool, pieces: Path | None = None) -> Outcome:
    """Every set that is here; the quick form runs none of them."""
    claims: list[Claim] = []
    rows: dict[str, list[Row]] = {}
    for name in (*PUBLISHED, NETFLIX):
        source = name.removesuffix("-top400")
        asked = row_of([column.claimed_epsilon for column in setting(name)[0]])
        if name == NETFLIX:
            stated = f"Not in the paper: DPALS, set as for ml-10m-top400, has a lower RMSE than DPFW on {name}."
        else:
            measure, means, _ = PUBLISHED[name]
            stated = f"{measure} of DPALS on {name} at epsilon {asked}: {row_of(means)}."
        if sources.found(source) is None or quick:
            where = sources.SOURCES[source].where
            claims.append(absent(stated, f"{source} in LOWKEY_DATA, and the full form", where, PLACE))
            continue
        rows[f"dpals-table-5-{name}"] = mine = run(cells(name), score, DRAWS, pieces)
        found = Draws(mine)
        claims.append(beside_claim(stated, name, found) if name == NETFLIX else table_5_claim(stated, name, found))
    return Outcome(claims, rows)


def setting(name: str) -> tuple[tuple[Column, ...], int, float]:
    return SETS["ml-10m-top400" if name == NETFLIX else name]


def measure_of(name: str) -> str:
    return "rmse" if name == NETFLIX else PUBLISHED[name][0]


def cells(name: str) -> list[Cell]:
    at = [column.claimed_epsilon for column in setting(name)[0]]
    found = [Cell.of(column, algorithm, data=name, epsilon=e) for e in at for column, algorithm in NAMES.items()]
    if name != "ml-20m":
        found += [Cell.of(EXACT, BESIDE[3], data=name, epsilon=e) for e in at]
    return found + [Cell.of(CLEAR, baseline, data=name, epsilon=None) for baseline in BESIDE[:3]]


@lru_cache(maxsize=1)
def split_of(name: str, seed: int) -> Any:
    return datasets.load(name, 0 if name == "ml-20m" else seed)


def score(cell: Cell, seed: int) -> dict[str, float]:
    """The measure of Table 5 on the test part; for ML-20M the split is the published one."""
    name, epsilon = cell["data"], cell["epsilon"]
    split, measure, delta = split_of(name, seed), measure_of(name), setting(name)[2]
    if cell.column in (OURS, CLEAR):
        kind: Any = lk.DPMoments if name == "ml-20m" else lk.DPFactors
        if cell.column == CLEAR:
            kind = getattr(lk, cell.algorithm)
        if cell.algorithm == "Bias" and name == "ml-20m":
            return {measure: math.nan}
        model = kind().fit(split.train) if cell.column == CLEAR else kind(epsilon, delta).fit(split.train)
        return {measure: evaluate(model, split.histories, split.held_out).get(measure, math.nan)}
    rng, train = np.random.default_rng([seed, 11]), split.train._open_csr().astype(float)
    if cell.algorithm == BESIDE[3]:
        return {measure: _frank_wolfe(split, train, epsilon, delta, rng)}
    (column,) = [c for c in setting(name)[0] if c.claimed_epsilon == epsilon]
    settings = settings_of(name, column)
    if name == "ml-20m":
        settings = replace(settings, sigma_unobserved=settings.sigma_gram)
    if cell.column == EXACT:
        factor = noise_for(dpals.held(replace(settings, user_exponent=0.0), delta).mu, epsilon, delta)
        assert settings.sigma_pre is not None
        fields = ("sigma_gram", "sigma_rhs", "sigma_pre", "sigma_unobserved")
        more = {field: getattr(settings, field) * factor for field in fields}
        settings = replace(settings, **more)
    return {measure: printed_score(dpals.fit(train, settings, rng), split.histories, split.held_out, measure)}


def printed_score(model: dpals.Fitted, shown: Any, hidden: Any, measure: str) -> float:
    """RMSE on the held-out cells, or Recall@20 of unseen items, in blocks of users."""
    squares, recalls, count = 0.0, [], 0
    for low in range(0, shown.shape[0], 2048):
        histories, held = shown[low : low + 2048], hidden[low : low + 2048].tocoo()
        guess = dpals.predict(model, histories.astype(float))
        squares, count = squares + float(np.sum((guess[held.row, held.col] - held.data) ** 2)), count + held.nnz
        if measure != "rmse":
            seen = histories.tocoo()
            guess[seen.row, seen.col] = -np.inf
            top = np.argpartition(-guess, 20, axis=1)[:, :20]
            truth = np.zeros(guess.shape, bool)
            truth[held.row, held.col] = True
            hits, most = np.take_along_axis(truth, top, axis=1).sum(axis=1), np.minimum(truth.sum(axis=1), 20)
            recalls += (hits[most > 0] / most[most > 0]).tolist()
    return math.sqrt(squares / count) if measure == "rmse" else float(np.mean(recalls))


def _frank_wolfe(split: Any, train: Any, epsilon: float, delta: float, rng: np.random.Generator) -> float:
    """As Jain et al.: the user's mean taken off, at most 80 ratings; ten rounds, and the norm of their ML-10M panel."""
    capped = dpals.sample(train, 80, rng)
    lengths = np.diff(capped.indptr)
    means = np.asarray(capped.sum(axis=1)).ravel() / np.maximum(lengths, 1)
    centred = dpals.with_values(capped, capped.data - np.repeat(means, lengths))
    norm = 4.5 * math.sqrt(80.0) / 2.0  # the largest row that the range allows
    sigma = noise_for(dpfw.frank_wolfe_mu(10, norm, 1.0), epsilon, delta)
    held = split.held_out.tocoo()
    guess = means[held.row] + on_top(centred, dpfw.Settings(10, norm, 30_000.0, sigma), (held.row, held.col), rng)
    return float(np.sqrt(np.mean((np.clip(guess, 0.5, 5.0) - held.data) ** 2)))


def on_top(centred: Any, s: dpfw.Settings, cells: tuple[Any, Any], rng: np.random.Generator) -> Any:
    """DPFW on the 400 most rated films, as on all of ML-10M in section 6.2; 0 elsewhere: the user's mean."""
    top = np.sort(np.argsort(-np.bincount(centred.indices, minlength=centred.shape[1]), kind="stable")[:400])
    model = dpfw.frank_wolfe(scipy.sparse.csr_array(centred[:, top]), s, rng)
    directions = np.zeros((s.n_iter, centred.shape[1]))
    directions[:, top] = model.directions
    return np.einsum("nt,nt->n", model.coefficients[cells[0]], directions[:, cells[1]].T)


def table_5_claim(stated: str, name: str, found: Draws) -> Claim:
    """Within four of the paper's standard deviations of its mean, either way; ours at least as good as the paper."""
    measure, means, spreads = PUBLISHED[name]
    asked = [column.claimed_epsilon for column in SETS[name][0]]

    def near(column: str) -> Finding:
        mine = [found.of(measure, algorithm=NAMES[column], epsilon=e) for e in asked]
        text = "; ".join(f"{np.mean(m):.4f} (standard deviation {np.std(m, ddof=1):.4f})" for m in mine)
        free = (-math.inf, 0.0) if measure == "rmse" else (0.0, math.inf)  # ours may be as much better as it likes
        verdicts: list[Verdict] = []
        for draws, mean, spread in zip(mine, means, spreads, strict=True):
            room = free if column == OURS else (0.0, 0.0)
            verdicts.append(between(estimate(draws), mean - 4.0 * spread + room[0], mean + 4.0 * spread + room[1]))
        return Finding(NAMES[column], text, every(verdicts))

    return in_columns(stated, PLACE, "within four of its standard deviations; ours also if better", found, near)


def beside_claim(stated: str, name: str, found: Draws) -> Claim:
    """DPALS beside DPFW, at the same held epsilon."""
    asked = [column.claimed_epsilon for column in setting(name)[0]]
    theirs = [found.of("rmse", algorithm=BESIDE[3], epsilon=e) for e in asked]

    def below(column: str) -> Finding:
        mine = [found.of("rmse", algorithm=NAMES[column], epsilon=e) for e in asked]
        text = f"RMSE {'; '.join(str(estimate(m)) for m in mine)}; DPFW {'; '.join(str(estimate(t)) for t in theirs)}"
        return Finding(NAMES[column], text, every(less(m, t, paired=True) for m, t in zip(mine, theirs, strict=True)))

    return in_columns(stated, PLACE, f"at epsilon {row_of(asked)}", found, below, judged=EXACT)
