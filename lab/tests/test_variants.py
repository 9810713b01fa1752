"""Estimators with changed settings: what they resolve to, what is refused, and that they stay estimators."""

from __future__ import annotations

import pytest
from sklearn.base import clone

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError, VerifyError
from lowkey.evaluation.protocol import exact_twin
from lowkey_lab.variants import varied

DOMAIN = lk.Domain(60, (0.5, 5.0), expected_users=5000)


def test_parameters_and_settings_may_be_mixed() -> None:
    given = {"epsilon": 2.0, "delta": 1e-6, "rank": 3, "bias_share": 0.0, "offset_reg": None}
    model = varied(lk.DPALS, **given)
    settings = model.resolve(DOMAIN)
    assert (settings.rank, settings.bias_share, settings.offset_reg) == (3, 0.0, None)
    assert settings.growth == lk.DPALS(2.0, 1e-6, rank=3).resolve(DOMAIN).growth
    assert not any(line.name == "item_means" for line in model.plan(DOMAIN).lines)
    assert 1.999 < model.plan(DOMAIN).price.epsilon <= 2.0  # what is left out costs nothing, and what is left gets all
    assert type(varied(lk.DPALS, epsilon=2.0)) is lk.DPALS


def test_a_clone_has_the_same_settings_and_the_same_name() -> None:
    model = varied(lk.DPFactors, epsilon=2.0, delta=1e-6, n_iter=5, averaged=1)
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert "averaged" not in again.get_params()
    assert again.resolve(DOMAIN) == model.resolve(DOMAIN)
    assert again.set_params(rank=4).resolve(DOMAIN).averaged == 1
    assert again.plan(DOMAIN).method == "DPFactors(averaged=1)"


@pytest.mark.parametrize("change", [{"gram": "items"}, {"bais_share": 0.1}, {"domain": DOMAIN}, {"budget": None}])
def test_what_is_no_setting_is_refused(change: dict) -> None:
    with pytest.raises(InputError, match=f"{next(iter(change))}.*means_share"):
        varied(lk.DPFactors, epsilon=1.0, delta=1e-6, **change).plan(DOMAIN)


def test_an_exact_twin_resolves_as_its_private_form_and_is_not_released(tmp_path) -> None:
    ratings = taste(300, 30, 10.0, seed=2).ratings()
    twin = exact_twin(lk.DPFactors)(20.0, 1e-6).fit(ratings)
    assert twin.resolve(ratings.domain) == lk.DPFactors(20.0, 1e-6).resolve(ratings.domain)
    assert twin.guarantee_.epsilon == float("inf")
    with pytest.raises(VerifyError, match="without noise"):
        twin.release(tmp_path / "r")
