"""Lab room: the figures of the DPLMC paper, and what its text says of them.

Paper: Wang, Zhao and Kolar 2023, section 6, Figures 1 to 3. Deviates: ``lmc_trials``; ``DPMoments`` and ``DPFactors``
stand beside. Run: python -m lowkey_lab.lmc noise|options|figure-1|figure-2|figure-3 [--quick] [--out folder]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey_lab import datasets
from lowkey_lab.claims import Claim, Outcome
from lowkey_lab.lmc_trials import DELTA, METHODS, Cell, Row, planted, run
from lowkey_lab.published.lmc import AS_PRINTED, PublishedLMC, booked_epsilon
from lowkey_lab.variants import varied

EPSILONS, USERS, RANKS, STARTS = (2.0, 5.0, 10.0, 20.0), (5_000, 10_000, 15_000), (3, 5, 7), ("random", "private")
RANK_SETTINGS = ((15_000, 5.0), (10_000, 10.0))  # of Figure 3
TRIALS = 10
QUICK_USERS, QUICK_EPSILONS, QUICK_TRIALS = (2_000, 4_000), (2.0, 20.0), 2


def figure_1(quick: bool = False, results: Path | None = None) -> Outcome:
    """Noisy ratings: error against epsilon, users and start."""
    return _over_users(True, quick, results)


def figure_2(quick: bool = False, results: Path | None = None) -> Outcome:
    """Exact ratings: error against epsilon, users and start."""
    return _over_users(False, quick, results)


def figure_3(quick: bool = False, results: Path | None = None) -> Outcome:
    """Noisy ratings: error against rank, at 15,000 users and epsilon 5 and at 10,000 users and epsilon 10."""
    settings = ((2_000, 5.0), (2_000, 10.0)) if quick else RANK_SETTINGS
    cells = [
        Cell(method, start, n_users, rank, True, epsilon)
        for n_users, epsilon in settings
        for rank in RANKS
        for method, start in _curves()
    ]
    rows = means(run(cells, QUICK_TRIALS if quick else TRIALS, quick, results))
    claims = [_gap_grows_with_rank(rows, *setting, start) for setting in settings for start in STARTS]
    return Outcome(claims, {"dplmc-figure-3": rows})


def _over_users(noisy: bool, quick: bool, results: Path | None) -> Outcome:
    cells = [
        Cell(method, start, n_users, 5, noisy, epsilon)
        for n_users in (QUICK_USERS if quick else USERS)
        for epsilon in (QUICK_EPSILONS if quick else EPSILONS)
        for method, start in _curves()
    ]
    rows = means(run(cells, QUICK_TRIALS if quick else TRIALS, quick, results))
    claims = [_falls_with_users(rows), _below_everywhere(rows)]
    claims += [_gap_at(rows, "epsilon", "smaller budgets"), _gap_at(rows, "n_users", "fewer users")] if noisy else []
    claims += [] if noisy else [_both_accurate(rows)]
    claims += [claim for method in ("DPLMC", "DPALS") for claim in _start_helps(rows, method)]
    return Outcome(claims, {f"dplmc-figure-{1 if noisy else 2}": rows})


def _curves() -> list[tuple[str, str]]:
    return [(m, s) for s in STARTS for m in METHODS if m != "DPMoments" or s == "random"]


# Rows -------------------------------------------------------------------------------------------------------------------
def means(rows: Sequence[Row]) -> list[Row]:
    """Mean and standard error over the trials of each cell, with the errors themselves."""
    found: dict[str, Row] = {}
    names = ("method", "start", "n_users", "rank", "noisy", "epsilon")
    for row in rows:
        cell = {name: row[name] for name in names}
        found.setdefault(str(cell), {**cell, "settings": row["settings"], "errors": []})["errors"].append(row["error"])
    for row in found.values():
        errors = np.array(row["errors"])
        row["error"] = float(errors.mean())
        row["standard_error"] = float(errors.std(ddof=1) / math.sqrt(len(errors))) if len(errors) > 1 else math.nan
    return list(found.values())


def at(rows: Sequence[Row], **facts: Any) -> Row:
    """The one row with these facts; ``DPMoments`` has no start, and stands under random."""
    if facts.get("method") == "DPMoments":
        facts["start"] = "random"
    (row,) = [row for row in rows if all(row[name] == value for name, value in facts.items())]
    return row


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    return sorted({row[name] for row in rows})


def _grid(rows: Sequence[Row], *names: str) -> list[dict[str, Any]]:
    """All points of these columns that DPLMC has."""
    points = [{name: row[name] for name in names} for row in rows if row["method"] == "DPLMC"]
    return [dict(point) for point in dict.fromkeys(tuple(sorted(point.items())) for point in points)]


# Claims -----------------------------------------------------------------------------------------------------------------
def _falls_with_users(rows: Sequence[Row]) -> Claim:
    curves, exceptions = _grid(rows, "epsilon", "start"), list[str]()
    for curve in curves:
        found = [at(rows, method="DPLMC", n_users=n, **curve) for n in _values(rows, "n_users")]
        for few, many in pairwise(found):
            if many["error"] >= few["error"]:
                rise, error = _difference(many, few)
                exceptions.append(f"{rise:+.4f} ± {error:.4f} at epsilon = {curve['epsilon']:g}, {curve['start']} start")
    ours = (
        f"on all but {len(exceptions)} of the steps of {len(curves)} curves"
        if exceptions
        else f"on all {len(curves)} curves"
    )
    ours += f" ({'; '.join(exceptions)})" if exceptions else ""
    return Claim("The error of DPLMC decreases as the number of users increases.", ours, not exceptions, "section 6")


def _below_everywhere(rows: Sequence[Row]) -> Claim:
    points = _grid(rows, "epsilon", "n_users", "start")
    both = [(at(rows, method="DPLMC", **p), at(rows, method="DPALS", **p)) for p in points]
    ratios = [lmc["error"] / als["error"] for lmc, als in both]
    below = sum(ratio < 1.0 for ratio in ratios)
    clear = [difference / max(error, 1e-300) for difference, error in (_difference(*pair) for pair in both)]
    under, over = sum(z < -2.0 for z in clear), sum(z > 2.0 for z in clear)
    ours = f"below in {below} of {len(points)} cells, by over two standard errors in {under}, above by as much in {over}"
    ours += f"; error of DPLMC / DPALS from {min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}"
    claim = "DPLMC consistently outperforms DPALS across numbers of users and privacy parameters."
    return Claim(claim, ours, below == len(points), "section 6")


def _difference(one: Row, other: Row) -> tuple[float, float]:
    """Of two mean errors, and its standard error: trials of the same number of users are on the same data, hence paired."""
    if one["n_users"] == other["n_users"]:
        apart = np.array(one["errors"]) - np.array(other["errors"])
        return float(apart.mean()), float(apart.std(ddof=1) / math.sqrt(len(apart)))
    return one["error"] - other["error"], math.hypot(one["standard_error"], other["standard_error"])


def _gap_at(rows: Sequence[Row], name: str, words: str) -> Claim:
    """The gap, DPALS less DPLMC, at the smallest and the largest value of ``name``, averaged over all else."""
    ends = (_values(rows, name)[0], _values(rows, name)[-1])
    gaps, parts = list[float](), list[str]()
    for end in ends:
        points = [p for p in _grid(rows, "epsilon", "n_users", "start") if p[name] == end]
        both = [[at(rows, method=m, **p)["error"] for p in points] for m in ("DPALS", "DPLMC")]
        gaps.append(float(np.mean(both[0]) - np.mean(both[1])))
        parts.append(f"{gaps[-1]:+.4f} at {name} = {end:g}")
    claim = f"DPLMC significantly outperforms DPALS with {words}: the gap is larger there."
    return Claim(claim, f"DPALS less DPLMC: {', '.join(parts)}", gaps[0] > max(gaps[1], 0.0), "section 6")


def _both_accurate(rows: Sequence[Row]) -> Claim:
    epsilon, n_users = _values(rows, "epsilon")[-1], _values(rows, "n_users")[-1]
    zero = float(np.mean(planted(n_users, 5, False, 0).truth ** 2))
    shares = {m: at(rows, method=m, start="private", epsilon=epsilon, n_users=n_users)["error"] / zero
              for m in ("DPLMC", "DPALS")}  # fmt: skip
    ours = ", ".join(f"{m} leaves {100.0 * share:.2f} %" for m, share in shares.items())
    ours += f" of the variance (epsilon = {epsilon:g}, {n_users:,} users)"
    claim = "Without noise on the ratings both methods are accurate at large budgets with the private start."
    return Claim(claim, ours, max(shares.values()) < 0.05, "section 6", "accurate: less than 5 % is left")


def _start_helps(rows: Sequence[Row], method: str) -> list[Claim]:
    points, epsilons = _grid(rows, "epsilon", "n_users"), _values(rows, "epsilon")
    gain: dict[tuple[float, int], float] = {}
    for p in points:
        random, private = (at(rows, method=method, start=start, **p)["error"] for start in STARTS)
        gain[p["epsilon"], p["n_users"]] = 1.0 - private / random
    helped, most = sum(g > 0.0 for g in gain.values()), max(gain.values())
    ends = [float(np.mean([g for (e, _), g in gain.items() if e == end])) for end in (epsilons[0], epsilons[-1])]
    errors = [_gain_error(rows, method, end) for end in (epsilons[0], epsilons[-1])]
    ours = f"lower error in {helped} of {len(points)} cells, by up to {100 * most:.0f} %"
    ends_of = zip(ends, errors, (epsilons[0], epsilons[-1]), strict=True)
    by = [f"{100 * end:.0f} ± {100 * error:.0f} % at epsilon = {e:g}" for end, error, e in ends_of]
    place = "section 6"
    return [
        Claim(f"The private start is very helpful for {method}.", ours, helped == len(points), place),
        Claim(
            f"It helps {method} most at small budgets.", f"it lowers the error by {', '.join(by)}", ends[0] > ends[1], place
        ),
    ]


def _gain_error(rows: Sequence[Row], method: str, epsilon: float) -> float:
    """The standard error of the start's mean gain at an epsilon, from the gains of the single trials."""
    by_size = []
    for n_users in _values(rows, "n_users"):
        facts = {"method": method, "epsilon": epsilon, "n_users": n_users}
        random, private = (np.array(at(rows, start=start, **facts)["errors"]) for start in STARTS)
        by_size.append(1.0 - private / random)
    trials = np.mean(by_size, axis=0)
    return float(trials.std(ddof=1) / math.sqrt(len(trials)))


