"""Lab room: every paper's experiment by name: its claims, our figures beside them, a verdict; `lowkey reproduce`.

The experiments themselves are in the scripts of each paper; here is only the list of them. ``quick`` runs them small
enough for a test: few draws, small data, so it prints numbers and judges nothing that was drawn.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from lowkey.errors import refuse
from lowkey_lab import processes
from lowkey_lab.claims import Claim, Outcome
from lowkey_lab.trials import made_with


class Experiment(NamedTuple):
    """Which paper, and the function ``module:name`` that takes ``quick`` and returns an ``Outcome``.

    One that takes ``pieces`` too keeps every draw in that file, and goes on from there.
    """

    paper: str
    place: str


DPALS = "DPALS (Chien et al. 2021)"
ONE_BIT = "one-bit completion (Li et al. 2021)"
WOLFE = "private Frank-Wolfe (Jain et al. 2018)"
LMC = "DPLMC (Wang et al. 2023)"
EXPERIMENTS = {
    "dpals-figure-4": Experiment(DPALS, "lowkey_lab.papers.dpals:figure_4"),
    "dpals-figure-7": Experiment(DPALS, "lowkey_lab.papers.dpals:figure_7"),
    "dpals-spread": Experiment(DPALS, "lowkey_lab.papers.dpals_spread:figures_2_and_6"),
    "dpals-movies": Experiment(DPALS, "lowkey_lab.papers.dpals_movie_claims:figures"),
    "dpals-lists": Experiment(DPALS, "lowkey_lab.papers.dpals_lists:figures"),
    "dpals-table-4": Experiment(DPALS, "lowkey_lab.papers.dpals_tables:table_4"),
    "dpals-table-5": Experiment(DPALS, "lowkey_lab.papers.dpals_tables:table_5"),
    "dpfw-figure-2a": Experiment(WOLFE, "lowkey_lab.papers.dpfw:figure_2a"),
    "dpfw-figure-2": Experiment(WOLFE, "lowkey_lab.papers.dpfw:figure_2"),
    "dplmc-figure-1": Experiment(LMC, "lowkey_lab.papers.dplmc:figure_1"),
    "dplmc-figure-2": Experiment(LMC, "lowkey_lab.papers.dplmc:figure_2"),
    "dplmc-figure-3": Experiment(LMC, "lowkey_lab.papers.dplmc:figure_3"),
    "onebit-figure-1": Experiment(ONE_BIT, "lowkey_lab.papers.one_bit_claims:figure_1"),
    "onebit-figure-2": Experiment(ONE_BIT, "lowkey_lab.papers.one_bit_claims:figure_2"),
    "onebit-figure-3": Experiment(ONE_BIT, "lowkey_lab.papers.one_bit_claims:figure_3"),
    "onebit-figure-4": Experiment(ONE_BIT, "lowkey_lab.papers.one_bit_claims:figure_4"),
    "onebit-figure-5": Experiment(ONE_BIT, "lowkey_lab.papers.one_bit_claims:figure_5"),
    "trace-rates": Experiment("trace regression (Zha 2024)", "lowkey_lab.papers.trace:rates"),
}


class Report(NamedTuple):
    """Of one experiment, as the results file keeps it."""

    name: str
    paper: str
    quick: bool
    seconds: float
    claims: list[Claim]
    rows: dict[str, list[dict[str, Any]]]

    def to_json(self) -> dict[str, Any]:
        claims = [{**asdict(claim), "columns": _columns(claim), "verdict": claim.verdict} for claim in self.claims]
        every = [row for rows in self.rows.values() for row in rows]
        commits = list(dict.fromkeys(row["commit"] for row in every if "commit" in row)) or [made_with()["commit"]]
        made = {"versions": made_with()["versions"], "commits": commits}
        spent = sum(row["seconds"] for row in every if "seconds" in row) or self.seconds
        rows = {name: [_short(row) for row in rows] for name, rows in self.rows.items()}
        return _finite({**self._asdict(), "seconds": round(spent, 1), "made": made, "claims": claims, "rows": rows})


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Without what is the same for all of a file; numbers in six digits."""
    kept = {key: value for key, value in row.items() if key not in ("key", "versions", "commit")}
    if "values" in kept:
        kept["values"] = {name: float(f"{value:.6g}") for name, value in kept["values"].items()}
    return kept


def _columns(claim: Claim) -> dict[str, dict[str, str]]:
    return {column: finding._asdict() for column, finding in claim.columns.items()}


def names(wanted: str) -> list[str]:
    """``all``, one name, or several with commas between."""
    chosen = list(EXPERIMENTS) if wanted == "all" else [name.strip() for name in wanted.split(",")]
    for name in chosen:
        if name not in EXPERIMENTS:
            known = " | ".join([*EXPERIMENTS, "all"])
            refuse("experiment", got=repr(name), needed=known, try_="lowkey reproduce all --quick")
    return chosen


def reproduce(wanted: Iterable[str], quick: bool, jobs: int = 1, pieces: Path | None = None) -> Iterator[Report]:
    """Each experiment in a process of its own, as they end; with a folder for ``pieces``, resumed from what it holds."""
    call: Callable[[str], Report] = lambda name: _run(name, quick, None if pieces is None else pieces / f"{name}.jsonl")
    for _, report in processes.each(call, wanted, jobs):
        yield report


def _run(name: str, quick: bool, pieces: Path | None = None) -> Report:
    experiment = EXPERIMENTS[name]
    module, _, function = experiment.place.partition(":")
    started = time.perf_counter()
    if find_spec(module) is None:
        outcome = Outcome([Claim(f"{experiment.paper}, {name}", "–", None, reason="its method is not built yet")])
    else:
        call = getattr(import_module(module), function)
        outcome = call(quick, pieces) if "pieces" in signature(call).parameters else call(quick)
    assert outcome.claims, f"{name} says nothing"
    return Report(name, experiment.paper, quick, round(time.perf_counter() - started, 1), outcome.claims, outcome.rows)


def save(report: Report, folder: Path) -> None:
    """``NAME.json`` in the folder: claims, verdicts and the rows behind them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{report.name}.json").write_text(_lined(report.to_json()) + "\n")


def _lined(report: dict[str, Any]) -> str:
    """One line for every row: files that can be read and compared."""
    head = json.dumps({key: value for key, value in report.items() if key != "rows"}, indent=1).removesuffix("\n}")
    lines = {name: ",\n".join(json.dumps(row) for row in rows) for name, rows in report["rows"].items()}
    body = ",\n".join(f" {json.dumps(name)}: [\n{text}\n ]" for name, text in lines.items())
    return f'{head},\n "rows": {{\n{body}\n }}\n}}'


def _finite(value: Any) -> Any:
    """JSON has no infinity: it becomes null."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
