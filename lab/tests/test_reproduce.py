"""`lowkey reproduce`: verdicts follow from rows, absent data are named, and docs/results.md is what its results say.

`make reproduce` runs every experiment in its quick form; here are the parts that take no time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowkey.cli.main import run
from lowkey_lab import one_bit_claims, reproduce, results, trace_claims
from lowkey_lab.claims import Claim
from lowkey_lab.papers import dpfw
from lowkey_lab.trials import EXACT, OURS, Draws

DOCS = Path(__file__).parents[2] / "docs"
VERDICTS = {"holds", "does not hold", "inconclusive", "cannot be run here"}


def test_table_4_needs_no_data_and_knows_which_columns_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOWKEY_DATA", str(tmp_path))
    report = reproduce._run("dpals-table-4", True)
    # top-400 holds, ML-10M fails at epsilon = 10 (10.155), ML-20M states no noise for K; then three sets that are absent.
    assert [claim.verdict for claim in report.claims] == ["holds", *["does not hold"] * 2, *["cannot be run here"] * 3]
    assert "10.155" in report.claims[1].ours
    assert all("grouplens.org" in claim.reason for claim in report.claims[3:])


@pytest.mark.parametrize("name", ["onebit-figure-2", "onebit-figure-3"])
def test_absent_data_cannot_be_run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOWKEY_DATA", str(tmp_path))
    (claim,) = reproduce._run(name, True).claims
    assert claim.verdict == "cannot be run here"
    assert "data absent" in claim.reason


def drawn(column: str, algorithm: str, values: float, **facts: Any) -> list[dict[str, Any]]:
    """Ten draws around a mean, as an experiment keeps them."""
    spread = np.linspace(-0.01, 0.01, 10)
    row = {"column": column, "algorithm": algorithm, "facts": facts}
    return [{**row, "seed": k, "values": {"rmse": values + spread[k], "held": 1.0}} for k in range(10)]


@pytest.mark.parametrize(
    ("printed", "svd", "verdicts"),
    [
        ((0.52, 0.50), (0.9, 0.9), ["holds", "holds"]),  # close to 0.5, of 1.0, and below SVD
        ((0.70, 0.50), (0.9, 0.9), ["does not hold", "holds"]),  # far at epsilon = 1
        ((0.52, 0.50), (0.9, 0.4), ["holds", "does not hold"]),  # above SVD at epsilon = 20
        ((0.525, 0.50), (0.9, 0.500), ["inconclusive", "inconclusive"]),  # on the line, and level
    ],
)
def test_frank_wolfe_is_judged_by_its_printed_form(
    printed: tuple[float, float], svd: tuple[float, float], verdicts: list[str]
) -> None:
    shift = 0.002 * np.random.default_rng(0).standard_normal(10)
    rows = drawn("not private", dpfw.FREE, 0.5, data="x", epsilon=None)
    rows += drawn("not private", dpfw.MEAN, 1.0, data="x", epsilon=None)
    for at, epsilon in enumerate((1.0, 20.0)):
        rows += drawn(EXACT, dpfw.SVD, svd[at], data="x", epsilon=epsilon)
        for column, name in dpfw.ALGORITHMS.items():
            mine = drawn(column, name, 0.1 if column == OURS else printed[at], data="x", epsilon=epsilon)
            for row in mine:
                row["values"]["rmse"] += shift[row["seed"]]
            rows += mine
    found = dpfw.claims(Draws(rows))
    assert [claim.verdict for claim in found] == verdicts
    assert found[1].columns[OURS].verdict == "holds"  # whatever the paper's own form does


def test_slopes_and_gaps_of_made_up_errors() -> None:
    rows = [
        {"n": n, "epsilon": e, "mu": e / 4, "nonprivate_error": n**-0.5, "privacy_part": 1 / (n * e)}
        for n in (100, 1000, 10_000)
        for e in (1.0, 2.0)
    ]
    assert [claim.holds for claim in trace_claims.slope_claims(rows)] == [True, True]
    steep = [{**row, "nonprivate_error": row["n"] ** -0.9, "privacy_part": row["n"] ** -0.5} for row in rows]
    assert [claim.holds for claim in trace_claims.slope_claims(steep)] == [False, False]
    gap = [
        {"sigma_r": s, "kind": kind, "protect": protect, "error": error}
        for s, errors in ((0.5, (1.0, 1.0, 1.0)), (8.0, (3.0, 5.0, 1.1)))
        for kind, protect, error in zip(
            ("sound", "published", "sound"), ("records", "records", "responses"), errors, strict=True
        )
    ]
    assert [claim.holds for claim in trace_claims.gap_claims(gap)] == [True, True]


def test_one_bit_ratios_judge_the_published_mechanisms() -> None:
    rows = [
        {"link": "probit", "ratio": r, "calibration": "published", "perturbation": p, "epsilon": e, "are": are / r}
        for r in (0.2, 0.8)
        for p in ("input", "objective", "gradient", "output")
        for e, are in ((1.0, 3.0), (5.0, 1.1), (10.0, 1.0))
    ]
    rows += [{**row, "calibration": "sound", "are": 99.0} for row in rows]
    # Errors fall fourfold from 20 % to 80 % observed at every epsilon, and are level from 5 to 10.
    assert [c.holds for c in one_bit_claims.ratio_claims(rows, "probit", "onebit-figure-4")] == [True, True, False]


def test_a_wrong_name_is_refused_with_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "dpals-figure-9"]) == 2
    assert "dpals-figure-4" in capsys.readouterr().err
    assert run(["reproduce", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(reproduce.EXPERIMENTS) == 13


def test_infinity_is_kept_as_null(tmp_path: Path) -> None:
    claim = Claim("a", "b", None)
    reproduce.save(reproduce.Report("x", "p", True, 1.0, [claim], {"rows": [{"epsilon": float("inf")}]}), tmp_path)
    kept = json.loads((tmp_path / "x.json").read_text(), parse_constant=pytest.fail)
    assert kept["rows"]["rows"] == [{"epsilon": None}]
    assert kept["claims"][0]["verdict"] == "cannot be run here"


@pytest.mark.skipif(not (DOCS / "results.md").exists(), reason="no docs here")
def test_the_results_page_is_what_the_committed_results_say() -> None:
    """No number is typed by hand: python -m lowkey_lab.results writes the page again, to the letter."""
    assert (DOCS / "results.md").read_text() == results.page(DOCS / "results")
    kept = [json.loads(path.read_text()) for path in (DOCS / "results" / "reproduce").glob("*.json")]
    assert all(claim["verdict"] in VERDICTS for report in kept for claim in report["claims"])
