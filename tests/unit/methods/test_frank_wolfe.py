"""Frank-Wolfe on planted matrices: it finds what was planted, and a newcomer gets what training would have given."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse

import lowkey as lk
from lowkey.kernels.gram import add_row_grams
from lowkey.linalg.leading import direction_ridge, energy_margin, leading_eigenpairs
from lowkey.serving.replay import ReplayRule
from lowkey_lab.synthetic import planted_low_rank

STEPS = ["corrective", "decreasing", "constant"]


def planted(n_users: int = 1500, noise: float = 0.0, seed: int = 1):
    return planted_low_rank(n_users, 30, 2, density=0.5, noise=noise, seed=seed)


def error(model, data) -> float:
    truth = data.truth["user_factors"] @ data.truth["item_factors"].T
    return float(np.sqrt(np.mean((model.predict(data.csr) - truth) ** 2)))


class LastSweep(lk.LocalEngine):
    """Keeps what the users computed with in the last round."""

    def sweep(self, sweep, data, local=None):
        self.last = sweep, next(iter(data._open_blocks(10**6)))
        return super().sweep(sweep, data, local)


def test_the_baseline_recovers_an_exact_matrix() -> None:
    data = planted()
    assert error(lk.FrankWolfe(n_iter=8, offset_reg=None).fit(data.ratings()), data) < 0.02


def test_smaller_steps_approach_it_too() -> None:
    data = planted()
    singular = np.linalg.svd(data.truth["user_factors"] @ data.truth["item_factors"].T, compute_uv=False)
    walk = {"nuclear_norm": float(singular.sum()), "offset_reg": None, "step": "decreasing"}
    errors = [error(lk.FrankWolfe(n_iter=n, **walk).fit(data.ratings()), data) for n in (2, 8, 40)]
    assert errors[0] > 1.5 * errors[1] > 2.0 * errors[2]
    constant = lk.FrankWolfe(n_iter=8, **{**walk, "step": "constant"}).fit(data.ratings())
    assert errors[1] < error(constant, data) < 0.5  # the paper's 1/T is the slower one; 0 has error 0.58


def test_private_fits_approach_the_baseline() -> None:
    data = planted(4000)
    own = {"n_iter": 3, "offset_reg": None, "row_norm": 3.5}
    errors = [error(lk.DPFrankWolfe(e, 1e-6, **own).fit(data.ratings()), data) for e in (0.3, 3.0, 1e4)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.1


def test_the_power_form_finds_the_leading_direction() -> None:
    data = planted()
    gram = lk.FrankWolfe(n_iter=1, form="gram", offset_reg=None).fit(data.ratings()).item_factors_[:, 0]
    power = lk.FrankWolfe(n_iter=1, form="power", power_steps=300, offset_reg=None).fit(data.ratings()).item_factors_[:, 0]
    assert abs(gram @ power) > 0.999


@pytest.mark.parametrize("form", ["gram", "power"])
@pytest.mark.parametrize("step", STEPS)
def test_a_newcomer_has_what_training_would_have_given(step: str, form: str) -> None:
    """In the last round, the residual that each user showed is that of the serving rule with the same posts."""
    data, engine = planted(200, noise=0.3), LastSweep()
    estimator = lk.DPFrankWolfe(50.0, 1e-6, n_iter=4, step=step, form=form, row_norm=1.5, nuclear_norm=30.0)
    estimator.fit(data.ratings(), engine=engine)
    sweep, block = engine.last
    shown = sweep.units(block) * sweep.grid.step
    arrays = {name: array for name, array in sweep.walk._asdict().items() if array is not None}
    arrays["item_factors"] = arrays.pop("directions").T
    rule = ReplayRule(arrays, {**estimator.model_.settings, "rating_range": (-99.0, 99.0)}, 30)
    for user in (0, 17, 199):
        history = data.csr[[user]]
        own = rule.transform(history)[0, 0]
        target = history.data - sweep.center - own
        shrink = min(1.0, 1.5 / np.linalg.norm(target))
        residual = shrink * ((rule.scorer(history)(slice(0, 1))[0, history.indices] - own) - (history.data - own))
        clipped = residual * min(1.0, 1.5 / np.linalg.norm(residual))
        entries = slice(block.offsets[user], block.offsets[user + 1])
        assert np.allclose(shown[entries], clipped, atol=1e-5)
    # Alone or among others: the same bits.
    together = estimator.transform(data.csr)
    assert np.array_equal(estimator.transform(data.csr[[17]])[0], together[17])


def test_released_and_loaded_it_serves_the_same(tmp_path) -> None:
    data = planted(200)
    model = lk.DPFrankWolfe(5.0, 1e-6, n_iter=3, step="decreasing").fit(data.ratings())
    loaded = lk.load(model.release(tmp_path / "release"))
    assert np.array_equal(loaded.predict(data.csr[:5]), model.predict(data.csr[:5]))


def test_pieces_add_up() -> None:
    rng = np.random.default_rng(0)
    rows = scipy.sparse.random_array((5000, 40), density=0.9, rng=rng, format="csr")
    rows.sort_indices()
    units = rng.integers(-50, 50, rows.nnz)
    triangle = np.zeros(820, np.int64)
    add_row_grams(rows.indptr.astype(np.int64), rows.indices, units, 40, triangle)
    assert rows.nnz > 1 << 17  # so that there are several pieces
    dense = scipy.sparse.csr_array((units, rows.indices, rows.indptr), shape=rows.shape).toarray()
    assert np.array_equal(triangle, (dense.T @ dense)[np.triu_indices(40)])


def test_the_energy_margin_holds() -> None:
    """Chance of a miss at most 0.00135 per draw (three deviations): more than 6 in 400 has a chance below 1e-6."""
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    gram = basis @ np.diag([50.0, 45.0, 5.0] + [0.0] * 37) @ basis.T
    missed = 0
    for _ in range(400):
        w = rng.standard_normal((40, 40))
        values, vectors = leading_eigenpairs(gram + (w + w.T) / math.sqrt(2.0), 1)  # std 1 off the diagonal
        energy = vectors[:, 0] @ gram @ vectors[:, 0]
        missed += energy > values[0] + energy_margin(1.0)
    assert missed <= 6


def test_the_ridge_is_the_ratio_of_variances() -> None:
    """Coefficients of standard deviation 3 along one direction, residuals of 0.5: ridge 0.25 / 9, within sampling error."""
    rng = np.random.default_rng(2)
    n_users, n_items, density = 20_000, 50, 0.4
    direction = rng.standard_normal(n_items)
    direction /= np.linalg.norm(direction)
    seen = rng.random((n_users, n_items)) < density
    signal = 3.0 * rng.standard_normal((n_users, 1)) * direction
    noise = 0.5 * rng.standard_normal((n_users, n_items))
    before, after = ((seen * rows).T @ (seen * rows) for rows in (signal + noise, noise))
    energy = np.array([direction @ before @ direction, direction @ after @ direction])
    bulk = np.array([np.trace(before), np.trace(after)]) / n_items
    ridge = direction_ridge(energy, bulk, np.zeros(2), density)
    assert ridge[0] == pytest.approx(0.25 / 9.0, rel=0.15)  # the signal's own part of the mean eigenvalue is small
    assert ridge[1] > 1.0  # nothing was left in that direction
    assert direction_ridge(energy, bulk, np.array([1e9, 1e9]), density).min() > 1e6  # all of it below the noise's edge


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "optimal"},
        {"form": "dense"},
        {"n_iter": 0},
        {"row_norm": 0.0},
        {"nuclear_norm": math.inf},
        {"residual_norm": math.nan},
    ],
)
def test_what_makes_no_sense_is_refused(wrong) -> None:
    with pytest.raises(ValueError):
        lk.DPFrankWolfe(1.0, 1e-6, **wrong).plan(planted().domain())


def test_bounds_never_come_from_the_data() -> None:
    unknown = lk.Domain(items=30, rating_range=(-1.0, 1.0))
    with pytest.raises(ValueError, match="expected_users"):
        lk.DPFrankWolfe(1.0, 1e-6, step="decreasing").plan(unknown)
    with pytest.raises(ValueError, match="binary"):
        lk.DPFrankWolfe(1.0, 1e-6).plan(lk.Domain(items=30, feedback="binary"))
