"""What users lean to is known of the items before any factor: it helps where they differ, and fades with its posts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse

import lowkey as lk
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import Split, hold_out_users
from lowkey.linalg.packed import pack
from lowkey.methods.counts import Counts
from lowkey.methods.factors.side import Side, _slopes
from lowkey.methods.knowledge import NOTHING
from lowkey.methods.leanings import FEATURED, LIKED, OFTEN, leanings
from lowkey.methods.means import Crowd, Means

N_ITEMS = 400


def means(effects: np.ndarray, counts: np.ndarray) -> Means:
    known = Counts(counts, counts**2, counts)
    crowd = Crowd(3.0, 0.8, 0.2, 1000.0, 0.0)
    return Means(crowd, (), effects, np.ones_like(effects), known, counts, 0.0, 0.64)


def test_a_lean_is_the_effect_and_the_log_count_around_their_means_and_features_where_they_are_trusted() -> None:
    effects, counts = np.array([0.9, -0.3, 0.0]), np.array([1.0, 10.0, 4.0])
    features = np.array([[1.0, 0.2], [-1.0, 0.1], [0.5, 0.0]])
    told = replace(NOTHING, features=features)
    found = leanings(means(effects, counts), told, 0.5)
    middle, logs = effects @ counts / 15.0, np.log(counts) - np.log(counts) @ counts / 15.0
    np.testing.assert_allclose(found[:, 0], 0.5 * LIKED * (effects - middle))
    np.testing.assert_allclose(found[:, 1], 0.5 * OFTEN * 0.8 * logs / np.sqrt(logs**2 @ counts / 15.0), rtol=1e-5)
    assert found.shape == (3, 2)  # nothing has borne the features out
    trusted = leanings(replace(means(effects, counts), features_trusted=True), told)
    np.testing.assert_allclose(trusted[:, 2:], FEATURED * 0.8 * features)


def test_counts_that_are_hardly_known_make_nobody_lean_to_what_is_taken_often() -> None:
    """Log counts of standard deviation 1, of which the posts show a tenth: so far, and no further, users may lean."""
    logs = np.resize([0.1, -0.1], 400)
    unsure = Counts(np.ones(400), np.full(400, np.exp(0.99)), np.exp(logs))
    found = leanings(replace(means(np.zeros(400), np.ones(400)), counts=unsure), NOTHING)[:, 1]
    assert np.sqrt(np.mean(found**2)) == pytest.approx(0.1 * OFTEN * 0.8, rel=1e-5)


def test_where_posts_say_nothing_nobody_leans_to_anything() -> None:
    assert np.abs(leanings(means(np.zeros(5), np.full(5, 7.0)), NOTHING)).max() < 1e-12


def leaning_crowd(degree: float, seed: int) -> Split:
    """3,000 users with 40 of 400 items, popular things better; ``degree``: how much users differ in what quality means."""
    rng = np.random.default_rng(seed)
    effects = np.linspace(0.8, -0.8, N_ITEMS) + 0.5 * rng.normal(size=N_ITEMS)
    weights = 1.0 / np.arange(5.0, N_ITEMS + 5.0)
    items = np.argsort(np.log(rng.random((3000, N_ITEMS))) / weights, axis=1)[:, -40:]
    slopes = 1.0 + degree * rng.normal(size=(3000, 1))
    values = np.clip(3.0 + slopes * effects[items] + 0.6 * rng.normal(size=items.shape), 1.0, 5.0)
    order = np.argsort(items, axis=1)
    cells = [np.take_along_axis(part, order, 1).reshape(-1) for part in (values.astype(np.float32), items)]
    rows = scipy.sparse.csr_array((*cells, np.arange(0, items.size + 1, 40)), shape=(3000, N_ITEMS))
    domain = lk.Domain(N_ITEMS, (1.0, 5.0), expected_users=2400)
    return hold_out_users(lk.Ratings.from_csr(rows, domain), 0.2, 0.8, seed)


@pytest.mark.parametrize(("degree", "least", "most"), [(0.7, 0.05, 1.0), (0.0, -0.01, 0.02)])
def test_users_who_differ_are_told_apart_and_others_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, degree: float, least: float, most: float
) -> None:
    """What leans give beside effects and offsets alone. Of 20,000 tested ratings a difference has an error below 0.002."""
    split = leaning_crowd(degree, 3)

    def rmse() -> float:
        model = lk.DPBias(epsilon=5.0, delta=1e-5).fit(split.train)
        return float(evaluate(model, split.histories, split.held_out)["rmse"])

    with_leans = rmse()
    monkeypatch.setattr("lowkey.methods.leanings.LIKED", 0.0)
    monkeypatch.setattr("lowkey.methods.leanings.OFTEN", 0.0)
    assert least < rmse() - with_leans < most


def test_the_slopes_of_a_source_are_the_textbook_ones_where_directions_overlap() -> None:
    """Generalised least squares with the whole information matrix of each item; one l for all is chosen among its grid."""
    rng = np.random.default_rng(5)
    features, truth = rng.normal(size=(60, 3)), rng.normal(size=(3, 4))
    roots = rng.normal(size=(60, 4, 1)) + 0.3 * rng.normal(size=(60, 4, 4))
    information = roots @ roots.transpose(0, 2, 1)  # nearly of rank one: directions that each claim the same
    score = np.einsum("nij,nj->ni", information, features @ truth) + 0.1 * rng.normal(size=(60, 4))
    normal, target = np.zeros((12, 12)), np.zeros(12)
    for f, s, g in zip(features, information, score, strict=True):
        normal += np.kron(np.outer(f, f), s)
        target += np.kron(f, g)
    found = _slopes(features, score, information).reshape(-1)
    rest = target - normal @ found  # = found / l at the solution
    scale = float(found @ found / (found @ rest))
    np.testing.assert_allclose(found, np.linalg.solve(normal + np.eye(12) / scale, target), rtol=1e-6)
    np.testing.assert_allclose(found.reshape(3, 4), truth, atol=0.3)


def test_a_source_that_says_nothing_is_left_alone_beside_one_that_does() -> None:
    """The first source's l is not that of the second: 20 columns of chance get slopes of almost nothing."""
    rng = np.random.default_rng(6)
    known, chance = rng.normal(size=(500, 2)), rng.normal(size=(500, 20)) / np.sqrt(20.0)
    factors = known @ np.array([[0.5, 0.0, 0.2], [0.0, -0.4, 0.1]]) + 0.1 * rng.normal(size=(500, 3))
    side = Side(factors, None, factors, np.eye(3), (known, chance))
    precision = np.zeros((500, 4, 4))
    precision[:] = np.diag([1.0, 400.0, 400.0, 400.0])
    target = np.einsum("nij,nj->ni", precision, np.column_stack([np.zeros(500), factors]))

    def evidence(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return pack(precision[rows]), target[rows]

    both = side.centers(np.full(500, 1.0), evidence, 0.02 * np.eye(3))
    alone = replace(side, features=(known,)).centers(np.full(500, 1.0), evidence, 0.02 * np.eye(3))
    assert np.mean(alone**2) > 0.05
    assert np.mean((both - alone) ** 2) < 1e-6
