"""The experiments of the DPLMC paper, as code: its data, verdicts that follow the rows, runs that resume, and its noise."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu
from lowkey_lab import lmc
from lowkey_lab.lmc_trials import METHODS, Cell, paper_share, planted, run


def test_the_data_are_those_of_section_6() -> None:
    data = planted(800, 3, False, 1)
    assert data.csr.nnz == round(3 * 800 * math.log(800))
    assert np.linalg.matrix_rank(data.truth) == 3
    assert np.abs(data.truth).max() <= 4.0
    rows, columns = data.csr.nonzero()
    assert data.csr.data == pytest.approx(data.truth[rows, columns], abs=1e-6)
    noisy = planted(800, 3, True, 1)
    # 16,000 numbers: 0.03 is five standard deviations of their spread; the few that the range cuts hardly count.
    assert (noisy.csr.data - noisy.truth[noisy.csr.nonzero()]).std() == pytest.approx(1.0, abs=0.03)
    assert not np.array_equal(planted(800, 3, False, 2).truth, data.truth)


def test_the_start_gets_what_the_paper_gives_it() -> None:
    """epsilon = 1 of 5 and 0.2 of 2, as shares of mu^2: that much alone costs that epsilon."""
    for epsilon, start in ((2.0, 0.2), (5.0, 1.0), (20.0, 1.0)):
        mu = math.sqrt(paper_share(epsilon)) * gaussian_mu(epsilon, 1e-5)
        assert gaussian_epsilon(mu, 1e-5) == pytest.approx(start, rel=1e-6)


def test_a_run_resumes(tmp_path: Path) -> None:
    cell, results = Cell("DPLMC", "private", 300, 3, False, 20.0), tmp_path / "rows.jsonl"
    first = run([cell], 2, True, results)
    text = results.read_text()
    assert len(text.splitlines()) == 3  # the settings, and two trials
    assert run([cell], 2, True, results) == first
    assert results.read_text() == text
    assert len(run([cell], 3, True, results)) == 3
    assert len({row["error"] for row in first}) == 2


def made_up(error: Any, **facts: Any) -> list[dict[str, Any]]:
    """Rows of every method and start at two epsilons and three sizes, with the errors that ``error`` says."""
    rows = []
    for method, start, epsilon, users in itertools.product(METHODS, lmc.STARTS, (2.0, 20.0), (5000, 10_000, 15_000)):
        if method != "DPMoments" or start == "random":
            row = {"method": method, "start": start, "epsilon": epsilon, "n_users": users, "rank": 5, "noisy": True}
            rows += [
                {**row, **facts, "trial": t, "settings": {}, "error": error(method, start, epsilon, users)} for t in (0, 1)
            ]
    return lmc.means(rows)


def as_the_paper_says(method: str, start: str, epsilon: float, users: int) -> float:
    return (
        (2.0 if method == "DPALS" else 1.0)
        * (1e4 / users / epsilon)
        * (0.5 + 0.1 * (epsilon > 2) if start == "private" else 1.0)
    )


def test_verdicts_follow_the_rows() -> None:
    rows = made_up(as_the_paper_says)
    good = [lmc._falls_with_users(rows), lmc._below_everywhere(rows), lmc._gap_at(rows, "epsilon", "smaller budgets")]
    good += [lmc._gap_at(rows, "n_users", "fewer users"), *lmc._start_helps(rows, "DPLMC")]
    assert all(claim.holds for claim in good), good
    backwards = made_up(lambda method, *rest: 1.0 / as_the_paper_says(method, *rest))
    bad = [lmc._falls_with_users(backwards), lmc._below_everywhere(backwards)]
    bad += [
        lmc._gap_at(backwards, "epsilon", ""),
        lmc._gap_at(backwards, "n_users", ""),
        *lmc._start_helps(backwards, "DPALS"),
    ]
    assert not any(claim.holds for claim in bad), bad
    one_off = made_up(lambda *cell: as_the_paper_says(*cell) * (9.0 if cell == ("DPLMC", "random", 2.0, 5000) else 1.0))
    assert not lmc._below_everywhere(one_off).holds  # "consistently" is in every cell
    assert "below in 11 of 12 cells" in lmc._below_everywhere(one_off).ours
    assert "DPMoments" in lmc.table(rows)
    rising = made_up(lambda *cell: as_the_paper_says(*cell) * (4.0 if cell == ("DPLMC", "private", 20.0, 15_000) else 1.0))
    assert "epsilon = 20, private start" in lmc._falls_with_users(rising).ours


def test_differences_are_paired_where_the_data_are_the_same() -> None:
    """Trials that differ by 1 and 3 have a mean difference of 2 with a standard error of 1, however far they are spread."""
    one = {"n_users": 5000, "errors": [11.0, 103.0], "error": 57.0, "standard_error": 46.0}
    other = {"n_users": 5000, "errors": [10.0, 100.0], "error": 55.0, "standard_error": 45.0}
    assert lmc._difference(one, other) == pytest.approx((2.0, 1.0))
    assert lmc._difference(one, {**other, "n_users": 9000}) == pytest.approx((2.0, math.hypot(46.0, 45.0)))


def test_the_gap_in_rank() -> None:
    for gaps, holds in (((0.1, 0.2, 0.4), True), ((0.1, 0.3, 0.2), False), ((-0.1, 0.2, 0.4), False)):
        rows = []
        for rank, gap in zip(lmc.RANKS, gaps, strict=True):
            facts = {"rank": rank, "n_users": 5000, "epsilon": 5.0, "start": "random"}
            rows += [{**facts, "method": "DPLMC", "error": 1.0}, {**facts, "method": "DPALS", "error": 1.0 + gap}]
        assert lmc._gap_grows_with_rank(rows, 5000, 5.0, "random").holds == holds


def test_published_noise_is_wider_than_needed() -> None:
    """By sqrt(2) for the sensitivity, and by what the paper's conversion costs, which is between 1.28 and 1.37 here."""
    for row in lmc.noise_rows():
        assert row["holds, replace-one"] < row["booked"] < row["asked epsilon"]
        conversion = row["noise on the gradient, published/exact, replace-one"] / math.sqrt(2.0)
        log = math.log(1e5)
        theirs = row["asked epsilon"] / math.sqrt(2.0 * (log + row["asked epsilon"]))  # the mu that they book
        assert conversion == pytest.approx(gaussian_mu(row["asked epsilon"], 1e-5) / theirs, rel=1e-6)
