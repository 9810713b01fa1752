"""Verdicts on invented draws: each word must come out, each way."""

from __future__ import annotations

import numpy as np
import pytest

from lowkey_lab.verdicts import Estimate, Verdict, between, every, less, ratio


def draws(mean: float, spread: float = 1.0, count: int = 10) -> list[float]:
    """Exactly this mean and this sample standard deviation."""
    raw = np.arange(count) - (count - 1) / 2
    return (mean + spread * raw / raw.std(ddof=1)).tolist()


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [(-0.9, "holds"), (-0.8, "inconclusive"), (0.8, "inconclusive"), (0.95, "does not hold")],
)
def test_unpaired_draws_count_beyond_two_standard_errors(gap: float, verdict: Verdict) -> None:
    # standard error of the difference: sqrt(2/10) = 0.447, two of them 0.894
    assert less(draws(3.0 + gap), draws(3.0), paired=False) == verdict


def test_pairs_cancel_what_the_data_share() -> None:
    data = draws(5.0, 100.0)
    assert less([value - 0.1 for value in data], data, paired=True) == "holds"
    assert less([value + 0.1 for value in data], data, paired=True) == "does not hold"
    assert less([value - 0.1 for value in data], data, paired=False) == "inconclusive"
    assert less([value - 0.1 for value in data], data, paired=True, by=0.2) == "does not hold"
    with pytest.raises(ValueError, match="equal numbers"):
        less(data, data[:-1], paired=True)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_few_draws_are_not_judged(count: int) -> None:
    assert less(draws(0.0, 0.1, count) if count > 1 else [0.0], [9.0] * count, paired=True) == "not judged"


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(1.0, "holds"), (0.45, "inconclusive"), (0.39, "does not hold"), (1.55, "inconclusive"), (1.7, "does not hold")],
)
def test_near_has_two_sides(value: float, verdict: Verdict) -> None:
    assert between(Estimate(value, 0.05, 10), 0.5, 1.5) == verdict


def test_ratios_carry_the_error_of_both() -> None:
    a, b = draws(2.0, 0.3), draws(4.0, 0.3)
    assert ratio(a, b, paired=False).mean == pytest.approx(0.5)
    rng = np.random.default_rng(0)
    many = [rng.choice(a, 10).mean() / rng.choice(b, 10).mean() for _ in range(20_000)]
    assert ratio(a, b, paired=False).error == pytest.approx(np.std(many), rel=0.1)
    assert ratio(a, [2.0 * value for value in a], paired=True).error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        (["holds", "holds"], "holds"),
        (["holds", "inconclusive"], "inconclusive"),
        (["inconclusive", "does not hold", "holds"], "does not hold"),
        (["holds", "not judged"], "not judged"),
        (["holds", "cannot be run here"], "cannot be run here"),
    ],
)
def test_a_claim_of_several_parts(parts: list[Verdict], verdict: Verdict) -> None:
    assert every(parts) == verdict
