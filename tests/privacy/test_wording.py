"""Every sentence that is printed holds: one statement, the tight one, rounded up, of the neighbours that there are."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import lowkey as lk
from lowkey.cli.main import run
from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.methods.base import Recommender
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey.release.writing import facts_of
from lowkey.report import build_report, model_card


def crowd() -> lk.Ratings:
    return taste(60, 8, 4.0, seed=2).ratings()


def released(model: Any, folder: Path) -> dict[str, Any]:
    return json.loads((model.release(folder) / "privacy_report.json").read_text())


def test_one_statement_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Guarantee, report, card and command line say the same, and it is Phi(mu/2): what the best test achieves."""
    model = lk.DPBias(1.0, 1e-6).fit(crowd())
    sentence = model.guarantee_.sentence()
    (said,) = re.findall(r"at most ([\d.]+) %", sentence)
    best = 100.0 * norm.cdf(model.guarantee_.mu / 2.0)
    assert best <= float(said) < best + 0.1
    report = released(model, tmp_path / "release")
    assert report["statement"] == sentence
    assert sentence in (tmp_path / "release" / "MODEL_CARD.md").read_text()
    assert run(["explain", str(tmp_path / "release")]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())
    shares = re.findall(r"at most ([\d.]+) % of them right", report["attack"]["in_words"])
    assert shares == [said]
    weaker = 100.0 * math.e / (1.0 + math.e)  # what epsilon = 1 alone says
    assert f"{weaker:.1f}" not in (tmp_path / "release" / "privacy_report.html").read_text()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_the_neighbours_are_those_of_the_promise(adjacency: str, tmp_path: Path) -> None:
    model = lk.DPBias(1.0, 1e-6, adjacency=adjacency).fit(crowd())
    report = released(model, tmp_path / "release")
    for text in (model.guarantee_.sentence(), report["statement"]):
        assert ("with or without one user" in text) == (adjacency == "add-remove")
    assert ("left them out" in report["attack"]["in_words"]) == (adjacency == "add-remove")


def test_what_is_at_most_is_never_rounded_down() -> None:
    """500 prices: every printed epsilon, delta and percentage is at least the number behind it."""
    rng = np.random.default_rng(0)
    for multiplier in rng.uniform(0.3, 60.0, 500):
        guarantee = Plan("Test", (Line("sums", Gaussian(multiplier), 3),), 1e-6).guarantee()
        (said,) = re.findall(r"at most ([\d.]+) %", guarantee.sentence())
        assert float(said) >= 100.0 * norm.cdf(guarantee.mu / 2.0)
        epsilon, delta = re.findall(r"epsilon = (\S+), delta = (\S+)", str(guarantee))[0]
        assert float(epsilon) >= guarantee.epsilon
        assert float(delta) >= guarantee.delta


def test_the_card_denies_no_count_that_the_release_holds() -> None:
    for model, counted in ((lk.DPBias(1.0, 1e-6), False), (lk.DPOneBit(1.0), True)):
        fitted = model.fit(crowd()).model_
        card = model_card(build_report(facts_of(fitted), fitted.ledger))
        assert ("60 users" in card) == counted  # the plan of one-bit completion states how many rated
        assert ("no exact count" in card) != counted


def test_epsilon_without_a_total_is_called_an_odometer() -> None:
    for total, fits, said in ((None, 1, False), (None, 2, True), ((5.0, 1e-6), 2, False)):
        billboard = lk.Billboard(lk.Ledger(total=total))
        for _ in range(fits):
            model = lk.DPBias(1.0, 1e-6).fit(crowd(), billboard=billboard)
        assert ("odometer" in str(model.guarantee_)) == said
        assert any("odometer" in caveat for caveat in model.guarantee_.caveats) == said


# No scores -------------------------------------------------------------------------------------------------------------
def estimators() -> Iterator[Any]:
    for name in lk.__all__:
        kind = getattr(lk, name)
        if inspect.isclass(kind) and (issubclass(kind, Recommender) or "TraceRegression" in name):
            yield kind()


@pytest.mark.parametrize("estimator", list(estimators()), ids=lambda e: type(e).__name__)
def test_no_estimator_has_a_score_and_all_can_be_looked_at(estimator: Any) -> None:
    assert not hasattr(estimator, "score")
    with pytest.raises(InputError, match="composes"):
        _ = estimator.score
    assert "fit" in dict(inspect.getmembers(estimator))


def test_a_fitted_estimator_can_be_looked_at() -> None:
    model = lk.DPBias(1.0, 1e-6).fit(crowd())
    assert {"guarantee_", "predict"} <= set(dict(inspect.getmembers(model)))
    assert not hasattr(lk.DPBias(1.0, 1e-6), "guarantee_")