def _gap_grows_with_rank(rows: Sequence[Row], n_users: int, epsilon: float, start: str) -> Claim:
    facts = {"n_users": n_users, "epsilon": epsilon, "start": start}
    both = [[at(rows, method=m, rank=r, **facts)["error"] for r in RANKS] for m in ("DPALS", "DPLMC")]
    gaps = [als - lmc for als, lmc in zip(*both, strict=True)]
    ours = f"DPALS less DPLMC at ranks {', '.join(map(str, RANKS))}: {', '.join(f'{gap:+.4f}' for gap in gaps)}"
    claim = f"The gap grows with the rank ({n_users:,} users, epsilon = {epsilon:g}, {start} start)."
    return Claim(claim, ours, 0.0 < gaps[0] < gaps[1] < gaps[2], "Figure 3")


# Noise ------------------------------------------------------------------------------------------------------------------
def noise_rows(n_iter: int = 40, balance_share: float = 0.05) -> list[Row]:
    """Published noise beside ours, with no start: what it guarantees in truth, and the ratio of standard deviations."""
    domain = lk.Domain(items=100, rating_range=(-4.0, 4.0), expected_users=10_000)
    rows: list[Row] = []
    for epsilon in EPSILONS:
        shared: Row = {"epsilon": epsilon, "delta": DELTA, "n_iter": n_iter, "balance_share": balance_share}
        shared |= {"density": 0.4, "start": "random", "rank": 5}
        row: Row = {"asked epsilon": epsilon}
        for adjacency in ("replace-one", "add-remove"):
            published = PublishedLMC(adjacency=adjacency, **shared).plan(domain)
            exact = varied(lk.DPLMC, adjacency=adjacency, **shared, **AS_PRINTED).plan(domain)
            if adjacency == "replace-one":
                row["booked"] = booked_epsilon(published)
            row[f"holds, {adjacency}"] = published.price.epsilon
            ratio = {a.name: b.mechanism.mu / a.mechanism.mu for a, b in zip(published.lines, exact.lines, strict=True)}
            row[f"noise on the gradient, published/exact, {adjacency}"] = ratio["item_gradient"]
            # ours is symmetric: off the diagonal it has 1/sqrt(2) of the width at the same price
            row[f"on the Gram matrix, {adjacency}"] = ratio["user_gram"] * math.sqrt(2.0)
        rows.append(row)
    return rows


