"""The privacy report: nothing empty, the bounds right, and a page that stands alone."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from estimators import CASES
from pydantic import ValidationError
from scipy.stats import norm

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.privacy.mechanisms import Gaussian, ThresholdedGaussian
from lowkey.privacy.plan import Line
from lowkey.privacy.price import Price, at_most, percent, price
from lowkey.privacy.randomized_response import RandomizedResponse
from lowkey.release.writing import facts_of
from lowkey.report import PrivacyReport, build_report, model_card, report_page
from lowkey.report.build import RULES_IN_WORDS
from lowkey.report.contents import NAMES, human_name
from lowkey.serving.rules import RULES


@pytest.fixture(scope="module")
def report() -> PrivacyReport:
    model = lk.DPBias(epsilon=0.7, delta=1e-6, n_iter=3).fit(taste(300, 40, 10, seed=2).ratings()).model_
    return build_report(facts_of(model), model.ledger)


def test_the_numbers_are_the_ledgers(report: PrivacyReport) -> None:
    assert report.epsilon == pytest.approx(0.7, rel=1e-3)
    assert report.epsilon <= 0.7
    posts = [(post.name, post.posts, post.numbers_each) for post in report.posts]
    assert posts == [("level", 1, 2), ("spread", 1, 4), ("item_means", 3, 80)]
    assert sum(post.share for post in report.posts) == pytest.approx(1.0)
    first, second = report.accountants
    assert first.epsilon == report.epsilon
    assert second.epsilon == pytest.approx(first.epsilon, rel=1e-4)
    nearest = min(report.curve, key=lambda point: abs(math.log(point.delta / 1e-6)))
    assert nearest.epsilon == pytest.approx(report.epsilon, rel=1e-9)
    epsilons = [point.epsilon for point in report.curve]
    assert epsilons == sorted(epsilons, reverse=True)


@pytest.mark.parametrize("name", list(PrivacyReport.model_fields))
def test_an_empty_field_is_refused(report: PrivacyReport, name: str) -> None:
    full = report.model_dump()
    hollow = {"bool": None, "str": " ", "float": math.nan, "tuple": (), "dict": {}}[type(full[name]).__name__]
    with pytest.raises(ValidationError, match=f"{name}|finite|valid"):
        PrivacyReport.model_validate({**full, name: hollow})
    PrivacyReport.model_validate(full)


def test_gaps_inside_lists_and_tables_are_refused_too(report: PrivacyReport) -> None:
    full = report.model_dump()
    for name, hollow in (("caveats", ("fine", "")), ("software", {"numpy": ""}), ("domain", {"n_items": None})):
        with pytest.raises(ValidationError, match="empty"):
            PrivacyReport.model_validate({**full, name: hollow})


def gaussian(mu: float, posts: int = 1) -> list[Line]:
    return [Line("x", Gaussian(math.sqrt(posts) / mu), 10)] * posts


@pytest.mark.parametrize("mu", [0.1, 0.8, 3.0])
def test_the_gaussian_bounds_are_those_of_the_best_test(mu: float) -> None:
    """Against the likelihood-ratio test between N(0, 1) and N(mu, 1), by hand."""
    cost = price(gaussian(mu, posts=4), 1e-6)
    for alarms in (0.01, 0.2, 0.6):
        threshold = norm.isf(alarms)
        assert cost.detected(alarms) == pytest.approx(norm.sf(threshold - mu), rel=1e-9)
    halfway = (norm.cdf(mu / 2) + norm.sf(mu / 2 - mu)) / 2  # the test with the threshold in the middle
    assert cost.best_guess == pytest.approx(halfway, rel=1e-9)
    assert halfway <= cost.best_guess < replace(cost, gaussian=False).best_guess


def test_randomized_response_reaches_its_bound() -> None:
    """One sign kept with probability e^eps/(1 + e^eps): guessing the answer is the best attack, and it is that good."""
    cost = price([Line("signs", RandomizedResponse(1.3), 10)], 0.0)
    assert cost.best_guess == pytest.approx(math.exp(1.3) / (1.0 + math.exp(1.3)))
    flip = 1.0 / (1.0 + math.exp(1.3))
    assert cost.detected(flip) == pytest.approx(1.0 - flip)


def test_a_selection_adds_its_own_delta() -> None:
    mechanism = ThresholdedGaussian(2.0, 5.0, 3)
    own = mechanism.own_delta
    cost = Price(5.0, 2.0 * own, 0.5, gaussian=True, own_delta=own)
    assert own > 0.01
    assert price([Line("catalogue", mechanism, 10)], 2.0 * own).own_delta == own
    assert cost.best_guess == pytest.approx(norm.cdf(0.25) + own / 2.0)
    assert cost.detected(0.1) >= norm.sf(norm.isf(0.1) - 0.5) + own


def test_basic_success_counts_delta() -> None:
    # At epsilon 0 the release is the same but with probability delta: half of (1 + delta).
    assert Price(0.0, 0.1, 0.0).best_guess == pytest.approx(0.55)
    assert Price(2.0, 0.0, 0.0).best_guess == pytest.approx(math.exp(2) / (1 + math.exp(2)))


def test_what_is_shown_is_rounded_up() -> None:
    assert percent(0.54801) == "54.9 %"
    assert percent(0.5) == "50.0 %"
    assert at_most(0.99991, 4) == "1"
    assert at_most(1.23401, 4) == "1.235"
    assert at_most(12.0, 4) == "12"
    assert at_most(0.1) == "0.1"
    assert at_most(1.0000001) == "1.00001"
    assert at_most(math.inf) == "inf"


def test_the_page_stands_alone(report: PrivacyReport) -> None:
    page = report_page(report)
    assert page.count("<svg") == 2
    assert not re.search(r"<(script|link|img|iframe|object|embed)\b|@import|url\(|https?://", page)
    assert "default-src 'none'" in page
    for text in (report.statement, *report.caveats, *report.not_covered, *report.public, report.ledger_head):
        assert text.replace("'", "&#x27;") in page


def test_the_page_escapes_what_it_is_given(report: PrivacyReport) -> None:
    evil = report.model_copy(update={"caveats": ("<script>alert(1)</script>",), "method": "<b>"})
    assert "<script>" not in report_page(evil)


def test_the_card_names_what_matters(report: PrivacyReport) -> None:
    card = model_card(report)
    for part in ("epsilon = 0.7", "one user", "add-remove", report.statement, "lk.load"):
        assert part in card


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_post_and_rule_has_words_of_its_own(case: Any) -> None:
    plan = case.make().plan(case.domain)
    unnamed = [line.name for line in plan.lines if human_name(line.name) not in NAMES.values()]
    assert unnamed == []
    assert set(RULES_IN_WORDS) == set(RULES)


def test_what_the_curator_left_out_is_named_once(report: PrivacyReport) -> None:
    page, card = report_page(report), model_card(report)
    assert page.count("Not stated by the curator: organisation, data set") == 1
    assert card.count("not stated: organisation, data set") == 1
    assert "to be answered" not in (page + card).lower()
    assert page.count("<section>") == page.count("<h2>") == page.count("</section>") > 10  # each on paper in one piece
