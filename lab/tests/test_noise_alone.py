"""A private run and its non-private twin differ only by the noise: with the noise switched off every method is its twin.

The twin of a method is the same class with exact posts, and the named baseline where there is one.
The noise *level* is public and methods answer to it (ridges, shrinkage), so it is made tiny by a huge epsilon; the noise
itself is multiplied with zero. Nothing here is random.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.evaluation.metrics import rmse
from lowkey.evaluation.protocol import exact_twin
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey.methods.one_bit.method import OneBit
from lowkey.methods.registry import PRIVATE, estimator
from lowkey.methods.trace.baseline import TraceRegression
from lowkey.methods.trace.method import DPTraceRegression
from lowkey.privacy.noise import SeededNoise
from lowkey_lab.papers.one_bit import rank_one
from lowkey_lab.trace import gaussian_problem
from lowkey_lab.variants import varied

LARGE = 1e6  # epsilon: an answer to the noise level, such as a ridge, is then too small to see
# What a default makes of the noise level alone: the rank. The same for both of a pair.
SETTINGS: dict[str, dict[str, Any]] = {"factors": {"rank": 4}, "als": {"rank": 8}}
BINARY = {"als", "bias", "lists", "moments"}


@cache
def split(feedback: str) -> Split:
    return hold_out_users(taste(2500, 60, 15.0, seed=1, feedback=feedback).ratings(), 250, 0.8, seed=0)


def no_noise() -> lk.Billboard:
    return lk.Billboard(noise=SeededNoise(1, factor=0.0))


@pytest.mark.parametrize("feedback", ["ratings", "binary"])
@pytest.mark.parametrize("method", PRIVATE)
def test_without_noise_a_method_is_its_twin(method: str, feedback: str) -> None:
    kind, settings, data = estimator(method), SETTINGS.get(method, {}), split(feedback)
    if feedback == "binary" and method not in BINARY:
        with pytest.raises(InputError, match="binary"):
            kind(1.0, 1e-5, **settings).fit(data.train)
        return
    twin = exact_twin(kind)(LARGE, 1e-5, **settings).fit(data.train).predict(data.histories)
    silent = kind(LARGE, 1e-5, **settings).fit(data.train, billboard=no_noise()).predict(data.histories)
    private = kind(1.0, 1e-5, **settings).fit(data.train).predict(data.histories)
    spread = float(np.std(twin))
    assert np.abs(silent - twin).max() < 0.01 * spread
    assert np.abs(private - twin).max() > 0.02 * spread  # and it is the noise that was switched off


@pytest.mark.parametrize(
    ("method", "baseline", "settings", "margin"),
    [
        ("bias", lambda: lk.Bias(n_iter=6), {"n_iter": 6, "residual_bound": 4.5}, 0.002),
        ("als", lambda: lk.ALS(rank=8, n_iter=10), {"rank": 8, "n_iter": 10, "residual_bound": 2.0}, 0.03),
        ("frank-wolfe", lambda: lk.FrankWolfe(n_iter=6), {"n_iter": 6, "row_norm": 40.0, "residual_norm": 80.0}, 0.01),
    ],
)
def test_without_noise_it_predicts_as_well_as_the_named_baseline(method, baseline, settings, margin) -> None:
    """The named baselines also drop clips and weights, so this compares errors, not predictions."""
    data = split("ratings")
    where = data.held_out.tocoo()
    silent = estimator(method)(LARGE, 1e-5, **settings).fit(data.train, billboard=no_noise())
    errors = [
        rmse(model.predict(data.histories)[where.row, where.col], where.data)
        for model in (silent, baseline().fit(data.train))
    ]
    assert errors[0] == pytest.approx(errors[1], abs=margin)


def test_popularity_without_noise_is_popularity() -> None:
    data = split("binary")
    silent = lk.DPBias(LARGE, 1e-5).fit(data.train, billboard=no_noise()).predict(data.histories)
    exact = lk.Popularity().fit(data.train).predict(data.histories)
    np.testing.assert_array_equal(np.argsort(-silent[0], kind="stable"), np.argsort(-exact[0], kind="stable"))


@pytest.mark.parametrize("perturbation", ["input", "objective"])
def test_one_bit_without_noise_is_the_non_private_fit(perturbation: str) -> None:
    """Signs are flipped with chance 1/(1 + e^epsilon), which the factor does not touch: never, at such an epsilon."""
    ratings = lk.Ratings.from_csr(rank_one(30, 0.5, "logistic", seed=3)[1], lk.Domain(30, (-1.0, 1.0)))
    asked = {"epsilon": 300.0, "delta": None, "perturbation": perturbation, "tol": 1e-6, "max_iter": 60}
    silent = varied(lk.DPOneBit, **asked).complete(ratings, billboard=no_noise())
    np.testing.assert_allclose(silent, OneBit(tol=1e-6).complete(ratings), atol=0.02)


def test_trace_regression_without_noise_is_the_non_private_fit() -> None:
    problem = gaussian_problem(20_000, 6, 2, 0.1, seed=0)
    bounds = {"error_std": 0.1, "max_singular_value": problem.sigma_1}
    silent = DPTraceRegression(2, LARGE, 1e-5, **bounds).fit(problem.X, problem.y, billboard=no_noise())
    twin = TraceRegression(2).fit(problem.X, problem.y)
    apart = np.linalg.norm(silent.coef_ - twin.coef_)
    assert apart < 0.5 * problem.error(twin.coef_)  # clips and step counts differ a little; sampling errs more
