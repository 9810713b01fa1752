"""The one-bit estimators: contract, guarantee, and what a release holds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import lowkey as lk
from lowkey import errors as lk_errors
from lowkey.data.domain import Domain
from lowkey.data.positions import Positions
from lowkey.data.ratings import Ratings
from lowkey.engines.local import LocalEngine, no_sums
from lowkey.errors import InputError
from lowkey.kernels.one_bit import Signs
from lowkey.linalg.links import FlippedSignLoss, link_of
from lowkey.methods.one_bit.method import DPOneBit, OneBit
from lowkey.privacy.accounting import gaussian_epsilon, second_opinion
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.guarantee import Unit
from lowkey.serving.randomize import randomize_signs

USERS, ITEMS = 40, 30
PERTURBATIONS = ["input", "objective", "gradient", "output"]


def checkerboard(seed: int = 0, density: float = 0.7) -> scipy.sparse.csr_array:
    """Even users like even items and odd users odd ones, and dislike the rest."""
    rng = np.random.default_rng(seed)
    row, col = np.nonzero(rng.random((USERS, ITEMS)) < density)
    return scipy.sparse.csr_array((np.where((row + col) % 2 == 0, 5.0, 1.0), (row, col)), shape=(USERS, ITEMS))


DOMAIN = Domain(items=[f"film {i}" for i in range(ITEMS)], rating_range=(1.0, 5.0))


def board() -> Ratings:
    return Ratings.from_csr(checkerboard(), DOMAIN)


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_the_checkerboard_is_learnt(link: str) -> None:
    model = OneBit(link=link).fit(board())
    ids, scores = model.recommend({f"film {i}": 5.0 if i % 2 else 1.0 for i in range(8)}, n=5)
    assert all(int(name.split()[1]) % 2 == 1 for name in ids)
    assert np.all(np.diff(scores) <= 0.0)
    probabilities = model.predict(checkerboard())
    assert probabilities.shape == (USERS, ITEMS)
    assert np.all((probabilities > 0.0) & (probabilities < 1.0))
    even = (np.add.outer(np.arange(USERS), np.arange(ITEMS)) % 2) == 0
    assert np.mean((probabilities > 0.5) == even) == 1.0


@pytest.mark.parametrize("perturbation", PERTURBATIONS[:3])
def test_with_a_large_epsilon_the_noise_is_small(perturbation: str) -> None:
    model = DPOneBit(200.0, perturbation=perturbation).fit(board())
    even = (np.add.outer(np.arange(USERS), np.arange(ITEMS)) % 2) == 0
    assert np.mean((model.predict(checkerboard()) > 0.5) == even) > 0.95


@pytest.mark.parametrize("perturbation", PERTURBATIONS)
@pytest.mark.parametrize("link", ["logistic", "probit"])
@pytest.mark.parametrize("unit", ["rating", "user"])
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_booked_is_what_was_asked_and_what_was_posted(perturbation: str, link: str, unit: str, delta: float | None) -> None:
    estimator = DPOneBit(2.0, delta, perturbation=perturbation, link=link, unit=unit, max_ratings=5, n_iter=3)
    guarantee = estimator.fit(board()).guarantee_
    assert 2.0 * (1.0 - 1e-6) <= guarantee.epsilon <= 2.0
    assert (guarantee.unit, guarantee.delta) == (Unit(unit, "values", "replace-one"), delta or 0.0)
    assert any("who rated what" in fact for fact in guarantee.public)
    # a second accountant, on what the ledger says was posted
    spent = estimator.ledger_.spent()
    mu = math.sqrt(sum(line.mechanism.mu**2 for line in spent))
    pure = [line.mechanism.epsilon for line in spent if not line.mechanism.mu]
    assert second_opinion(mu, pure, guarantee.delta) <= 2.0 * (1.0 + 1e-5)


def test_the_cost_for_a_whole_user_is_printed_beside_epsilon() -> None:
    heaviest = int(np.diff(checkerboard().indptr).max())
    pure = DPOneBit(1.0).fit(board()).guarantee_
    assert f"{heaviest:.4g} for the heaviest user's {heaviest} ratings" in str(pure)
    gaussian = DPOneBit(1.0, 1e-6, perturbation="objective").fit(board()).guarantee_
    whole = gaussian_epsilon(gaussian.mu * math.sqrt(heaviest), 1e-6)
    assert f"{whole:.4g} for the heaviest user's {heaviest} ratings" in str(gaussian)


def test_users_with_the_same_items_are_told_apart() -> None:
    """Such users share a key if they have no ids; each still has slots, and signs, of their own."""
    rows = scipy.sparse.csr_array(
        np.array([[5.0, 1, 0, 5], [1, 5, 0, 1], [0, 0, 5, 0], [0, 0, 0, 0], [5, 5, 0, 5], [0, 0, 0, 0]])
    )
    rows.eliminate_zeros()
    ratings = Ratings.from_csr(rows, Domain(items=4, rating_range=(1.0, 5.0)))
    positions = Positions.of(ratings)
    assert not positions.keys_differ
    sweep = Signs(positions=positions, threshold=3.0)
    for engine in (LocalEngine(1), LocalEngine(1, block_size=2)):  # the sweep says that it needs everyone
        sums, _ = engine.sweep(sweep, ratings)
        assert sums["signs"]._open().tolist() == np.sign(rows.data - 3.0).tolist()
    with pytest.raises(TypeError, match="all in this block"):
        sweep.run(next(ratings._open_blocks(2)), None, no_sums(sweep.statistics))
    whole = OneBit().complete(ratings)
    np.testing.assert_array_equal(OneBit().complete(ratings, engine=LocalEngine(1, block_size=2)), whole)


def test_the_model_holds_no_users_row() -> None:
    estimator = DPOneBit(5.0)
    scores = estimator.complete(board())
    assert scores.shape == (USERS, ITEMS)
    assert set(estimator.model_.arrays) == {"item_factors"}
    assert estimator.item_factors_.shape[0] == ITEMS
    kept = [value for name, value in vars(estimator).items() if name.endswith("_")]
    assert not any(isinstance(value, np.ndarray) and USERS in value.shape for value in kept)


def test_item_factors_are_those_of_the_completed_matrix() -> None:
    estimator = OneBit()
    scores = estimator.complete(board())
    second_moments = estimator.item_factors_ @ estimator.item_factors_.T
    np.testing.assert_allclose(second_moments, scores.T @ scores / USERS, atol=1e-6)


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_folding_in_maximises_the_users_own_likelihood(link: str) -> None:
    estimator = OneBit(link=link, reg=0.7).fit(board())
    histories = checkerboard(seed=9, density=0.2)
    users, factors = estimator.transform(histories), estimator.item_factors_
    for user in range(5):
        part = slice(histories.indptr[user], histories.indptr[user + 1])
        signs, seen = np.where(histories.data[part] > 3.0, 1.0, -1.0), factors[histories.indices[part]]
        gradient = seen.T @ FlippedSignLoss(link_of(link), signs).gradient(seen @ users[user]) + 0.7 * users[user]
        assert np.abs(gradient).max() < 1e-6
        np.testing.assert_array_equal(estimator.transform(histories[[user]])[0], users[user])


def test_capped_positions_do_not_depend_on_the_values() -> None:
    rows = checkerboard()
    other = rows.copy()
    other.data = 6.0 - other.data
    first, second = (Positions.of(Ratings.from_csr(r, DOMAIN)).capped(4) for r in (rows, other))
    np.testing.assert_array_equal(first.cells, second.cells)
    assert first.counts.max() == 4
    assert np.array_equal(first.counts, np.minimum(4, np.diff(rows.indptr)))


def test_parameters_are_kept_and_cloned() -> None:
    estimator = DPOneBit(1.0, 1e-6, perturbation="gradient", n_iter=4)
    assert clone(estimator).get_params() == estimator.get_params()
    assert clone(OneBit(rank=2.0)).get_params()["rank"] == 2.0


def test_fits_compose_on_one_billboard() -> None:
    billboard = Billboard()
    DPOneBit(1.0).fit(board(), billboard=billboard)
    DPOneBit(0.5, perturbation="objective").fit(board(), billboard=billboard)
    assert billboard.guarantee.epsilon == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": None},
        {"adjacency": "add-remove"},
        {"perturbation": "noise"},
        {"link": "cauchy"},
        {"unit": "user"},
        {"unit": "household"},
        {"entry_bound": 0.0},
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        DPOneBit(**{"epsilon": 1.0, **wrong}).fit(board())


def test_binary_feedback_is_refused() -> None:
    ones = checkerboard()
    with pytest.raises(InputError, match="dislikes"):
        DPOneBit(1.0).fit(ones, domain=Domain(items=ITEMS, feedback="binary"))


def test_signs_randomised_on_the_device_are_flipped_at_the_stated_rate() -> None:
    """False alarm: 1e-6 (two-sided binomial bound by Hoeffding)."""
    epsilon, n = 1.2, 200_000
    signs = np.where(np.arange(n) % 3 == 0, 1, -1)
    flipped = randomize_signs(signs, epsilon)
    slack = math.sqrt(math.log(2.0 / 1e-6) / (2.0 * n))
    for sign in (1, -1):
        rate = np.mean(flipped[signs == sign] != sign)
        assert abs(rate - 1.0 / (1.0 + math.exp(epsilon))) <= slack * math.sqrt(n / np.sum(signs == sign))
    with pytest.raises(InputError):
        randomize_signs([1, 0, -1], 1.0)
    with pytest.raises(InputError):
        randomize_signs([1, -1], 0.0)


def test_training_on_randomised_signs_is_input_perturbation() -> None:
    """On-device signs, then OneBit with their flip probability: the same loss as DPOneBit on a curator's signs."""
    rows = checkerboard()
    rows.data = np.where(randomize_signs(np.where(rows.data > 3.0, 1, -1), 2.0) > 0, 5.0, 1.0)
    model = OneBit(flip_probability=1.0 / (1.0 + math.exp(2.0))).fit(rows, domain=DOMAIN)
    even = (np.add.outer(np.arange(USERS), np.arange(ITEMS)) % 2) == 0
    assert np.mean((model.predict(checkerboard()) > 0.5) == even) > 0.9


def test_a_release_folder_serves_the_same_probabilities(tmp_path: Path) -> None:
    estimator = lk.DPOneBit(3.0).fit(board())
    loaded = lk.load(estimator.release(tmp_path / "release"))
    history = {"film 3": 5.0, "film 4": 1.0}
    # the folder holds 32-bit factors
    np.testing.assert_allclose(loaded.predict(history), estimator.predict(history), atol=1e-5)
    assert loaded.guarantee.unit == Unit("rating", "values", "replace-one")
    assert "who rated what" in str(loaded.guarantee)


def test_what_has_no_noise_is_not_released(tmp_path: Path) -> None:
    clear = lk.OneBit().fit(board())
    with pytest.raises(lk_errors.LowkeyError):
        clear.release(tmp_path / "clear")
