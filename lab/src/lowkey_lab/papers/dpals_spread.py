"""Lab room: how ratings are spread over films, and what sampling makes of it: stand-ins for DPALS' Figures 2 and 6.

Paper: Chien et al. 2021, section 5.1 and appendix C, on MovieLens 10M. Here on MovieLens 1M, whose users have more ratings
each (166 on average, none fewer than 20). Sampling is line 2 and line 5 of Algorithm 3 with exact counts, k = 50; a draw is
a sample. There is no noise and no private claim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from lowkey_lab import sources
from lowkey_lab.claims import Claim, Finding, Outcome, absent
from lowkey_lab.printed import dpals
from lowkey_lab.trials import PRINTED, Cell, Draws, run
from lowkey_lab.verdicts import Verdict, between, estimate, every, less

WAYS = ("all ratings", "uniform", "adaptive")
K, TOP, PUBLISHED_SHARE, CORRELATION = 50, 0.2, 0.85, (2.0 * -0.243, 0.5 * -0.243)


def measure(cell: Cell, seed: int, quick: bool) -> dict[str, float]:
    """The share of ratings on the top fifth of films, the correlation of counts, the share on films rated often."""
    rows: Any = sources.as_rows(sources.columns("ml-1m"))
    rows = scipy.sparse.csr_array(rows[: 600 if quick else None])
    rng = np.random.default_rng([seed, 1])
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    if cell["way"] == "all ratings":
        kept = dpals.chosen(rows, rng.random(rows.nnz) < 0.9)  # other ratings in every draw
    elif cell["way"] == "uniform":
        kept = dpals.sample(rows, K, rng)
    else:
        kept = dpals.smallest(rows, counts[rows.indices] + 1e-3 * rng.random(rows.nnz), K)  # ties by lot
    mine = np.bincount(kept.indices, minlength=rows.shape[1])
    top = np.sort(mine)[::-1][: round(TOP * rows.shape[1])].sum() / mine.sum()
    often = counts >= np.quantile(counts, 1.0 - TOP)
    lengths = np.repeat(np.diff(kept.indptr), np.diff(kept.indptr))
    related = float(np.corrcoef(lengths, mine[kept.indices])[0, 1]) if cell["way"] == "all ratings" else 0.0
    return {"top": float(top), "often": float(mine[often].sum() / mine.sum()), "correlation": related}


def figures_2_and_6(quick: bool, pieces: Path | None = None) -> Outcome:
    """Both from the same samples."""
    if sources.found("ml-1m") is None:
        return Outcome(
            [absent("Figures 2 and 6 on a stand-in", "ml-1m.parquet", sources.SOURCES["ml-1m"].where, "Figure 2")]
        )
    todo = [Cell.of(PRINTED, "Algorithm 3, lines 2 and 5", way=way) for way in WAYS]
    rows = run(todo, lambda c, k: measure(c, k, quick), 2 if quick else 10, pieces)
    return Outcome(claims(Draws(rows)), {"dpals-spread": rows})


def claims(found: Draws) -> list[Claim]:
    top, often = ({way: found.of(name, way=way) for way in WAYS} for name in ("top", "often"))
    related = estimate(found.of("correlation", way="all ratings"))
    shown = lambda lists: "; ".join(f"{way} {estimate(draws)}" for way, draws in lists.items())

    def told(sentence: str, place: str, rule: str, text: str, verdict: Verdict) -> Claim:
        finding = Finding("Algorithm 3, lines 2 and 5", text, verdict)
        return Claim(f"{sentence}, on a stand-in.", place=place, reason=rule, columns={PRINTED: finding})

    skew: list[Verdict] = [
        less(top["all ratings"], top["uniform"], paired=True),
        less(top["adaptive"], top["all ratings"], paired=True),
    ]
    shift: list[Verdict] = [
        less(often["all ratings"], often["uniform"], paired=True),
        less(often["adaptive"], often["all ratings"], paired=True),
    ]
    return [
        told("The top fifth of the films has more than 85 % of the ratings", "section 5.1, Figure 2", "of all ratings",
             f"share of the ratings: {shown(top)}", between(estimate(top["all ratings"]), PUBLISHED_SHARE, 1.0)),
        told("Uniform sampling makes the skew worse and adaptive sampling less", "section 5.1, Figure 2",
             "share of the top fifth against all ratings", shown(top), every(skew)),
        told("Counts of users and films are correlated negatively (-0.243)", "appendix C, Figure 6 (a)",
             "half to twice as much", f"{related}", between(related, *CORRELATION)),
        told("Frequent films become likelier by uniform sampling and less likely by adaptive sampling",
             "appendix C, Figure 6 (b), (c)", "share of the films that are the top fifth by all ratings", shown(often),
             every(shift)),
    ]  # fmt: skip