# Real data --------------------------------------------------------------------------------------------------------------
OPTIONS: dict[str, Row] = {
    "defaults": {},
    "weighting='uniform'": {"weighting": "uniform"},
    "start='random'": {"start": "random"},
    "item_reg=0": {"item_reg": 0.0},
    "averaged=0": {"averaged": 0.0},
}


def option_rows(draws: int = 3) -> list[Row]:
    """Jester and MovieLens-1M, held-out users, add/remove: what each option of ours brings, one at a time."""
    rows: list[Row] = []
    for data in ("jester", "ml-1m"):
        split = datasets.load(data, 0)
        for name, settings in OPTIONS.items():
            row: Row = {"data": data, "option": name}
            for epsilon in (1.0, 5.0, 20.0):
                fits = [varied(lk.DPLMC, epsilon=epsilon, delta=DELTA, **settings).fit(split.train) for _ in range(draws)]
                errors = [evaluate(fit, split.histories, split.held_out)["rmse"] for fit in fits]
                row[f"epsilon {epsilon:g}"] = f"{np.mean(errors):.4f} ± {np.std(errors, ddof=1) / math.sqrt(draws):.4f}"
            rows.append(row)
    return rows


# Printing ---------------------------------------------------------------------------------------------------------------
def table(rows: Sequence[Row]) -> str:
    """Methods and starts down, cells across, mean error with its standard error."""
    across = [dict(p) for p in _grid(rows, "n_users", "rank", "epsilon")]
    across.sort(key=lambda p: (p["n_users"], p["rank"], p["epsilon"]))
    lines = [f"{'':<20}" + "".join(f"{p['n_users'] // 1000}k r{p['rank']} ε{p['epsilon']:g}".rjust(17) for p in across)]
    for method, start in _curves():
        found = [at(rows, method=method, start=start, **p) for p in across]
        cells = [f"{row['error']:.4f} ± {row['standard_error']:.4f}".rjust(17) for row in found]
        lines.append(f"{method + (', ' + start if method != 'DPMoments' else ''):<20}" + "".join(cells))
    return "\n".join(lines)


