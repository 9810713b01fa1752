"""Private selection of hyper-parameters: its price, the law of the number of candidates, who scores, and by how much."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from scipy import stats

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.evaluation.splits import hold_out_users
from lowkey.methods.registry import estimator
from lowkey.privacy.accounting import gaussian_epsilon, gaussian_mu, rdp_epsilon
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.noise import SeededNoise
from lowkey.privacy.plan import Line
from lowkey.privacy.price import price
from lowkey.privacy.repeat_and_select import RepeatAndSelect, selection_epsilon
from lowkey_lab.private_selection import (
    candidate_mu,
    logarithmic_parameter,
    number_of_candidates,
    scoring_users,
    select_privately,
    user_scores,
)


def papernot_steinke(mu: float, delta: float, mean: float) -> float:
    """Theorem 2 of the paper, written out: eta = 0, Rényi curve order mu^2/2, minimised over a grid of orders."""
    p = logarithmic_parameter(mean)
    orders = 1.0 + np.geomspace(1e-2, 1e4, 4000)
    curve = orders * mu**2 / 2.0
    constant = np.min((1.0 - 1.0 / orders) * curve - math.log(1.0 - p) / orders)
    whole = curve + constant + math.log(mean) / (orders - 1.0)
    # The conversion of Canonne, Kamath and Steinke 2020.
    return float(np.min(whole + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)))


@pytest.mark.parametrize(("mu", "mean"), [(0.15, 5.0), (0.7, 5.0), (0.7, 20.0), (2.5, 3.0)])
def test_the_price_is_that_of_the_theorem(mu: float, mean: float) -> None:
    priced = selection_epsilon(mu, 1e-5, mean)
    assert priced == pytest.approx(papernot_steinke(mu, 1e-5, mean), rel=0.02)
    assert priced > gaussian_epsilon(mu, 1e-5)  # dearer than one candidate ...
    if mean >= 5.0:
        assert priced < rdp_epsilon(mean * mu**2 / 2.0, 1e-5)  # ... and cheaper than so many composed


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 20.0])
def test_a_candidates_share_leaves_the_whole_within_epsilon(epsilon: float) -> None:
    mu = candidate_mu(epsilon, 1e-5)
    assert 0.997 * epsilon < selection_epsilon(mu, 1e-5, 5.0) < epsilon
    assert 1.2 < gaussian_mu(epsilon, 1e-5) / mu < 2.0  # how much the noise grows


@pytest.mark.parametrize("mean", [1.5, 5.0, 30.0])
def test_the_number_of_candidates_follows_the_priced_law(mean: float) -> None:
    """The same gamma = 1 - p as dp_accounting's, and the mean of NumPy's draws, within five standard errors."""
    p = logarithmic_parameter(mean)
    assert 1.0 - p == pytest.approx(rdp_privacy_accountant._gamma_truncated_negative_binomial(0.0, mean), rel=1e-6)
    draws = np.random.default_rng(0).logseries(p, 200_000)
    assert draws.min() == 1
    assert abs(draws.mean() - mean) < 5.0 * draws.std() / math.sqrt(len(draws))


def small_crowd() -> lk.Ratings:
    return taste(400, 30, 10.0, seed=2).ratings()


def test_a_user_trains_or_scores_and_the_others_do_not_notice() -> None:
    """Remove one user after another: every other user's part, history and held-out items stay as they are."""
    ratings = small_crowd()
    rows, keys = ratings._open_csr(), ratings._open_keys()
    train, (histories, held_out) = scoring_users(ratings)
    assert train._open_csr().shape[0] + histories.shape[0] == rows.shape[0]
    assert histories.nnz + held_out.nnz + train._open_csr().nnz == rows.nnz
    for gone in range(0, 400, 23):
        stay = np.arange(400) != gone
        fewer = lk.Ratings.from_csr(rows[stay], ratings.domain, keys=keys[stay])
        train_2, (histories_2, held_out_2) = scoring_users(fewer)
        left_training = train._open_csr().shape[0] - train_2._open_csr().shape[0]
        left_scoring = histories.shape[0] - histories_2.shape[0]
        assert {left_training, left_scoring} == {0, 1}
        if left_training == 0:
            assert (train._open_csr() != train_2._open_csr()).nnz == 0
        else:
            assert (histories != histories_2).nnz == (held_out != held_out_2).nnz == 0


