"""Lab room: what the trace regression paper claims of its rates, on Gaussian designs with unequal sides.

Paper: Zha 2024 (DP-RGrad), Theorems 1, 2, 3 and 7 and section 5; it has no figures. *As printed* are Algorithms 1 and 2 for
(epsilon, delta) each. *Exact accounting* has the printed sensitivities, which hold under the model alone, independent noise
on the core, and start and steps composed exactly to (epsilon, delta). *Ours* is ``DPTraceRegression``: clipped, for every
data set. Rates are slopes over n of one draw; a verdict is on the mean of ten. Constants of the theorems are 1. Designs:
equal covariances, twice the identity; a record's entries with variances from 1 to 3; records with variances from 1 to 3.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowkey.methods.trace.baseline import TraceRegression
from lowkey.methods.trace.method import DPTraceRegression
from lowkey.privacy.accounting import gaussian_mu
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise
from lowkey_lab.claims import Claim, Finding, Outcome, in_columns, row_of
from lowkey_lab.printed import dprgrad
from lowkey_lab.trials import EXACT, OURS, PRINTED, Cell, Draws, Row, run
from lowkey_lab.verdicts import Estimate, Verdict, between, estimate, every, ratio

Array = Any
DELTA, SIDES, RANK, COVARIANCE, ERROR = 1e-5, (16, 8), 2, 2.0, 0.25
SIZES, EPSILONS = (2_000, 6_000, 18_000), (2.0, 8.0)
SCALES, AT = (0.25, 1.0, 4.0), 6_000  # of sigma_r, and n there
EQUAL, BY_ENTRY, BY_RECORD = "equal", "by entry", "by record"
UNEQUAL = (1.0, 3.0)  # C_l and C_u of the unequal ones
NORMS = {"frobenius": 2.0, "nuclear": 1.0, "operator": math.inf}
CLEAR = "not private"
NAMES = {
    PRINTED: "Algorithms 1 and 2, sensitivities of Theorems 1 and 3",
    EXACT: "Algorithms 1 and 2, independent core noise, composed exactly",
    OURS: "DPTraceRegression, product",
    CLEAR: "TraceRegression, product, not private",
}


class Problem(NamedTuple):
    x: Array
    y: Array
    coef: Array
    smallest: float
    covariance: Any  # as DPTraceRegression takes it
    white: Array  # Lambda_i^-1 X_i
    ends: tuple[float, float]  # C_l, C_u

    def errors(self, coef: Array) -> dict[str, float]:
        values = np.linalg.svd(coef - self.coef, compute_uv=False)
        return {name: float(np.linalg.norm(values, q)) for name, q in NORMS.items()}


class Silent:
    """A generator of zeros: the same algorithm without its noise."""

    def standard_normal(self, size: Any) -> Array:
        return np.zeros(size)


@lru_cache(maxsize=2)
def planted(n: int, smallest: float, seed: int, design: str = EQUAL) -> Problem:
    """X with independent entries, their variances by the design; both singular values of M are ``smallest``."""
    rng = np.random.default_rng([seed, n])
    left, right = (np.linalg.qr(rng.standard_normal((side, RANK)))[0] for side in SIDES)
    coef = smallest * left @ right.T
    spread = np.linspace(*UNEQUAL, math.prod(SIDES)).reshape(1, *SIDES)
    variances, covariance, ends = np.full((1, 1, 1), COVARIANCE), COVARIANCE, (COVARIANCE, COVARIANCE)
    if design == BY_ENTRY:
        variances, covariance, ends = spread, np.diag(spread.ravel()), UNEQUAL
    if design == BY_RECORD:
        covariance, ends = np.linspace(*UNEQUAL, n), UNEQUAL
        variances = covariance[:, None, None]
    x = np.sqrt(variances) * rng.standard_normal((n, *SIDES))
    y = x.reshape(n, -1) @ coef.ravel() + ERROR * rng.standard_normal(n)
    return Problem(x, y, coef, smallest, covariance, x / variances, ends)


def settings(column: str, epsilon: float, given: Problem, protect: str) -> dprgrad.Settings:
    least, most = given.ends
    known = (RANK, epsilon, DELTA, given.smallest, given.smallest, ERROR, most, 0.5 / most, protect, least)
    asked = dprgrad.Settings(*known)
    if column == PRINTED:
        return asked
    # mu of all releases is proportional to the epsilon that the noise is made for
    rounds = dprgrad.n_iter(len(given.y))
    start = 3.0 / (18.0 * math.log(3.0 / DELTA))
    steps = 1.0 / (rounds * 2.0 * math.log(1.25 * rounds / DELTA))
    made_for = gaussian_mu(epsilon, DELTA) / math.sqrt(start + steps)
    return replace(asked, epsilon=made_for, symmetric_core=False)


def fitted(column: str, given: Problem, epsilon: float, protect: str, rng: Any) -> Array:
    if column == OURS:
        known: dict[str, Any] = {"error_std": ERROR, "max_singular_value": given.smallest, "covariance": given.covariance}
        noise = Billboard(noise=SeededNoise(0, factor=0.0)) if isinstance(rng, Silent) else Billboard()
        model = DPTraceRegression(RANK, epsilon, DELTA, protect=protect, **known)
        return model.fit(given.x, given.y, billboard=noise).coef_
    return dprgrad.fit(given.x, given.y, settings(column, epsilon, given, protect), rng, given.white)[-1]


def measure(cell: Cell, seed: int) -> dict[str, float]:
    given = planted(cell["n"], cell["sigma_r"], seed, cell["design"])
    if cell.column == CLEAR:
        return given.errors(TraceRegression(RANK, given.covariance).fit(given.x, given.y).coef_)
    rng = np.random.default_rng([seed, 5])
    found = fitted(cell.column, given, cell["epsilon"], cell["protect"], rng)
    bare = fitted(cell.column, given, cell["epsilon"], cell["protect"], Silent())
    return {**given.errors(found), "privacy": float(np.linalg.norm(found - bare))}


def cells(quick: bool) -> list[Cell]:
    sizes, scales, at = ((1_000, 4_000), (0.5, 4.0), 4_000) if quick else (SIZES, SCALES, AT)
    over_n = [(n, 1.0, e, "records", EQUAL) for n, e in product(sizes, EPSILONS)]
    over_scale = [(at, s, 8.0, protect, EQUAL) for s, protect in product(scales, ("records", "responses"))]
    over_design = [(at, 1.0, e, "records", design) for e, design in product(EPSILONS, (BY_ENTRY, BY_RECORD))]
    points = dict.fromkeys(over_n + over_scale + over_design)
    found = [Cell.of(column, NAMES[column], n=n, sigma_r=s, epsilon=e, protect=protect, design=design)
             for n, s, e, protect, design in points for column in (PRINTED, EXACT, OURS)]  # fmt: skip
    facts: dict[str, Any] = {"sigma_r": 1.0, "epsilon": None, "protect": "", "design": EQUAL}
    return found + [Cell.of(CLEAR, NAMES[CLEAR], n=n, **facts) for n in sizes]


def lower_bound(n: float, epsilon: float, q: float = 2.0, most: float = COVARIANCE) -> float:
    """Theorem 2 with c = 1; ``most`` is C_u."""
    side = max(SIDES)
    rate = RANK ** (1.0 / q) * math.sqrt(side / n) + RANK ** (0.5 + 1.0 / q) * side / (n * epsilon)
    return ERROR / math.sqrt(most) * rate


# Claims -----------------------------------------------------------------------------------------------------------------
def rates(quick: bool, pieces: Path | None = None) -> Outcome:
    """Error against n, epsilon and sigma_r; and how far one record moves the start."""
    rows = run(cells(quick), measure, 2 if quick else 10, pieces)
    moved = run(start_cells(quick), start_measure, 2 if quick else 10, pieces and pieces.with_suffix(".start.jsonl"))
    equal, other = ([row for row in rows if (row["facts"]["design"] == EQUAL) == same] for same in (True, False))
    claims = [*slope_claims(equal), design_claim(other), *scale_claims(equal), start_claim(moved)]
    return Outcome(claims, {"trace-rates": rows, "trace-start": moved})


def slopes(rows: list[Row], measure: str, **wanted: Any) -> Estimate:
    """Of log error in log n, for each draw of its own; the mean over draws and its error."""
    found = Draws(rows)
    sizes = sorted({row["facts"]["n"] for row in rows if row["facts"]["epsilon"] == wanted.get("epsilon")})
    log = np.log([found.of(measure, n=n, sigma_r=1.0, **wanted) for n in sizes])
    place = np.log(sizes) - np.mean(np.log(sizes))
    return estimate((place @ log / (place @ place)).tolist())


def slope_claims(rows: list[Row]) -> list[Claim]:
    over_n = [row for row in rows if row["facts"]["protect"] in ("", "records")]
    sizes = sorted({row["facts"]["n"] for row in over_n if row["column"] == CLEAR})
    over_n = [row for row in over_n if row["facts"]["n"] in sizes]
    clear = {name: slopes(over_n, name, column=CLEAR, epsilon=None) for name in NORMS}
    text = ", ".join(f"{name} {slope}" for name, slope in clear.items())
    like: Verdict = every(between(slope, -0.55, -0.45) for slope in clear.values())
    statistical = Finding(NAMES[CLEAR], f"slope in n: {text}", like)

    def privacy(column: str) -> Finding:
        found = [slopes(over_n, "privacy", column=column, epsilon=e, protect="records") for e in EPSILONS]
        part = Draws([row for row in over_n if row["facts"]["n"] == sizes[-1]])
        at = lambda e: part.of("privacy", column=column, epsilon=e, sigma_r=1.0, protect="records")
        fold = ratio(at(EPSILONS[0]), at(EPSILONS[-1]), paired=True)
        text = (
            f"slope in n at epsilon {row_of(EPSILONS)}: {'; '.join(map(str, found))}; epsilon fourfold: {fold} times less"
        )
        return Finding(NAMES[column], text, every(between(slope, -1.15, -0.85) for slope in found))

    def attained(column: str) -> Finding:
        return _over_bound(column, over_n, [(n, EPSILONS[0], EQUAL) for n in sizes], COVARIANCE)

    return [
        Claim("The statistical error falls like n^(-1/2), in the Frobenius, nuclear and operator norms.",
              place="Theorem 2, l1", reason="slope within 0.05, either way", columns={PRINTED: statistical}),
        in_columns("The cost of privacy falls like 1/n, up to logarithms.", "Theorem 3, u2",
                   "slope within 0.15 (logarithms), either way", Draws(over_n), privacy),
        in_columns("The error attains the lower bound up to sigma_r (here 1) and logarithms.", "Theorems 2 and 3",
                   f"{LOGARITHMS}, in all three norms, at epsilon = 2", Draws(over_n), attained),
    ]  # fmt: skip


LOGARITHMS = "within log^(3/2)(n) log^(1/2)(1.25 log(n)/delta) times the bound with c = 1"


def _over_bound(column: str, rows: list[Row], points: list[tuple[int, float, str]], most: float) -> Finding:
    """Errors in the Frobenius, nuclear and operator norms over Theorem 2's bound, at each n, epsilon and design."""
    texts, found = [], []
    for name, q in NORMS.items():
        folds = []
        for n, e, design in points:
            errors = Draws(rows).of(name, column=column, n=n, epsilon=e, sigma_r=1.0, design=design)
            folds.append(estimate([error / lower_bound(n, e, q, most) for error in errors]))
            logs = math.log(n) ** 1.5 * math.sqrt(math.log(1.25 * math.log(n) / DELTA))
            found.append(between(folds[-1], 0.0, logs))
        texts.append(f"{name} {'; '.join(map(str, folds))}")
    at = ", ".join(f"n = {n:,} epsilon {e:g}{'' if design == EQUAL else ' ' + design}" for n, e, design in points)
    return Finding(NAMES[column], f"error over the bound, {at}: {'. '.join(texts)}", every(found))