FIGURES: dict[str, Callable[[bool, Path | None], Outcome]] = {
    "figure-1": figure_1,
    "figure-2": figure_2,
    "figure-3": figure_3,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The figures of the DPLMC paper.")
    parser.add_argument("what", choices=["noise", "options", *FIGURES])
    parser.add_argument("--quick", action="store_true", help="smaller, two trials, no search for settings")
    parser.add_argument("--out", type=Path, help="a folder: rows as JSON lines, to resume from, and the picture")
    options = parser.parse_args(arguments)
    if options.what in ("noise", "options"):
        show: Callable[[Any], str] = lambda value: f"{value:.4g}" if isinstance(value, float) else str(value)
        for row in noise_rows() if options.what == "noise" else option_rows():
            print("  ".join(f"{name} {show(value)}" for name, value in row.items()), flush=True)
        return
    results = options.out / ("lmc-quick.jsonl" if options.quick else "lmc.jsonl") if options.out else None
    outcome = FIGURES[options.what](options.quick, results)
    (rows,) = outcome.rows.values()
    print(table(rows))
    for claim in outcome.claims:
        print(f"{claim.verdict.upper()}: {claim.paper}\n    {claim.ours}")
    if options.out:
        from lowkey_lab.lmc_picture import draw

        draw(rows, options.what, options.out / f"dplmc-{options.what}.png")


if __name__ == "__main__":
    main()
