"""`lowkey reproduce`: verdicts follow from rows, absent data are named, and docs/results.md is what its results say.

`make reproduce` runs every experiment in its quick form; here are the parts that take no time.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowkey.cli.main import run
from lowkey_lab import dpals, one_bit_claims, reproduce, results, trace_claims
from lowkey_lab.claims import Claim
from lowkey_lab.frank_wolfe import figure_2_claims

DOCS = Path(__file__).parents[2] / "docs"
VERDICTS = {"holds", "does not hold", "cannot be run here"}


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


def figure_4_row(users: int, method: str, epsilon: float | None, rmse: float) -> dict:
    return {"users": users, "method": method, "epsilon": epsilon, "rmse": rmse}


@pytest.mark.parametrize(("last", "verdicts"), [(0.10, [True, True, True]), (0.2, [True, True, False])])
def test_figure_4_holds_only_with_a_seven_fold_gap(last: float, verdicts: list[bool]) -> None:
    rows = []
    for users, als in ((1000, 0.9), (2000, last)):
        for epsilon in (1.0, 20.0):
            rows += [figure_4_row(users, "DPALS", epsilon, als), figure_4_row(users, "DPFW as published", epsilon, 0.99)]
            rows += [figure_4_row(users, "DPFrankWolfe", epsilon, 0.5)]
    assert [claim.holds for claim in dpals.figure_4_claims(rows)] == verdicts


def test_figure_2_compares_with_the_baseline_and_with_svd() -> None:
    values = {"DPFrankWolfe": (1.05, 1.03, 1.01), "DPSVD, cleansing": (1.2, 1.02, 1.02)}
    rows = [
        {"method": m, "epsilon": e, "rmse": v} for m, vs in values.items() for e, v in zip((0.1, 1, 20), vs, strict=True)
    ]
    rows.append({"method": "FrankWolfe (not private)", "epsilon": None, "rmse": 1.0})
    assert [claim.holds for claim in figure_2_claims("x", rows, near=0.05)] == [True, False]
    assert [claim.holds for claim in figure_2_claims("x", rows, near=0.02)] == [False, False]


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
    assert len(capsys.readouterr().out.splitlines()) == len(reproduce.EXPERIMENTS) == 12


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
