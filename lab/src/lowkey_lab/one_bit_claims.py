"""Lab room: what the one-bit paper claims of its figures, and what the rows of ``one_bit`` say.

Paper: Li et al. 2021, section 5, Figures 1 to 5. The claims are about the published mechanisms, so they are judged by
those; what their epsilon is worth is a claim of its own. Numbers that decide a verdict are named in its sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lowkey_lab.claims import Claim, Outcome, absent
from lowkey_lab.one_bit import PERTURBATIONS, real, synthetic
from lowkey_lab.sources import SOURCES, found

Row = dict[str, Any]
PUBLISHED = ("published",)
BOTH = ("published", "sound")
NOISE = {"logistic": "logistic", "probit": "Gaussian"}  # the paper's names of the links
NEAR = 1.5  # "comparable": within this factor


def figure_1(quick: bool) -> Outcome:
    """Synthetic data, 15 % observed, both links."""
    epsilons = (1.0, 4.0, 10.0) if quick else (1.0, 2.0, 4.0, 7.0, 10.0)
    rows = synthetic(2 if quick else 40, epsilons, calibrations=PUBLISHED if quick else BOTH)
    return Outcome(figure_1_claims(rows), {"onebit-figure-1": rows})


def figure_1_claims(rows: list[Row]) -> list[Claim]:
    claims: list[Claim] = []
    for link, noise in NOISE.items():
        mine = [row for row in rows if row["link"] == link]
        clear = _value(mine, "non-private", "none", math.inf, "are")
        curves = {p: _curve(mine, p, "are") for p in PERTURBATIONS}
        low, high = min(curves["input"]), max(curves["input"])
        three, output = [curves[p] for p in PERTURBATIONS[:3]], curves["output"]
        claims.append(
            Claim(
                f"{noise} noise: the errors of input, objective and gradient perturbation fall as epsilon grows and "
                "approach the non-private one.",
                f"ARE at epsilon {low:g} and {high:g}: {_pairs(curves, low, high, PERTURBATIONS[:3])}; "
                f"non-private {clear:.2f} (approach: within a factor {NEAR:g})",
                all(curve[high] <= curve[low] and curve[high] <= NEAR * clear for curve in three),
                "section 5.2.1, Figure 1",
            )
        )
        claims.append(
            Claim(
                f"{noise} noise: output perturbation is worse at small epsilon and comparable at epsilon = 4.",
                f"ARE of output {output[low]:.2f} at epsilon {low:g} and {output[4.0]:.2f} at 4; the others at 4: "
                f"{' / '.join(f'{curve[4.0]:.2f}' for curve in three)} (comparable: within a factor {NEAR:g})",
                output[low] > max(c[low] for c in three) and output[4.0] <= NEAR * max(c[4.0] for c in three),
                "section 5.2.1, Figure 1",
            )
        )
    published = [row for row in rows if row["calibration"] == "published"]
    worst = {p: max(r["epsilon_held"] / r["epsilon"] for r in published if r["perturbation"] == p) for p in PERTURBATIONS}
    claims.append(
        Claim(
            "Each of the four mechanisms is epsilon-differentially private.",
            "epsilon that holds over epsilon asked: " + ", ".join(f"{p} {_times(w)}" for p, w in worst.items()),
            max(worst.values()) <= 1.0 + 1e-9,
            "Theorems 1 to 4",
        )
    )
    return claims


def figure_2(quick: bool) -> Outcome:
    """MovieLens 100K with its official splits."""
    if found("ml-100k-u1") is None:
        where = SOURCES["ml-100k-u1"].where
        return Outcome([absent("Accuracy on MovieLens 100K", "ml-100k-u1.parquet", where, "Figure 2")])
    shared: Row = {"n_iter": 1, "tol": 2e-2, "max_iter": 8 if quick else 25, "users": 250 if quick else None}
    splits, epsilons = ((1,), (4.0,)) if quick else ((1, 2, 3, 4, 5), (1.0, 4.0, 10.0))
    rows = real("ml-100k", splits, epsilons, calibrations=PUBLISHED if quick else BOTH, **shared)
    return Outcome(figure_2_claims(rows), {"onebit-figure-2": rows})


def figure_2_claims(rows: list[Row]) -> list[Claim]:
    at_4 = {p: _curve(rows, p, "accuracy")[4.0] for p in PERTURBATIONS}
    clear = _value(rows, "non-private", "none", math.inf, "accuracy")
    majority = _value(rows, "majority", "none", math.inf, "accuracy")
    shown = ", ".join(f"{p} {value:.3f}" for p, value in at_4.items())
    folded = ", ".join(f"{p} {_curve(rows, p, 'folded')[4.0]:.3f}" for p in PERTURBATIONS)
    return [
        Claim(
            "At epsilon = 4 all four mechanisms have an accuracy above 68 %.",
            f"{shown}; non-private {clear:.3f}, always the commoner sign {majority:.3f}; "
            f"with the released items and fold-in {folded}",
            min(at_4.values()) > 0.68,
            "section 5.2.2, Figure 2",
            "judged by the trained rows, as in the paper",
        ),
        Claim(
            "Output perturbation is the best of the four.",
            f"at epsilon = 4: {shown}",
            at_4["output"] >= max(at_4.values()),
            "section 5.2.2, Figure 2",
        ),
    ]


def figure_3(quick: bool) -> Outcome:
    """Restaurants, 80/20."""
    if found("rc") is None:
        return Outcome([absent("Accuracy on RC", "rc.parquet", SOURCES["rc"].where, "Figure 3")])
    calibrations = PUBLISHED if quick else BOTH
    rows = real("rc", range(1 if quick else 10), (1.0, 10.0) if quick else (1.0, 4.0, 10.0), calibrations=calibrations,
                rank=0.1, n_iter=1)  # fmt: skip
    return Outcome(figure_3_claims(rows), {"onebit-figure-3": rows})


def figure_3_claims(rows: list[Row]) -> list[Claim]:
    curves = {p: _curve(rows, p, "accuracy") for p in PERTURBATIONS}
    clear = _value(rows, "non-private", "none", math.inf, "accuracy")
    majority = _value(rows, "majority", "none", math.inf, "accuracy")
    low, high = min(curves["input"]), max(curves["input"])
    return [
        Claim(
            "At epsilon = 1 input, objective and gradient perturbation are unsatisfactory.",
            f"accuracy {' / '.join(f'{curves[p][low]:.3f}' for p in PERTURBATIONS[:3])}; the commoner sign {majority:.3f}",
            all(curves[p][low] < majority + 0.02 for p in PERTURBATIONS[:3]),
            "section 5.2.2, Figure 3",
            "unsatisfactory: at most 0.02 above the commoner sign",
        ),
        Claim(
            "The mechanisms get the expected trade-off: accuracy grows with epsilon towards the non-private one.",
            f"accuracy at epsilon {low:g} and {high:g}: {_pairs(curves, low, high, PERTURBATIONS, 3)}; "
            f"non-private {clear:.3f}",
            all(curve[high] >= curve[low] and curve[high] >= clear - 0.05 for curve in curves.values()),
            "section 5.2.2, Figure 3",
            "towards: within 0.05",
        ),
    ]


def figure_4(quick: bool) -> Outcome:
    """Observation ratios, Gaussian noise."""
    return _ratios(quick, "probit", "onebit-figure-4")


def figure_5(quick: bool) -> Outcome:
    """Observation ratios, logistic noise."""
    return _ratios(quick, "logistic", "onebit-figure-5")


def _ratios(quick: bool, link: str, name: str) -> Outcome:
    ratios = (0.2, 0.8) if quick else (0.2, 0.4, 0.6, 0.8)
    rows = synthetic(2 if quick else 10, (1.0, 5.0, 10.0), ratios, (link,), calibrations=PUBLISHED if quick else BOTH)
    return Outcome(ratio_claims(rows, link, name), {name: rows})


def ratio_claims(rows: list[Row], link: str, name: str) -> list[Claim]:
    rows = [row for row in rows if row["link"] == link]
    few, many = min(row["ratio"] for row in rows), max(row["ratio"] for row in rows)
    at = lambda ratio, p: _curve([row for row in rows if row["ratio"] == ratio], p, "are")
    place = f"section 5.3, Figure {name[-1]}"
    falls = {p: (at(few, p)[10.0], at(many, p)[10.0]) for p in PERTURBATIONS}
    level = {p: at(many, p)[5.0] / at(many, p)[10.0] for p in ("input", "output")}
    small = {p: at(many, p)[1.0] / at(few, p)[1.0] for p in ("objective", "output")}
    return [
        Claim(
            f"{NOISE[link]} noise: as more is observed, all four mechanisms get better.",
            f"ARE at epsilon 10 with {few:.0%} and {many:.0%} observed: "
            + ", ".join(f"{p} {a:.2f} → {b:.2f}" for p, (a, b) in falls.items()),
            all(b < a for a, b in falls.values()),
            place,
        ),
        Claim(
            f"{NOISE[link]} noise: input and output perturbation level off after about epsilon = 5.",
            f"ARE at 5 over ARE at 10, {many:.0%} observed: " + ", ".join(f"{p} {v:.2f}" for p, v in level.items()),
            all(value < 1.2 for value in level.values()),
            place,
            "level: within a fifth",
        ),
        Claim(
            f"{NOISE[link]} noise: at epsilon = 1 objective and output perturbation hardly change with the ratio observed.",
            f"ARE with {many:.0%} over {few:.0%} observed: " + ", ".join(f"{p} {v:.2f}" for p, v in small.items()),
            all(0.75 < value < 1.25 for value in small.values()),
            place,
            "hardly: within a quarter",
        ),
    ]


def _curve(rows: Iterable[Row], perturbation: str, measure: str) -> dict[float, float]:
    wanted = ("published", perturbation)
    return {row["epsilon"]: row[measure] for row in rows if (row["calibration"], row["perturbation"]) == wanted}


def _value(rows: Iterable[Row], calibration: str, perturbation: str, epsilon: float, measure: str) -> float:
    wanted = (calibration, perturbation)
    return next(row[measure] for row in rows if (row["calibration"], row["perturbation"]) == wanted)


def _pairs(curves: dict[str, dict[float, float]], low: float, high: float, names: Iterable[str], digits: int = 2) -> str:
    return ", ".join(f"{p} {curves[p][low]:.{digits}f} → {curves[p][high]:.{digits}f}" for p in names)


def _times(ratio: float) -> str:
    return "no epsilon holds" if math.isinf(ratio) else f"{ratio:.3g}"
