"""Lab room: what the one-bit paper claims of its figures, and what the draws of ``papers.one_bit`` say.

Paper: Li et al. 2021, section 5. What is computed and not drawn, whether Theorems 1 to 4 hold, is a claim of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowkey_lab import sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent, in_columns
from lowkey_lab.papers.one_bit import ALGORITHMS, CLEAR, LINKS, MECHANISMS, NOISE, cells, measure
from lowkey_lab.printed import one_bit as printed
from lowkey_lab.trials import EXACT, PRINTED, Draws, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less, ratio

NEAR = 1.5  # "approach", "comparable": within this factor
CLOSE = 0.05  # of accuracies


class Panel(NamedTuple):
    """The draws of one data set and link; what is asked for by mechanism, epsilon and share."""

    found: Draws
    data: str
    link: str

    def at(self, column: str, mechanism: str, epsilon: float | None, share: float | None = None) -> list[float]:
        wanted = {} if share is None else {"share": share}
        facts = {"data": self.data, "link": self.link, "mechanism": mechanism, "epsilon": epsilon}
        return self.found.of("value", column=column, **facts, **wanted)

    def mechanisms(self, column: str, wanted: Iterable[str] = MECHANISMS) -> list[str]:
        """Those that have cells: none is proven for the Gaussian objective."""
        return [m for m in wanted if (column, m, self.link) != (EXACT, "objective", "probit")]

    def text(self, column: str, epsilon: float, names: Iterable[str] = MECHANISMS, share: float | None = None) -> str:
        return ", ".join(f"{m} {estimate(self.at(column, m, epsilon, share))}" for m in self.mechanisms(column, names))

    def claim(self, sentence: str, place: str, rule: str, judge: Any, judged: str = PRINTED) -> Claim:
        mine = Draws([r for r in self.found.rows if (r["facts"]["data"], r["facts"]["link"]) == (self.data, self.link)])
        finding = lambda column: Finding(ALGORITHMS[column], *judge(column))
        return in_columns(f"{NOISE[self.link]} noise: {sentence}", place, rule, mine, finding, judged)


def guarantees() -> Claim:
    """Theorems 1 to 4: computed, not drawn."""
    held = {(m, link): printed.held(m, link, 1.0) for m in MECHANISMS for link in LINKS}
    text = "; ".join(f"{m}, {NOISE[link]}: {found}" for (m, link), found in held.items())
    fine = all(found.word == "proven" and found.epsilon <= found.claimed for found in held.values())
    return Claim("Each of the four mechanisms is epsilon-differentially private.", text, fine, "Theorems 1 to 4")


def figure_1(quick: bool, pieces: Path | None = None) -> Outcome:
    """Synthetic signs, 15 % observed, both links."""
    epsilons = (1.0, 4.0) if quick else (1.0, 4.0, 10.0)
    rows = run(cells("synthetic", LINKS, (0.15,), epsilons), lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)
    told = [claim for link in LINKS for claim in figure_1_claims(Panel(Draws(rows), "synthetic", link), epsilons)]
    return Outcome([*told, guarantees()], {"onebit-figure-1": rows})


def figure_1_claims(panel: Panel, epsilons: tuple[float, ...]) -> list[Claim]:
    low, high, place = epsilons[0], epsilons[-1], "section 5.2.1, Figure 1"
    clear = panel.at(CLEAR, "none", None)

    def falls(column: str) -> tuple[str, Verdict]:
        names = panel.mechanisms(column, MECHANISMS[:3])
        found: list[Verdict] = []
        for m in names:
            found.append(less(panel.at(column, m, high), panel.at(column, m, low), paired=True))
            found.append(between(ratio(panel.at(column, m, high), clear, paired=True), 1.0 / NEAR, NEAR))
        text = f"ARE at {low:g}: {panel.text(column, low, names)}; at {high:g}: {panel.text(column, high, names)}"
        return f"{text}; not private {estimate(clear)}", every(found)

    def output(column: str) -> tuple[str, Verdict]:
        others = panel.mechanisms(column, MECHANISMS[:3])
        worse: Callable[[str], Verdict] = lambda m: less(
            panel.at(column, m, low), panel.at(column, "output", low), paired=True
        )
        worst = max(others, key=lambda m: float(np.mean(panel.at(column, m, 4.0))))
        fold = ratio(panel.at(column, "output", 4.0), panel.at(column, worst, 4.0), paired=True)
        text = f"ARE at {low:g}: {panel.text(column, low)}; at 4: {panel.text(column, 4.0)}"
        return text, every([*map(worse, others), between(fold, -math.inf, NEAR)])

    return [
        panel.claim("the errors of input, objective and gradient perturbation fall as epsilon grows and approach the "
                    "non-private one.", place, f"fall: first to last epsilon; approach: within a factor {NEAR:g}", falls),
        panel.claim("output perturbation is worse at small epsilon and comparable to the others at epsilon = 4.", place,
                    f"comparable: at most {NEAR:g} times the worst of the others", output, EXACT),
    ]  # fmt: skip


def figure_2(quick: bool, pieces: Path | None = None) -> Outcome:
    """MovieLens 100K with its official splits."""
    if sources.found("ml-100k-u1") is None:
        where = sources.SOURCES["ml-100k-u1"].where
        return Outcome([absent("Accuracy on MovieLens 100K", "ml-100k-u1.parquet", where, "Figure 2")])
    rows = run(cells("ml-100k", LINKS, (None,), (4.0,)),
               lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)  # fmt: skip
    told = [claim for link in LINKS for claim in figure_2_claims(Panel(Draws(rows), "ml-100k", link))]
    return Outcome(told, {"onebit-figure-2": rows})


def figure_2_claims(panel: Panel) -> list[Claim]:
    clear, majority = panel.at(CLEAR, "none", None), panel.at(CLEAR, "majority", None)
    beside = f"; not private {estimate(clear)}, always the commoner sign {estimate(majority)}"

    def above(column: str) -> tuple[str, Verdict]:
        return f"accuracy {panel.text(column, 4.0)}{beside}", every(
            between(estimate(panel.at(column, m, 4.0)), 0.68, 1.0) for m in panel.mechanisms(column)
        )

    def best(column: str) -> tuple[str, Verdict]:
        others = panel.mechanisms(column, MECHANISMS[:3])
        beats: Callable[[str], Verdict] = lambda m: less(
            panel.at(column, m, 4.0), panel.at(column, "output", 4.0), paired=True
        )
        return f"accuracy {panel.text(column, 4.0)}", every(map(beats, others))

    return [
        panel.claim("at epsilon = 4 all four mechanisms have an accuracy above 68 %.", "section 5.2.2, Figure 2",
                    "of the trained rows, as in the paper", above),
        panel.claim("output perturbation is the best of the four.", "section 5.2.2, Figure 2",
                    "at epsilon = 4", best, EXACT),
    ]  # fmt: skip


def figure_3(quick: bool, pieces: Path | None = None) -> Outcome:
    """Restaurants, 80/20."""
    if sources.found("rc") is None:
        return Outcome([absent("Accuracy on RC", "rc.parquet", sources.SOURCES["rc"].where, "Figure 3")])
    rows = run(cells("rc", LINKS, (None,), (1.0, 10.0)), lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)
    told = [claim for link in LINKS for claim in figure_3_claims(Panel(Draws(rows), "rc", link))]
    return Outcome(told, {"onebit-figure-3": rows})


def figure_3_claims(panel: Panel) -> list[Claim]:
    clear, majority = panel.at(CLEAR, "none", None), panel.at(CLEAR, "majority", None)

    def poor(column: str) -> tuple[str, Verdict]:
        names = panel.mechanisms(column, MECHANISMS[:3])
        verdict: Verdict = every(
            between(estimate(np.subtract(panel.at(column, m, 1.0), majority).tolist()), -1.0, 0.02) for m in names
        )
        return f"accuracy {panel.text(column, 1.0, names)}; the commoner sign {estimate(majority)}", verdict

    def trade(column: str) -> tuple[str, Verdict]:
        found: list[Verdict] = []
        for m in panel.mechanisms(column):
            low, high = (panel.at(column, m, e) for e in (1.0, 10.0))
            found.append(less(low, high, paired=True))
            found.append(between(estimate(np.subtract(high, clear).tolist()), -CLOSE, CLOSE))
        text = f"accuracy at 1: {panel.text(column, 1.0)}; at 10: {panel.text(column, 10.0)}; not private {estimate(clear)}"
        return text, every(found)

    place = "section 5.2.2, Figure 3"
    return [
        panel.claim("at epsilon = 1 input, objective and gradient perturbation are unsatisfactory.", place,
                    "unsatisfactory: at most 0.02 above the commoner sign", poor),
        panel.claim("accuracy grows with epsilon towards the non-private one.", place,
                    f"grows: from 1 to 10; towards: within {CLOSE:g}, either way", trade),
    ]  # fmt: skip


def figure_4(quick: bool, pieces: Path | None = None) -> Outcome:
    """Observation ratios, Gaussian noise."""
    return _ratios(quick, "probit", "onebit-figure-4", pieces)


def figure_5(quick: bool, pieces: Path | None = None) -> Outcome:
    """Observation ratios, logistic noise."""
    return _ratios(quick, "logistic", "onebit-figure-5", pieces)


def _ratios(quick: bool, link: str, name: str, pieces: Path | None) -> Outcome:
    todo = cells("synthetic", (link,), (0.2, 0.8), (1.0, 5.0, 10.0))
    rows = run(todo, lambda c, k: measure(c, k, quick), 1 if quick else 10, pieces)
    return Outcome(ratio_claims(Panel(Draws(rows), "synthetic", link), f"section 5.3, Figure {name[-1]}"), {name: rows})


def ratio_claims(panel: Panel, place: str) -> list[Claim]:
    few, many = panel.found.facts("share")[0], panel.found.facts("share")[-1]

    def better(column: str) -> tuple[str, Verdict]:
        names = panel.mechanisms(column)
        gain: Callable[[str], Verdict] = lambda m: less(
            panel.at(column, m, 10.0, many), panel.at(column, m, 10.0, few), paired=False
        )
        text = f"ARE at epsilon 10, {few:.0%} observed: {panel.text(column, 10.0, names, few)}"
        return f"{text}; {many:.0%}: {panel.text(column, 10.0, names, many)}", every(map(gain, names))

    def folds(column: str, names: Iterable[str], one: tuple[float, float], other: tuple[float, float]) -> Any:
        pairs = {m: (panel.at(column, m, *one), panel.at(column, m, *other)) for m in panel.mechanisms(column, names)}
        return {m: ratio(a, b, paired=one[1] == other[1]) for m, (a, b) in pairs.items()}

    def level(column: str) -> tuple[str, Verdict]:
        found = folds(column, ("input", "output"), (5.0, many), (10.0, many))
        text = ", ".join(f"{m} {fold}" for m, fold in found.items())
        return f"ARE at 5 over ARE at 10: {text}", every(between(fold, 1.0 / 1.2, 1.2) for fold in found.values())

    def hardly(column: str) -> tuple[str, Verdict]:
        found = folds(column, ("objective", "output"), (1.0, many), (1.0, few))
        text = ", ".join(f"{m} {fold}" for m, fold in found.items())
        return f"ARE with {many:.0%} over {few:.0%}: {text}", every(between(fold, 0.75, 1.25) for fold in found.values())

    return [
        panel.claim("as more is observed, all four mechanisms get better.", place, "at epsilon = 10", better),
        panel.claim("input and output perturbation level off after about epsilon = 5.", place,
                    f"level: within a fifth, {many:.0%} observed", level),
        panel.claim("at epsilon = 1 objective and output perturbation hardly change with the ratio observed.", place,
                    "hardly: within a quarter", hardly),
    ]  # fmt: skip