def test_one_user_moves_the_sum_of_scores_by_at_most_one() -> None:
    """Scores lie in 0..1 whatever the model says, nonsense and not-a-number included."""
    _, (histories, held_out) = scoring_users(small_crowd())

    class Model:
        model_ = lk.DPBias(1.0, 1e-5).fit(small_crowd()).model_

        def __init__(self, value: float) -> None:
            self.value = value

        def predict(self, rows):
            return np.full(rows.shape, self.value)

    for value in (3.0, 1e9, -1e9, np.nan, np.inf):
        scores = user_scores(Model(value), histories, held_out)
        assert scores.shape == (histories.shape[0],)
        assert scores.min() >= 0.0
        assert scores.max() <= 1.0
    assert user_scores(Model(3.0), histories, held_out).max() > 0.5


def test_the_number_of_candidates_is_drawn_from_the_noise_by_that_law() -> None:
    """Against the law itself, cell by cell: 20,000 draws, chi-square with a false-alarm rate of 1e-6."""
    p = logarithmic_parameter(5.0)
    noise = SeededNoise(5)
    draws = np.array([number_of_candidates(5.0, noise) for _ in range(20_000)])
    ks = np.arange(1, 12)
    chances = -(p**ks) / (ks * math.log1p(-p))
    expected = 20_000 * np.append(chances, 1.0 - chances.sum())
    found = np.append([(draws == k).sum() for k in ks], (draws > ks[-1]).sum())
    assert stats.chi2.sf(((found - expected) ** 2 / expected).sum(), len(ks)) > 1e-6


def test_the_selected_fit_books_the_selection(tmp_path: Path) -> None:
    """Guarantee, ledger and release state the price of the whole search, not that of the fit that won it."""
    split = hold_out_users(small_crowd(), 40, seed=0)
    budget = {"epsilon": 4.0, "delta": 1e-5, "adjacency": "add-remove"}
    model, facts = select_privately(estimator("bias"), "bias", budget, split, mean=2.0)
    assert model.guarantee_.epsilon == facts["booked_epsilon"] <= 4.0
    assert facts["booked_epsilon"] > 1.2 * facts["candidate_epsilon"]
    assert facts["booked_epsilon"] >= selection_epsilon(candidate_mu(4.0, 0.999e-5, 2.0), 1e-5, 2.0)
    released = lk.load(model.release(tmp_path / "release"))
    assert released.guarantee.epsilon == facts["booked_epsilon"]
    assert all(check.ok for check in lk.verify(tmp_path / "release"))
    report = json.loads((tmp_path / "release" / "privacy_report.json").read_text())
    assert report["epsilon"] == pytest.approx(facts["booked_epsilon"], rel=1e-12)
    with pytest.raises(InputError, match="add-remove"):
        select_privately(estimator("bias"), "bias", {**budget, "adjacency": "replace-one"}, split)


def test_a_selection_composes_with_other_fits_on_its_ledger() -> None:
    """(epsilon, delta) of the selection and a Gaussian fit: at the sum of the deltas at most the sum of the epsilons."""
    line = Line("selected_fit", RepeatAndSelect(0.5, 5.0, 1e-6), 1)
    fit = Line("sums", Gaussian(2.0), 10)
    together = price([line, fit], 2e-6).epsilon
    assert line.mechanism.epsilon < together <= line.mechanism.epsilon + gaussian_epsilon(0.5, 0.999e-6) + 1e-9
