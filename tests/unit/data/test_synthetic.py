"""Made-up data: what is planted is there, and the skews are those of MovieLens."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lowkey.data import Domain, read_ratings
from lowkey.data.synthetic import taste, write_taste
from lowkey.data.synthetic_crowd import activity_median
from lowkey.errors import InputError
from lowkey_lab.synthetic import lookalike_ml10m, planted_low_rank


def top_fifth_share(csr):
    counts = np.sort(np.bincount(csr.indices, minlength=csr.shape[1]))[::-1]
    return counts[: csr.shape[1] // 5].sum() / csr.nnz


def test_planted_entries_are_those_of_the_factors():
    data = planted_low_rank(1500, 60, rank=3, density=0.2, seed=4)
    users, items = data.truth["user_factors"], data.truth["item_factors"]
    exact = users @ items.T + data.truth["middle"]
    seen = data.csr.toarray() != 0
    assert np.allclose(data.csr.toarray()[seen], exact[seen])
    assert np.linalg.matrix_rank(exact) == 3
    assert seen.mean() == pytest.approx(0.2, abs=0.01)
    assert data.ratings().domain == Domain(60, (-1, 1), expected_users=1500)


def test_planted_noise_and_range():
    noisy = planted_low_rank(400, 300, rank=2, density=0.5, noise=0.1, seed=1, rating_range=(1, 5))
    exact = noisy.truth["user_factors"] @ noisy.truth["item_factors"].T + noisy.truth["middle"]
    rows, columns = noisy.csr.nonzero()
    off = noisy.csr.data - exact[rows, columns]
    inside = (noisy.csr.data > 1) & (noisy.csr.data < 5)
    assert off[inside & (abs(exact[rows, columns] - 3) < 1)].std() == pytest.approx(0.2, rel=0.05)  # half the range is 2
    assert (noisy.csr.data.min(), noisy.csr.data.max()) == (1, 5)


def test_too_small_crowds():
    with pytest.raises(InputError):
        taste(0, 100)
    with pytest.raises(InputError):
        taste(10, 20, ratings_per_user=19)


@pytest.fixture(scope="module")
def crowd():
    return taste(6000, 2000, ratings_per_user=60, seed=5)


def test_taste_is_skewed_as_movielens(crowd):
    counts = np.diff(crowd.csr.indptr)
    assert top_fifth_share(crowd.csr) == pytest.approx(0.84, abs=0.04)
    assert counts.mean() == pytest.approx(60, rel=0.06)
    assert counts.mean() / np.median(counts) == pytest.approx(2.1, abs=0.15)
    assert crowd.csr.data.mean() == pytest.approx(3.5, abs=0.2)
    assert crowd.csr.data.std() == pytest.approx(1.0, abs=0.1)


def test_taste_gives_half_stars_and_no_film_twice(crowd):
    assert set(np.unique(crowd.csr.data)) == set(np.arange(0.5, 5.5, 0.5))
    ratings = crowd.ratings()  # the default for duplicates is an error
    assert ratings._open_csr().nnz == crowd.csr.nnz
    assert crowd.domain().rating_range == (0.5, 5.0)


def test_taste_is_readable_and_its_names_are_distinct(crowd):
    names = crowd.facts["items"]
    assert len(set(names)) == 2000
    assert all(name.startswith(genre + " ") for name, genre in zip(names, crowd.truth["genres"], strict=True))
    assert all(": The " in name for name in names)


def test_taste_follows_its_factors(crowd):
    truth = crowd.truth
    rows = np.repeat(np.arange(6000), np.diff(crowd.csr.indptr))
    columns = crowd.csr.indices
    bias = truth["mean"] + truth["user_bias"][rows] + truth["item_bias"][columns]
    liking = np.einsum("nk,nk->n", truth["user_factors"][rows], truth["item_factors"][columns])
    without, with_taste = np.std(crowd.csr.data - bias), np.std(crowd.csr.data - bias - liking)
    assert with_taste < 0.9 * without
    # people pick what they like
    genre = truth["item_factors"].argmax(axis=1)
    assert truth["user_factors"][rows, genre[columns]].mean() > 0.3


def test_taste_is_a_function_of_its_seed_and_each_user_has_a_stream():
    first, again, other = (taste(300, 100, 10, seed=s) for s in (1, 1, 2))
    assert np.array_equal(first.csr.toarray(), again.csr.toarray())
    assert not np.array_equal(first.csr.toarray(), other.csr.toarray())
    fewer = taste(200, 100, 10, seed=1)  # the same people, without the last hundred
    assert np.array_equal(fewer.csr.toarray(), first.csr.toarray()[:200])


def test_heavy_users_of_small_catalogues_end_and_have_the_right_law():
    data = taste(400, 12, ratings_per_user=7, seed=0)
    counts = np.diff(data.csr.indptr)
    assert counts.max() == 12
    assert counts.mean() == pytest.approx(7, abs=0.6)


def test_binary_taste():
    data = taste(100, 50, 10, seed=1, feedback="binary")
    assert data.csr.nnz == taste(100, 50, 10, seed=1).csr.nnz
    assert set(data.csr.data) == {1.0}
    assert data.ratings().domain.feedback == "binary"


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("users_per_group", [37, 1000])
def test_written_taste_is_the_same_crowd(tmp_path, numbers, users_per_group):
    path = tmp_path / "taste.parquet"
    facts = write_taste(path, 150, 80, 12, seed=3, numbers=numbers, users_per_group=users_per_group)
    ratings = read_ratings(path, Domain(**facts), user="user", item="item", rating="rating")
    assert np.array_equal(ratings._open_csr().toarray(), taste(150, 80, 12, seed=3).csr.toarray())
    first = pl.read_parquet(path)["user"][0]
    assert first == (0 if numbers else "u000")


def test_written_binary_taste(tmp_path):
    facts = write_taste(tmp_path / "t.parquet", 50, 40, 6, feedback="binary")
    assert pl.read_parquet(tmp_path / "t.parquet").columns == ["user", "item"]
    read_ratings(tmp_path / "t.parquet", Domain(**facts), user="user", item="item")


@pytest.mark.parametrize(("mean", "n_items"), [(144, 27_000), (20, 200), (1.5, 1000)])
def test_activity_has_the_mean_asked_for(mean, n_items):
    normals = np.random.default_rng(0).standard_normal(200_000)
    counts = np.clip(np.rint(activity_median(mean, n_items) * np.exp(np.sqrt(2 * np.log(2.1)) * normals)), 1, n_items)
    assert counts.mean() == pytest.approx(mean, rel=0.03)


def test_lookalike_of_movielens_10m():
    data = lookalike_ml10m(0)
    csr = data.csr
    assert csr.shape == (70_000, 8_000)
    assert csr.nnz == pytest.approx(7.2e6, rel=0.02)
    assert top_fifth_share(csr) == pytest.approx(0.84, abs=0.01)
    assert np.array_equal(np.unique(csr.data), np.arange(0.5, 5.5, 0.5))
    rows = np.repeat(np.arange(70_000), np.diff(csr.indptr))
    held = np.random.default_rng(1).random(csr.nnz) < 0.1
    assert rmse_of_biases(rows, csr.indices, csr.data.astype(float), held) == pytest.approx(0.83, abs=0.005)
    truth, rows, columns = data.truth, rows[held], csr.indices[held]
    exact = truth["mean"] + truth["user_bias"][rows] + truth["item_bias"][columns]
    exact += np.einsum("nk,nk->n", truth["user_factors"][rows], truth["item_factors"][columns])
    assert np.sqrt(np.mean((np.clip(exact, 0.5, 5) - csr.data[held]) ** 2)) == pytest.approx(0.72, abs=0.005)


def rmse_of_biases(rows, columns, values, held):
    """Mean, user and item biases with a light ridge, by alternating averages; the error on what was held out."""
    users, items, seen = rows[~held], columns[~held], values[~held]
    mean = seen.mean()
    user, item = np.zeros(rows.max() + 1), np.zeros(columns.max() + 1)
    for _ in range(3):
        item = np.bincount(items, seen - mean - user[users], len(item)) / (np.bincount(items, minlength=len(item)) + 4)
        user = np.bincount(users, seen - mean - item[items], len(user)) / (np.bincount(users, minlength=len(user)) + 4)
    guess = np.clip(mean + user[rows[held]] + item[columns[held]], 0.5, 5)
    return np.sqrt(np.mean((guess - values[held]) ** 2))
