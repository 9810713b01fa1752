"""Lab room: what the scores of members and of others prove: lower bounds on mu and epsilon, each with its confidence.

A game: in every run a fair coin decides of each canary whether it is in. Its score is what the posts hold along the
canary's own contribution, in units of the noise that the ledger claims: N(reach, 1) if it is in and N(0, 1) if not, where
``reach`` is the canary's own mu. Narrower noise r < 1 shows as N(reach, r^2) and N(0, r^2), and the true mu is reach/r.

Every confidence comes from the runs, which are independent, and never from the canaries of one run, whose scores share
the run's noise: run by run a mean is taken, and Student's t is about these means (or about a jackknife over the runs).

- ``gaussian``: (mean inside - mean outside)/spread is at most mu, if scores are Gaussian. Jackknife over runs.
- ``free``: whoever guesses "in" above reach/2 is right in at most Phi(mu/2) of the cases under mu-GDP, whatever the law
  of the noise, and whatever the other coins show. So mu >= 2 Phi^-1(the share of right guesses).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lowkey.errors import refuse

FEWEST_RUNS = 20
Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scores:
    """``values`` and ``inside`` have one row per run and one column per canary; ``reach`` has one number per canary."""

    values: Array
    inside: NDArray[np.bool_]
    reach: Array

    def gaussian(self, confidence: float) -> tuple[float, float]:
        """mu as measured, and its lower bound."""
        parts = [(self.values * w).sum(axis=1) for w in (self.inside, ~self.inside)]
        squares = [(self.values**2 * w).sum(axis=1) for w in (self.inside, ~self.inside)]
        counts = [w.sum(axis=1) for w in (self.inside, ~self.inside)]
        sums = np.stack([*parts, *squares, *counts])
        whole = _standardised_gap(sums.sum(axis=1))
        left_out = _standardised_gap(sums.sum(axis=1)[:, None] - sums)
        n = len(self.values)
        return float(whole), lower_mean(n * whole - (n - 1) * left_out, confidence)

    def free(self, confidence: float) -> float:
        """The lower bound on mu from the share of right guesses."""
        right = ((self.values > self.reach / 2.0) == self.inside).mean(axis=1)
        share = lower_mean(right, confidence)
        return max(0.0, 2.0 * float(stats.norm.ppf(min(max(share, 0.0), 1.0 - 1e-12))))


def lower_mean(values: Array, confidence: float) -> float:
    """Student's lower bound on a mean."""
    n = len(values)
    return float(values.mean() - stats.t.ppf(confidence, n - 1) * values.std(ddof=1) / math.sqrt(n))


def noise_width(squares: Array, degrees: float, confidence: float) -> tuple[float, float]:
    """The width of noise in units of what is claimed, and its upper bound, from each run's mean square.

    Along k unit vectors, Gaussian noise has the mean square sum_i e_i chi2_1 with the eigenvalues e of their Gram matrix
    over k. It is taken for chi2_n/n of n = 1/sum_i e_i^2 = k^2/|Gram|_F^2 ``degrees`` (Satterthwaite), which has the same
    variance and the longer tail below: nobody is accused too often.
    """
    square, n = float(squares.mean()), degrees * len(squares)
    return math.sqrt(square), math.sqrt(square * n / float(stats.chi2.ppf(1.0 - confidence, n)))


def check_enough(canaries: int, runs: int, mu: float, confidence: float) -> None:
    """Refuse a game in which even a perfect hit would prove nothing: its lower bound would lie below 0."""
    if not 0.5 < confidence < 1.0 - 1e-9:
        refuse("confidence", got=f"{confidence:g}", needed="a number between 0.5 and 1", try_="confidence=0.95")
    needed = (2.0 * float(stats.norm.ppf(confidence)) / mu) ** 2 if mu > 0.0 else math.inf
    if runs < FEWEST_RUNS or canaries < 2.0 * needed:
        most = max(math.ceil(2.0 * needed), FEWEST_RUNS) if math.isfinite(needed) else 0
        refuse(
            "canaries",
            got=f"{canaries} scores in {runs} runs",
            needed=f"at least {most:,} in {FEWEST_RUNS} runs for a confidence of {confidence:g} at this epsilon",
            try_="more canaries, or a lower confidence",
        )


def _standardised_gap(sums: Array) -> Array:
    inside, outside, inside2, outside2, n, m = sums
    variance = (inside2 - inside**2 / n + outside2 - outside**2 / m) / (n + m - 2)
    return (inside / n - outside / m) / np.sqrt(variance)