def design_claim(rows: list[Row]) -> Claim:
    """Assumption 1 allows any known covariances between C_l and C_u."""
    points = sorted({(row["facts"]["n"], row["facts"]["epsilon"], row["facts"]["design"]) for row in rows})
    judge = lambda column: _over_bound(column, rows, points, UNEQUAL[1])
    return in_columns(
        "It does so for unequal covariances, too.", "Assumption 1, Theorems 2 and 3", LOGARITHMS, Draws(rows), judge
    )


def scale_claims(rows: list[Row]) -> list[Claim]:
    """How the cost of privacy grows with sigma_r, the errors' spread being fixed."""
    wide = [row for row in rows if row["facts"]["epsilon"] == 8.0 and row["facts"]["protect"]]
    scales = sorted({row["facts"]["sigma_r"] for row in wide})
    (at,) = {row["facts"]["n"] for row in wide if row["facts"]["protect"] == "responses"}
    found = Draws([row for row in wide if row["facts"]["n"] == at])

    def grows(column: str, protect: str, low: float, high: float) -> Finding:
        one, other = (found.of("privacy", column=column, protect=protect, sigma_r=s) for s in (scales[-1], scales[0]))
        fold = ratio(one, other, paired=True)
        text = f"from sigma_r = {scales[0]:g} to {scales[-1]:g} the cost of privacy grows {fold}-fold"
        return Finding(NAMES[column], text, between(fold, low, high))

    return [
        in_columns("While X is private too, the cost of privacy cannot be freed of the factor sigma_r.", "section 5",
                   "freed: grows less than twofold", found, lambda c: grows(c, "records", 2.0, math.inf)),
        in_columns("With public X (weak privacy) the factor sigma_r is gone.", "Theorem 7",
                   "gone: grows less than twofold", found, lambda c: grows(c, "responses", 0.0, 2.0)),
    ]  # fmt: skip


