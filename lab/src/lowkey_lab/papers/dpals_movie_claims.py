"""Lab room: what the DPALS paper says of its rating figures, and what the draws of ``papers.dpals_movies`` say.

Paper: Chien et al. 2021, sections 6.2 and 6.3, appendix D.4. "Relatively small" is a loss of at most 5 %, "little effect"
one of at most 0.01, "terrible" is worse by 0.1: set before the run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowkey_lab import sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent, in_columns, row_of
from lowkey_lab.papers.dpals_movies import ALS, CLEAR, CROWDS, EPSILONS, FW, LAST, MEAN, NAMES, SGD, USERS, cells, measure
from lowkey_lab.trials import EXACT, PRINTED, Draws, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less, ratio

SMALL, LITTLE, TERRIBLE = 1.05, 0.01, 0.1
HERE = "on a stand-in"
LOW, HIGH = EPSILONS


def figures(quick: bool, pieces: Path | None = None) -> Outcome:
    """All of them, from one run."""
    if sources.found("ml-1m") is None:
        where = sources.SOURCES["ml-1m"].where
        return Outcome([absent("Figures 3, 5, 8 to 10 and 12 on a stand-in", "ml-1m.parquet", where, "section 6")])
    rows = run(cells(), lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)
    found = Rmse(Draws(rows))
    claims = [*trade_off(found), *users_and_rank(found), *frequent(found), *sampling(found)]
    return Outcome(claims, {"dpals-movies": rows})


Shown = tuple[dict[str, list[float]], Verdict]


def _text(lists: dict[str, list[float]]) -> str:
    return "; ".join(f"{name}: {estimate(draws)}" for name, draws in lists.items())


class Rmse(NamedTuple):
    found: Draws

    def at(self, figure: str, epsilon: float | None, column: str = EXACT, method: str = ALS, **facts: Any) -> list[float]:
        return self.found.of("rmse", figure=figure, epsilon=epsilon, column=column, method=method, **facts)

    def told(
        self, sentence: str, place: str, rule: str, lists: dict[str, list[float]], verdict: Verdict, column: str = EXACT
    ) -> Claim:
        """Of DPALS with exact accounting; in the column of the paper where it is about models without noise."""
        text = f"RMSE {_text(lists)}"
        shown = PRINTED if column == CLEAR else column
        finding = Finding(NAMES[column, ALS], text, verdict)
        return Claim(f"{sentence}, {HERE}.", place=place, reason=rule, columns={shown: finding}, judged=shown)

    def both(self, sentence: str, place: str, rule: str, judge: Callable[[str, str], Shown]) -> Claim:
        """Judged as printed; beside it what comes out with the ridge after the projection."""
        (lists, verdict), (other, word) = judge(EXACT, ALS), judge(EXACT, LAST)
        text = f"RMSE {_text(lists)}. With the ridge after the projection ({word}): {_text(other)}"
        finding = Finding(NAMES[EXACT, ALS], text, verdict)
        return Claim(f"{sentence}, {HERE}.", place=place, reason=rule, columns={EXACT: finding}, judged=EXACT)


def trade_off(r: Rmse) -> list[Claim]:
    """Figure 3 (a) and (b)."""
    place = "section 6.2, Figure 3"
    mean, clear = r.at("3a", None, CLEAR, MEAN), r.at("3a", None, CLEAR)
    both = lambda *what, **facts: "; ".join(str(estimate(r.at(what[0], e, *what[1:], **facts))) for e in EPSILONS)

    def against(column: str) -> Finding:
        mine = [r.at("3a", e, column) for e in EPSILONS]
        text = (
            f"RMSE at epsilon {row_of(EPSILONS)}: {row_of([float(np.mean(m)) for m in mine])}; DPFW {both('3a', EXACT, FW)}"
        )
        text += f"; DP-SGD {both('3a', EXACT, SGD)}; DPALS with the ridge after the projection {both('3a', EXACT, LAST)}; "
        text += f"the mean {estimate(mean)}"
        others = [[r.at("3a", e, EXACT, FW), mean] for e in EPSILONS]
        found: list[Verdict] = [less(m, other, paired=True) for m, o in zip(mine, others, strict=True) for other in o]
        return Finding(NAMES[column, ALS], text, every(found))

    def loss(column: str) -> Finding:
        fold = ratio(r.at("3a", HIGH, column), clear, paired=True)
        text = f"at epsilon {HIGH:g} {fold} times the {estimate(clear)} without noise"
        return Finding(NAMES[column, ALS], text, between(fold, 0.0, SMALL))

    def whole(column: str) -> Finding:
        pairs = [(r.at("3b", e, column), r.at("3b", e, EXACT, FW)) for e in EPSILONS]
        text = f"RMSE {both('3b', column)}; DPFW {both('3b', EXACT, FW)} at epsilon {row_of(EPSILONS)}"
        return Finding(NAMES[column, ALS], text, every(less(*pair, paired=True) for pair in pairs))

    def harder(column: str) -> Finding:
        pairs = [(r.at("3a", e, column), r.at("3b", e, column)) for e in EPSILONS]
        text = f"RMSE on 400 films {both('3a', column)}; on all {both('3b', column)} at epsilon {row_of(EPSILONS)}"
        return Finding(NAMES[column, ALS], text, every(less(*pair, paired=False) for pair in pairs))

    each = f"at epsilon {LOW:g} and {HIGH:g}"
    return [
        in_columns(f"DPALS has a lower RMSE than DPFW and than the mean, {HERE}.", f"{place} (a)", each, r.found, against,
                   judged=EXACT),
        in_columns(f"The loss against ALS is relatively small from epsilon = 10, {HERE}.", f"{place} (a)",
                   f"at most {SMALL - 1:.0%}", r.found, loss, judged=EXACT),
        in_columns(f"DPALS has a lower RMSE than DPFW on all films, {HERE}.", f"{place} (b)", each, r.found, whole,
                   judged=EXACT),
        in_columns(f"The trade-off is worse on all films than on the 400 most rated, {HERE}.", f"{place} (b)", each,
                   r.found, harder, judged=EXACT),
    ]  # fmt: skip


def users_and_rank(r: Rmse) -> list[Claim]:
    """Figures 8 and 9."""
    few = {f"DPALS, {USERS * CROWDS[0]:,} users": r.at("8", HIGH, crowd=CROWDS[0])}
    few[f"DPFW, {USERS * CROWDS[1]:,}"] = r.at("3a", HIGH, EXACT, FW)

    def more(column: str, method: str) -> Shown:
        lists = {f"{USERS * c:,} users, epsilon {e:g}": r.at("8", e, column, method, crowd=c)
                 for e in EPSILONS for c in CROWDS}  # fmt: skip
        low, high, lower, higher = lists.values()
        return lists, every([less(high, low, paired=True), less(higher, lower, paired=True)])

    def rank(column: str, method: str) -> Shown:
        lists = {f"rank {k}, epsilon {e:g}": r.at("9", e, column, method, rank=k) for e in EPSILONS for k in (4, 16)}
        small, large, smaller, larger = lists.values()
        return lists, every([less(small, large, paired=True), less(larger, smaller, paired=True)])

    return [
        r.both("More users improve the trade-off", "Figure 8", "at epsilon 1 and 10", more),
        r.told("DPALS trained on a quarter of the users is better than DPFW on all", "Figure 8", f"at epsilon {HIGH:g}",
               few, less(*few.values(), paired=True)),
        r.both("A higher rank is better at larger epsilon and not at 1", "Figure 9", "4 against 16", rank),
    ]  # fmt: skip


def frequent(r: Rmse) -> list[Claim]:
    """Figures 10 and 12."""

    def share(column: str, method: str) -> Shown:
        lists = {f"{f:.0%}, epsilon {e:g}": r.at("10", e, column, method, fraction=f)
                 for e in EPSILONS for f in (0.1, 0.4, 1.0)}  # fmt: skip
        tenth, _, whole, low, middle, _ = lists.values()
        return lists, every([less(tenth, whole, paired=True), less(middle, low, paired=True)])

    powers = {name: r.at("12", HIGH, exponents=flag) for name, flag in (("(1, 0.5)", True), ("(0, 0)", False))}
    return [
        r.both("As epsilon falls, the best fraction of films falls", "Figure 10",
               "at 1 a tenth beats all; at 10 four tenths beat a tenth", share),
        r.told("Exponents (nu, mu) of the ridge improve on none", "Figure 12", "(1, 0.5) against (0, 0)", powers,
               less(powers["(1, 0.5)"], powers["(0, 0)"], paired=True)),
    ]  # fmt: skip


def sampling(r: Rmse) -> list[Claim]:
    """Figure 5."""
    place = "section 6.3, Figure 5"
    ways = {way: r.at("5", HIGH, sampling=way) for way in ("adaptive", "uniform", "no projection")}
    clear = lambda way, fraction: r.at("5", None, CLEAR, sampling=way, fraction=fraction)
    shares = {"on all films": clear("none", 1.0), "on four tenths": clear("none", 0.4)}
    sampled = {way: clear(way, 0.4) for way in ("none", "adaptive", "uniform")}
    gap = estimate(np.subtract(sampled["adaptive"], sampled["uniform"]).tolist())
    return [
        r.told("Adaptive sampling improves the private model", place, "against uniform", ways,
               less(ways["adaptive"], ways["uniform"], paired=True)),
        r.told("Without the projection the result is terrible", place, f"worse by more than {TERRIBLE:g}", ways,
               less(ways["adaptive"], ways["no projection"], paired=True, by=TERRIBLE)),
        r.told("Without noise it is best to train on all films", place, "all against four tenths", shares,
               less(*shares.values(), paired=True), CLEAR),
        r.told("Sampling k ratings of a user raises the error without noise, too", place, "k = 50 against all, both ways",
               sampled, every(less(sampled["none"], sampled[way], paired=True) for way in ("adaptive", "uniform")), CLEAR),
        r.told("How one samples has little effect without noise", place, f"within {LITTLE:g}, either way", sampled,
               between(gap, -LITTLE, LITTLE), CLEAR),
    ]  # fmt: skip
