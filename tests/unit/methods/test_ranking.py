"""What a release of ratings ranks by: popularity where nothing is known of a person, taste where things are taken alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import lowkey as lk
from lowkey.methods.base import Released
from lowkey.methods.leanings import ranked
from lowkey.privacy.billboard import Billboard
from lowkey.privacy.noise import SeededNoise

COUNTS = np.array([400.0, 100.0, 30.0, 10.0])


def released(effects: np.ndarray) -> Released:
    arrays = {"item_bias": effects, "item_factors": np.zeros((len(effects), 0))}
    return Released("factors", arrays, {"center": 3.0, "offset_reg": 5.0, "reg": 1.0, "rating_range": [1.0, 5.0]})


def test_without_a_personal_part_the_ranking_is_popularity() -> None:
    """Whatever the effects and the user's offset: what is rated best is not what is taken most."""
    effects = np.array([-1.0, 1.0, 0.5, 0.9])
    found = ranked(released(effects), COUNTS, 0.8)
    scores = 3.0 + effects + 0.7
    ranks = found.arrays["ranking"] + found.settings["ranking_scale"] * scores
    np.testing.assert_allclose(np.diff(ranks), np.diff(np.log(COUNTS)), rtol=1e-12)


@pytest.mark.parametrize(("slope", "scale"), [(0.1, 0.2), (0.7, 0.7), (30.0, 1.0)])
def test_taste_weighs_half_the_slope_of_popularity_on_effects_within_its_limits(slope: float, scale: float) -> None:
    effects = np.log(COUNTS) / slope
    assert ranked(released(effects), COUNTS, 1.0).settings["ranking_scale"] == pytest.approx(0.5 * scale, rel=1e-9)


@pytest.mark.parametrize("method", ["DPBias", "DPFactors", "DPALS", "DPMoments", "DPLMC"])
def test_the_lists_of_a_ratings_release_begin_with_what_is_taken(method: str) -> None:
    """Half of the items are hardly ever rated, and then with the highest rating: they are not what newcomers are shown."""
    rng = np.random.default_rng(3)
    often = np.arange(40) < 20
    table = np.where(rng.random((600, 40)) < np.where(often, 0.5, 0.01), np.where(often, 3.0, 5.0), 0.0)
    table[:, :20] += (table[:, :20] > 0) * rng.choice([-1.0, 0.0, 1.0], (600, 20))
    domain = lk.Domain(40, (1.0, 5.0), expected_users=600)
    model = getattr(lk, method)(epsilon=500.0, delta=1e-6)
    model.fit(scipy.sparse.csr_array(table), domain=domain, billboard=Billboard(noise=SeededNoise(1, factor=0.0)))
    nobody = scipy.sparse.csr_array((1, 40))
    assert set(model.recommend(nobody, n=20)[0][0].tolist()) == set(range(20))
    assert np.argsort(-model.predict(nobody)[0])[0] >= 20  # by expected rating alone it would be the others
