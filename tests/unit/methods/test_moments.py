"""DPMoments: its pieces on data whose answer is known, and what it promises to cost nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import lowkey as lk
from lowkey.errors import InputError
from lowkey.evaluation import evaluate, hold_out_users
from lowkey.kernels.gram import add_row_grams
from lowkey.linalg.packed import pack, unpack
from lowkey.methods.moments.ease import cleaned_values, passed_through
from lowkey.methods.moments.models import best_rank, clean_cocounts, fit_factors, split_noise
from lowkey.methods.moments.posted import Moments
from lowkey.methods.moments.sketch import factors_from_view, random_basis
from lowkey_lab.synthetic import planted_low_rank


@pytest.fixture(scope="module")
def split():
    """6000 users, 60 items, rank 4, half of the entries seen."""
    return hold_out_users(planted_low_rank(6000, 60, 4, density=0.5, noise=0.2, seed=3).ratings(), 500, seed=1)


def noisy(signal: np.ndarray, std: float, seed: int) -> np.ndarray:
    z = np.random.default_rng(seed).standard_normal(signal.shape)
    return signal + std * (z + z.T) / np.sqrt(2.0)


def test_packed_grams_are_exact_products() -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(-(2**19), 2**19, (40, 9)) * (rng.random((40, 9)) < 0.6)
    rows = scipy.sparse.csr_array(dense)
    triangle = np.zeros(45, np.int64)
    add_row_grams(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data, 9, triangle)
    assert np.array_equal(unpack(triangle, np.int64), dense.T @ dense)
    assert np.array_equal(pack(unpack(triangle, np.int64)), triangle)


def test_a_lone_spike_is_shrunk_as_random_matrix_theory_says() -> None:
    """One eigenvalue s above noise of edge e is seen at y = s + (e/2)^2/s; the cleaned value is back near s - (e/2)^2/s."""
    n, std, spike = 600, 1.0, 80.0
    v = np.random.default_rng(1).standard_normal(n)
    v /= np.linalg.norm(v)
    values = np.linalg.eigvalsh(noisy(spike * np.outer(v, v), std, 2))
    half_edge_squared = std**2 * n
    assert values[-1] == pytest.approx(spike + half_edge_squared / spike, rel=0.02)
    clean = cleaned_values(values, std)
    assert clean[-1] == pytest.approx(spike - half_edge_squared / spike, rel=0.04)
    assert np.abs(clean[:-1]).mean() < 0.3 * np.abs(values[:-1]).mean()


def test_so_much_of_one_row_passes_the_cleaning() -> None:
    """Against cleaning anew with each of 100 rows z z^T added: the mean of z . (change) z. What one z tells spreads by a
    third, so the mean by 3 %; entries on the diagonal, of which the formula knows nothing, are 2/n of it. More passes of
    rows like those that the matrix is made of, by as much as their energies say; what is used is half way."""
    n, std, rng = 200, 0.3, np.random.default_rng(1)
    mix = rng.standard_normal((5, n))

    def people(count: int) -> np.ndarray:
        return of_norm_one(rng.standard_normal((count, 5)) @ mix + rng.standard_normal((count, n)))

    def of_norm_one(z: np.ndarray) -> np.ndarray:
        return z / np.linalg.norm(z, axis=1)[:, None]

    def cleaned(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(matrix)
        clean = np.maximum(cleaned_values(values, std), 0.0)
        return values, clean, vectors

    def passed(z: np.ndarray) -> float:
        found = [with_row(one) for one in z]
        return float(np.mean(found))

    def with_row(one: np.ndarray) -> float:
        _, after, basis = cleaned(gram + np.outer(one, one))
        return float(((one @ basis) ** 2) @ after - ((one @ vectors) ** 2) @ clean)

    rows = people(400)
    gram = noisy(rows.T @ rows, std, 2)
    values, clean, vectors = cleaned(gram)
    anywhere = passed_through(values, clean, np.ones(n))
    half_way = passed_through(values, clean, np.sum((rows @ vectors) ** 2, axis=0))
    assert anywhere == pytest.approx(passed(of_norm_one(rng.standard_normal((100, n)))), rel=0.15)
    assert 2.0 * half_way - anywhere == pytest.approx(passed(people(100)), rel=0.15)
    assert half_way > 1.1 * anywhere


def test_factors_are_found_in_noisy_moments() -> None:
    """S = C (W W^T) + noise: the fit explains W W^T far better than S/C does, and pure noise gives next to nothing."""
    rng = np.random.default_rng(4)
    n, std = 80, 3.0
    truth = rng.standard_normal((n, 3)) * 0.4
    profile = rng.uniform(2.0, 12.0, n)
    cocounts = np.outer(profile, profile)
    moments = noisy(cocounts * (truth @ truth.T), std, 5)
    fit = fit_factors(moments, cocounts, 50.0, std, rank=8)
    error = np.linalg.norm(fit.factors @ fit.factors.T - truth @ truth.T)
    assert error < 0.5 * np.linalg.norm(moments / cocounts - truth @ truth.T)
    nothing = fit_factors(noisy(np.zeros((n, n)), std, 6), cocounts, 50.0, std, rank=8)
    assert np.linalg.norm(nothing.factors) < 0.3 * np.linalg.norm(truth)


def test_cocounts_shrink_to_independence() -> None:
    profile = np.linspace(1.0, 6.0, 50)
    independent = np.outer(profile, profile)
    posted = noisy(independent, 2.0, 7)
    clean = clean_cocounts(posted, 2.0)
    off = ~np.eye(50, dtype=bool)
    assert np.linalg.norm((clean - independent)[off]) < 0.3 * np.linalg.norm((posted - independent)[off])


def test_split_noise_is_independent_and_its_stds_are_right() -> None:
    """Correlation of the two noises over 499,500 entries: four standard errors, false alarms 1 in 15,000."""
    n, std = 1000, 2.0
    (first, first_std), (second, second_std) = split_noise(noisy(np.zeros((n, n)), std, 8), std, seed=9)
    upper = np.triu_indices(n, 1)
    assert abs(np.corrcoef(first[upper], second[upper])[0, 1]) < 4.0 / np.sqrt(len(upper[0]))
    assert first[upper].std() == pytest.approx(first_std, rel=0.01)
    assert second[upper].std() == pytest.approx(second_std, rel=0.01)


def test_a_view_gives_the_matrix_back() -> None:
    rng = np.random.default_rng(10)
    truth = rng.standard_normal((200, 3))
    gram = truth @ truth.T
    basis = np.linalg.qr(gram @ random_basis(200, 8, 0))[0]
    factors, _ = factors_from_view(gram @ basis, basis, 0.0)
    assert np.allclose(factors @ factors.T, gram, atol=1e-6 * np.abs(gram).max())


def test_it_beats_the_bias_model_and_refits_for_free(split, tmp_path) -> None:
    model = lk.DPMoments(epsilon=5.0, delta=1e-5, rank=8).fit(split.train)
    bias = evaluate(lk.DPBias(epsilon=5.0, delta=1e-5).fit(split.train), split.histories, split.held_out)["rmse"]
    head, spent = model.ledger_.head, model.guarantee_.epsilon
    assert evaluate(model, split.histories, split.held_out)["rmse"] < 0.8 * bias
    before = model.item_factors_
    assert model.refit(rank=2).item_factors_.shape == (60, 4)  # and what users lean to
    model.tune((2, 8))
    assert model.item_factors_.shape[1] == 8 + 2  # four planted factors do not fit into two
    assert model.ledger_.head == head
    assert model.guarantee_.epsilon == spent
    assert np.allclose(model.item_factors_ @ model.item_factors_.T, before @ before.T, atol=1e-9)
    again = Moments.load(model.moments_.save(tmp_path / "moments.safetensors"))
    assert best_rank(again, (2, 8)) == best_rank(model.moments_, (2, 8))


def test_the_sketch_finds_factors_too(split) -> None:
    sketch = lk.DPSketch(epsilon=5.0, delta=1e-5, width=12).fit(split.train)
    bias = lk.DPBias(epsilon=5.0, delta=1e-5).fit(split.train)
    scores = [evaluate(model, split.histories, split.held_out)["rmse"] for model in (sketch, bias)]
    assert scores[0] < 0.9 * scores[1]


def test_binary_rows_with_and_without_rank() -> None:
    """Two tastes: who has items of one half should be recommended the rest of that half."""
    rng = np.random.default_rng(11)
    dense = np.zeros((4000, 20))
    for u in range(4000):
        dense[u, (u % 2) * 10 + rng.choice(10, 5, replace=False)] = 1.0
    domain = lk.Domain([f"item {i}" for i in range(20)], feedback="binary")
    for rank in (None, 4):
        model = lk.DPMoments(epsilon=5.0, delta=1e-5, rank=rank).fit(scipy.sparse.csr_array(dense), domain=domain)
        ids, _ = model.recommend(["item 0", "item 1"], n=8)
        assert set(ids) == {f"item {i}" for i in range(2, 10)}


def test_bad_input_is_refused() -> None:
    domain = lk.Domain(10, (1.0, 5.0))
    with pytest.raises(InputError, match="head"):
        lk.DPMoments(epsilon=1.0, delta=1e-5, head=11).plan(domain)
    with pytest.raises(InputError, match="expected_users"):
        lk.DPSketch(epsilon=1.0, delta=1e-5, width=4).plan(domain)
    with pytest.raises(InputError, match="width"):
        lk.DPSketch(epsilon=1.0, delta=1e-5, width=11).plan(lk.Domain(10, (1.0, 5.0), expected_users=10))
    with pytest.raises(InputError, match="ratings"):
        lk.DPSketch(epsilon=1.0, delta=1e-5).plan(lk.Domain(10, feedback="binary", expected_users=10))
