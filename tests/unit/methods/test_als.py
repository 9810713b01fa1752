"""DPALS and ALS as estimators: what they plan, learn, refuse, and do at the edges of the input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from resolved import with_settings
from sklearn.base import clone

import lowkey as lk
from lowkey.data.ratings import HeldRows
from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.evaluation.protocol import evaluate
from lowkey.evaluation.splits import hold_out_users
from lowkey.privacy.accounting import gaussian_epsilon
from lowkey.privacy.noise import SeededNoise
from lowkey_lab.synthetic import planted_low_rank

STARS = lk.Domain(30, (1.0, 5.0), expected_users=400)
LIKES = lk.Domain(30, None, "binary", 400)


def two_tastes(domain: lk.Domain, n_users: int = 400, seed: int = 0) -> lk.Ratings:
    """Even users like even items and odd users odd ones, as a child can check."""
    rng = np.random.default_rng(seed)
    liked = (np.arange(n_users)[:, None] + np.arange(domain.n_items)) % 2 == 0
    seen = rng.random(liked.shape) < (0.6 if domain.feedback == "ratings" else 0.6 * liked)
    values = np.where(liked, 4.5, 1.5) + rng.uniform(-0.5, 0.5, liked.shape)
    users, items = np.nonzero(seen)
    offsets = np.concatenate([[0], np.cumsum(seen.sum(1))]).astype(np.int64)
    ratings = values[users, items].astype(np.float32) if domain.feedback == "ratings" else None
    return lk.Ratings(domain, HeldRows(offsets, items.astype(np.int32), ratings, np.arange(n_users, dtype=np.uint64)))


@pytest.mark.parametrize("make", [lambda: lk.ALS(rank=3), lambda: lk.DPALS(epsilon=20.0, delta=1e-5, rank=3)])
def test_two_tastes_are_told_apart(make):
    model = make().fit(two_tastes(STARS))
    ids = model.predict({0: 5.0, 2: 5.0, 1: 1.0}, [4, 5, 8, 9])
    assert min(ids[0], ids[2]) > max(ids[1], ids[3])
    likes = make().fit(two_tastes(LIKES, 16_000))  # false alarm: none in 20 noise draws; 12 % with 4,000 users
    found, _ = likes.recommend([0, 2, 4], n=5)
    assert all(item % 2 == 0 for item in found)


def test_without_noise_planted_factors_are_found():
    """Rank 3, 2000 x 80 at a quarter of the entries; one more for the item biases that are taken off first."""
    data = planted_low_rank(2000, 80, 3, density=0.25, seed=1)
    csr = data.csr
    csr.data /= csr.data.std()
    split = hold_out_users(lk.Ratings.from_csr(csr, lk.Domain(80, (-2.5, 2.5))), 200, 0.8, 0)
    model = lk.ALS(rank=4, n_iter=20, reg=1e-4, user_reg=1e-3, offset_reg=1e9).fit(split.train)
    assert evaluate(model, split.histories, split.held_out)["rmse"] < 0.03  # the entries have standard deviation 1


def test_the_plan_is_printed_before_any_data_and_costs_what_was_asked():
    plan = lk.DPALS(epsilon=1.0, delta=1e-6, rank=4, n_iter=3).plan(LIKES)
    text = plan.table()
    for name in ("item_counts", "item_gram_0", "item_rhs_2", "user_gram_1"):
        assert name in text
    assert 0.999 < plan.price.epsilon <= 1.0
    shares = {line.name: line.times * line.mechanism.mu**2 for line in plan.lines}
    assert gaussian_epsilon(math.sqrt(sum(shares.values())), 1e-6) <= 1.0
    # Default growth for binary feedback: every round gets twice as much as the one before.
    assert shares["item_rhs_2"] / shares["item_rhs_1"] == pytest.approx(2.0)
    assert {line.name: line.size for line in plan.lines}["item_gram_1"] == 30 * 10


def test_replace_one_gets_more_noise_in_the_right_ratios():
    ours, theirs = (lk.DPALS(epsilon=1.0, delta=1e-6, rank=2, adjacency=a) for a in ("add-remove", "replace-one"))
    stds = []
    for model in (ours, theirs):
        model.fit(two_tastes(STARS))
        records = [r for r in model.ledger_.records if r["kind"] == "reserve"]
        found = {}
        for r in records:
            text = str(r)
            for name in ("item_gram_0", "item_rhs_0"):
                if f"'{name}'" in text:
                    found[name] = _find(r, "noise_std")
        stds.append(found)
    assert stds[1]["item_gram_0"] / stds[0]["item_gram_0"] == pytest.approx(math.sqrt(2.0))
    assert stds[1]["item_rhs_0"] / stds[0]["item_rhs_0"] == pytest.approx(2.0)


def _find(fields, name):
    if isinstance(fields, dict):
        if name in fields:
            return fields[name]
        return next((v for v in (_find(f, name) for f in fields.values()) if v is not None), None)
    return None


def test_fits_with_the_same_seeded_noise_agree_and_init_seed_is_public():
    def fit(seed: int) -> np.ndarray:
        model = lk.DPALS(epsilon=1.0, delta=1e-6, rank=3, init_seed=seed)
        return model.fit(two_tastes(STARS), billboard=lk.Billboard(noise=SeededNoise(4))).item_factors_

    assert np.array_equal(fit(1), fit(1))
    assert not np.array_equal(fit(1), fit(2))


@pytest.mark.parametrize(
    "settings",
    [
        {"rank": 31},
        {"rank": 0},
        {"n_iter": 0},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": None},
        {"reg": 0.0},
        {"user_reg": math.nan},
        {"residual_bound": math.inf},
        {"max_ratings": 0},
        {"head": 0.0},
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_any_data(settings):
    model = lk.DPALS(**{"epsilon": 1.0, "delta": 1e-6, **settings})
    with pytest.raises(InputError) as error:
        model.plan(STARS)
    assert next(iter(settings)) in str(error.value)


def test_starts_that_there_are_not_are_refused_and_the_others_fit_their_plan():
    for start, bias_share in (("spectral", 0.0), ("spectral", None), ("random", 0.0)):
        kind = lk.DPALS if bias_share is None else with_settings(lk.DPALS, bias_share=bias_share)
        model = kind(5.0, 1e-5, rank=2, n_iter=1, start=start, head=0.5)
        assert model.fit(two_tastes(LIKES)).guarantee_.epsilon <= 5.0
    for domain in (STARS, LIKES):
        with pytest.raises(InputError, match="start"):
            lk.DPALS(5.0, 1e-5, start="moments").plan(domain)


def test_default_rank_never_exceeds_the_catalogue():
    assert lk.DPALS(epsilon=1.0, delta=1e-6).plan(lk.Domain(5, None, "binary")).settings["rank"] == 5


@pytest.mark.parametrize("domain", [STARS, LIKES], ids=["ratings", "binary"])
@pytest.mark.parametrize("max_ratings", [None, 2])
def test_users_without_ratings_and_items_that_nobody_rated(domain, max_ratings):
    """A crowd in which every fourth user is empty and the last ten items are unrated, and one of nobody at all."""
    whole = two_tastes(domain)._open_csr().tolil()
    whole[::4] = 0
    whole[:, 20:] = 0
    for rows in (whole.tocsr(), whole.tocsr()[:0]):
        model = lk.DPALS(epsilon=1.0, delta=1e-6, rank=3, max_ratings=max_ratings).fit(lk.Ratings.from_csr(rows, domain))
        assert np.isfinite(model.item_factors_).all()
        scores = model.predict({})
        assert np.isfinite(scores).all()
    exact = lk.ALS(rank=3).fit(lk.Ratings.from_csr(whole.tocsr(), domain))
    assert np.abs(exact.item_factors_[20:]).max() == 0.0


def test_parameters_survive_a_clone():
    model = lk.DPALS(epsilon=1.0, delta=1e-6, rank=7, max_ratings=9, user_reg=0.3)
    assert clone(model).get_params() == model.get_params()
    assert "max_ratings" not in lk.ALS().get_params()


def test_progress_is_told_release_by_release_with_the_time_left():
    told = []
    billboard = lk.Billboard(noise=SeededNoise(1))
    billboard.on_post = told.append
    steps = []
    model = lk.DPALS(epsilon=5.0, delta=1e-5, rank=2, n_iter=2)
    model.fit(two_tastes(STARS), billboard=billboard, progress=steps.append)
    planned = [line.name for line in model.plan(STARS).lines]
    assert sorted(step.name for step in steps) == sorted(planned)
    assert [step.done for step in steps] == list(range(1, len(planned) + 1))
    assert {step.planned for step in steps} == {len(planned)}
    assert told == [step.name for step in steps]  # who listened before still hears
    first, last = steps[0], steps[-1]
    assert first.seconds_left == pytest.approx(first.seconds * (len(planned) - 1))
    assert last.seconds_left == 0.0
    assert f"{len(planned)} of {len(planned)} releases, about 0 s left" in str(last)
    model.fit(two_tastes(STARS), progress=True)  # no terminal here: nothing is shown, and nothing fails


def test_ridges_follow_the_noise_of_the_ratings():
    """ALS posts exactly, so nothing here is left to chance but the data, whose seed is fixed."""
    data = planted_low_rank(1500, 60, 2, density=0.4, seed=3)
    rng = np.random.default_rng(3)
    clean = data.csr
    clean.data /= clean.data.std()
    noisy = clean.copy()
    noisy.data = np.clip(noisy.data + rng.normal(size=noisy.data.shape), -5.0, 5.0).astype(np.float32)
    domain = lk.Domain(60, (-5.0, 5.0))
    regs = [lk.ALS(rank=2).fit(rows, domain=domain).model_.settings["reg"] for rows in (clean, noisy)]
    assert regs[0] < 0.1 * regs[1]
    given = lk.ALS(rank=2, user_reg=3.0)
    assert not any(line.name.startswith("misfit") for line in given.plan(domain).lines)
    assert given.fit(noisy, domain=domain).model_.settings["reg"] == pytest.approx(5.0)  # in the ratio of the defaults


@pytest.mark.parametrize("per_user", [4, 40])
def test_the_ceiling_is_not_behind_the_mean_and_offsets(per_user):
    """Few ratings of many items: factors that do not help are left out. Baselines draw nothing but the public start."""
    split = hold_out_users(taste(600, 800, per_user, seed=11).ratings(), 150, 0.8, 0)
    errors = [
        evaluate(model.fit(split.train), split.histories, split.held_out)["rmse"]
        for model in (lk.ALS(), lk.Bias(), lk.ALS())
    ]
    assert errors[0] < errors[1] + 0.01
    assert errors[0] == errors[2]


def test_ridges_that_are_given_are_taken_as_they_are():
    given = lk.ALS(rank=2, reg=0.5, user_reg=3.0, offset_reg=2.0)
    assert not any(line.name == "left_out_rows" for line in given.plan(STARS).lines)
    model = given.fit(two_tastes(STARS))
    assert model.model_.settings["reg"] == pytest.approx(5.0)  # in the ratio of the defaults
    assert model.model_.settings["offset_reg"] == 2.0
    tried = lk.ALS(rank=2, reg=0.5).plan(STARS).lines
    assert {line.times for line in tried if line.name == "left_out_rows"} == {2}  # one ridge of items, and no factors