# The start's sensitivity ------------------------------------------------------------------------------------------------
KINDS = ("a record of the model", "a record of 100 times the size")


def start_cells(quick: bool) -> list[Cell]:
    return [
        Cell.of(PRINTED, "Algorithm 1", n=n, replaced=kind)
        for n in ((1_000,) if quick else (2_000, 18_000))
        for kind in KINDS
    ]


def start_measure(cell: Cell, seed: int) -> dict[str, float]:
    """Delta^(1) measured: the furthest that the left projector moves when one record is replaced, over its bound."""
    given = planted(cell["n"], 1.0, seed)
    whole, rng = np.tensordot(given.y, given.x, axes=1), np.random.default_rng([seed, 3])
    before = _projector(whole)
    far = 0.0
    for i in rng.choice(len(given.y), 200 if cell["replaced"] == KINDS[0] else 1, replace=False):
        x = math.sqrt(COVARIANCE) * rng.standard_normal(SIDES) * (1.0 if cell["replaced"] == KINDS[0] else 100.0)
        y = float(np.vdot(x, given.coef) + ERROR * rng.standard_normal())
        far = max(far, float(np.linalg.norm(_projector(whole - given.y[i] * given.x[i] + y * x) - before)))
    stated = dprgrad.start_sensitivities(cell["n"], settings(PRINTED, 1.0, given, "records"))[0]
    return {"share": far / stated}


def _projector(whole: Array) -> Array:
    basis = np.linalg.svd(whole)[0][:, :RANK]
    return basis @ basis.T


def start_claim(rows: list[Row]) -> Claim:
    found = Draws(rows)
    shares = {(kind, n): estimate(found.of("share", replaced=kind, n=n)) for kind in KINDS for n in found.facts("n")}
    text = "; ".join(f"{kind}, n = {n:,}: {share}" for (kind, n), share in shares.items())
    verdict: Verdict = every(between(share, 0.0, 1.0) for share in shares.values())
    finding = Finding("Algorithm 1", f"furthest move over the printed bound (constant 1): {text}", verdict)
    return Claim("One record moves the singular projectors of the start by at most Delta^(1).", place="Theorem 1",
                 reason="differential privacy asks it of every record", columns={PRINTED: finding})  # fmt: skip
