"""The rates of the paper on Gaussian designs, small: -1/2 in n for sampling, -1 in n for privacy, no gap in sigma_r.

The intervals below are five standard errors or more of these slopes over the repetitions: false alarms below 1e-6.
"""

import numpy as np

from lowkey_lab.trace import averaged, gaussian_problem, parts, private, slope, table


def test_slopes_in_n():
    sizes = [round(1500 * 10 ** (k / 2)) for k in range(4)]
    rows = [parts(gaussian_problem(n, 6, 2, 0.3, seed=seed), 4.0) for n in sizes for seed in range(3)]
    statistical, _ = slope(rows, lambda row: row["n"], "nonprivate_error")
    privacy, _ = slope(rows, lambda row: row["n"] * row["mu"], "privacy_part")
    assert -0.7 < statistical < -0.3
    assert -1.3 < privacy < -0.8
    assert "privacy_part" in table(averaged(rows, ("n",), ("privacy_part",)))


def test_the_falling_bound_closes_the_gap_in_sigma_r():
    """With a constant bound, as in the paper's sensitivities, the error grows with sigma_r; with ours it does not."""
    errors: dict[str, list[float]] = {"falling": [], "constant": []}
    for smallest in (0.5, 8.0):
        problem = gaussian_problem(20_000, 8, 2, 0.25, seed=1, smallest=smallest)
        bound = float(np.hypot(0.25, smallest))
        errors["falling"].append(problem.error(private(problem, 2.0).coef_))
        errors["constant"].append(problem.error(private(problem, 2.0, residual_bound=bound).coef_))
    assert errors["falling"][1] < 3.0 * errors["falling"][0]
    assert errors["constant"][1] > 3.0 * errors["constant"][0]


def test_a_hopeless_budget_takes_no_steps():
    """Where a step's noise alone is wider than the expected error, nothing is posted for it and nothing spent."""
    model = private(gaussian_problem(300, 12, 2, 0.1, seed=0), 0.1)
    assert [line.name for line in model.ledger_.spent()] == ["spectral_start"]
    assert model.guarantee_.epsilon < 0.1
