"""Lab room: table 4 of the DPALS paper (Chien et al. 2021, appendix D.2) as plain data: the private columns.

Source: appendix D.2 of the paper. Row by row: epsilon, r, lambda, lambda_0, mu, nu, T, k, sigma_G,
sigma_g, beta, sigma_p. A dash in the table is None. Deltas: section 6, "Experimental protocol" (line 267): 1e-5 for
ML-10M, 1/n for ML-20M with the n = 136,677 users of Table 2.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """One column of the table, in our words; the paper's letters are in the module docstring, in this order."""

    claimed_epsilon: float
    rank: int
    reg: float
    global_reg: float
    item_exponent: float | None
    user_exponent: float | None
    n_iter: int
    max_ratings: int
    gram_noise: float
    rhs_noise: float
    head_fraction: float
    preprocessing_noise: float


ML_10M_TOP400 = (
    Column(0.8, 50, 90, 0, 0.5, 1, 2, 40, 126.9, 63.4, 1, 200),
    Column(4, 50, 90, 0, 0.5, 1, 2, 50, 29.0, 14.5, 1, 200),
    Column(8, 50, 80, 0, 0.5, 1, 2, 50, 11.3, 11.3, 1, 20),
    Column(16, 50, 80, 0, 0.5, 1, 2, 50, 5.86, 5.86, 1, 20),
)
ML_10M = (
    Column(1, 32, 120, 0, 0.5, 1, 2, 50, 125.9, 63.0, 0.05, 100),
    Column(5, 128, 80, 0, 0.5, 1, 2, 50, 27.8, 13.9, 0.4, 20),
    Column(10, 128, 70, 0, 0.5, 1, 2, 50, 15.5, 7.7, 0.5, 10),
    Column(20, 128, 60, 0, 0.5, 1, 2, 50, 7.5, 3.8, 0.6, 10),
)
ML_20M = (
    Column(1, 32, 0.5, 2, None, None, 1, 60, 64.0, 64.0, 0.05, 100),
    Column(5, 32, 0.5, 0.6, None, None, 3, 60, 20.2, 20.2, 0.1, 100),
    Column(10, 32, 0.1, 0.4, None, None, 3, 100, 14.0, 14.0, 0.05, 100),
    Column(20, 128, 50, 0.4, None, None, 1, 60, 3.5, 3.5, 0.05, 100),
)

ML_10M_DELTA = 1e-5
ML_20M_DELTA = 1 / 136_677
