"""The unit of privacy: what differs does not compose, all wording follows from it, and old ledgers are read for ever."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import lowkey as lk
from lowkey.data.synthetic import taste
from lowkey.errors import InputError
from lowkey.privacy.mechanisms import Gaussian
from lowkey.privacy.plan import Line, Plan
from lowkey.release.writing import facts_of
from lowkey.report import build_report, model_card, report_page

RELEASES = Path(__file__).parents[1] / "unit" / "releases"
LINE = Line("sums", Gaussian(2.0), 3)


def crowd() -> lk.Ratings:
    return taste(60, 8, 4.0, seed=2).ratings()


def users_values() -> lk.DPOneBit:
    return lk.DPOneBit(2.0, 1e-6, perturbation="objective", unit="user", max_ratings=3)


def test_a_users_values_and_a_user_do_not_compose() -> None:
    """Where a user rated is public for the one and hidden by the other: no one sentence holds of both."""
    for first, second in permutations([users_values(), lk.DPBias(1.0, 1e-6, adjacency="replace-one")]):
        billboard = lk.Billboard()
        first.fit(crowd(), billboard=billboard)
        with pytest.raises(InputError, match="do not compose"):
            second.fit(crowd(), billboard=billboard)
        assert len(billboard.ledger.plans()) == 1


def test_nothing_calls_a_users_values_everything_of_a_user() -> None:
    model = users_values().fit(crowd()).model_
    report = build_report(facts_of(model), model.ledger)
    answer = next(q.answer for q in report.questions if q.topic == "Unit of privacy")
    entry = report.registry_entry["privacy unit"]
    for text in (str(model.guarantee), report.statement, report.unit_in_words, report.adjacency_in_words, entry, answer):
        assert "who rated what is" in text
    for text in (str(model.guarantee), report.model_dump_json(), model_card(report), report_page(report)):
        assert "everything that one user" not in text
        assert "protects   one user:" not in text
        assert "with or without one user" not in text
        assert "replacing one user" not in text


UNITS: list[Any] = [
    ("user", "everything", "add-remove"),
    ("user", "everything", "replace-one"),
    ("user", "values", "replace-one"),
    ("rating", "values", "replace-one"),
    ("record", "everything", "replace-one"),
    ("record", "values", "replace-one"),
]


@pytest.mark.parametrize("fields", UNITS, ids=" ".join)
def test_every_unit_has_its_words_and_comes_back_from_json(fields: Any) -> None:
    from lowkey.privacy.guarantee import Unit

    plan = Plan("Test", (LINE,), 1e-6, Unit(*fields))
    guarantee = plan.guarantee()
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    for text in (guarantee.sentence(), str(guarantee)):
        assert ("with or without" in text or "adding or removing" in text) == (fields[2] == "add-remove")
        assert ("is public" in text or "are public" in text) or fields[1] == "everything"
    others = [Plan("Test", (LINE,), 1e-6, Unit(*other)) for other in UNITS if other != fields]
    for other in others:
        ledger = lk.Ledger()
        ledger.add_plan(plan)
        with pytest.raises(InputError, match="do not compose"):
            ledger.add_plan(other)
        assert other.guarantee().sentence() != guarantee.sentence()


@pytest.mark.parametrize(
    "fields", [("user", "values", "add-remove"), ("rating", "everything", "replace-one"), ("user", "everything", "other")]
)
def test_units_that_make_no_sense_are_refused(fields: Any) -> None:
    from lowkey.privacy.guarantee import Unit

    with pytest.raises(InputError):
        Unit(*fields)


# Ledgers of 0.1 --------------------------------------------------------------------------------------------------------
def old_plan(method: str, unit: str, adjacency: str) -> dict[str, Any]:
    """As 0.1 wrote it."""
    return {
        "method": method,
        "lines": [LINE.to_json()],
        "delta": 1e-6,
        "adjacency": adjacency,
        "unit": unit,
        "public": [],
        "caveats": [],
        "sound": True,
        "settings": {},
    }


@pytest.mark.parametrize(
    ("method", "unit", "adjacency", "read"),
    [
        ("DPALS", "user", "add-remove", "user"),
        ("DPALS", "user", "replace-one", "user"),
        ("DPOneBit", "user", "replace-one", "user-values"),
        ("DPOneBit", "rating", "replace-one", "rating"),
        ("DPTraceRegression", "record", "replace-one", "record"),
        ("DPTraceRegression", "response", "replace-one", "response"),
    ],
)
def test_old_plans_are_read(method: str, unit: str, adjacency: str, read: str) -> None:
    plan = Plan.from_json(old_plan(method, unit, adjacency))
    written = plan.to_json()
    assert (plan.unit.name, plan.unit.neighbours) == (written["unit"], written["adjacency"]) == (read, adjacency)
    assert {**written, "unit": unit} == old_plan(method, unit, adjacency)  # and nothing else is written otherwise


def test_an_old_ledger_that_mixed_units_has_no_guarantee() -> None:
    ledger = lk.Ledger()
    for method in ("DPOneBit", "DPBias"):
        ledger._append({"kind": "plan", "plan": old_plan(method, "user", "replace-one")})
    with pytest.raises(InputError, match="do not compose"):
        ledger.guarantee()


def test_old_releases_are_loaded_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that 0.1.0 wrote. Its numbers hold; where it promised more than holds, it is told."""
    monkeypatch.setattr(lk, "__version__", "0.2.0")
    checks = {check.claim: check for check in lk.verify(RELEASES / "bias-0.1.0")}
    assert all(check.ok for check in checks.values())
    assert "0.1.0" in checks["The report says what the ledger says"].detail
    lk.load(RELEASES / "bias-0.1.0").recommend({}, n=3)
    failed = [check for check in lk.verify(RELEASES / "one-bit-user-0.1.0") if not check.ok]
    assert [(check.claim, check.detail) for check in failed] == [("The report says what the ledger says", "'unit' differs")]
    assert lk.load(RELEASES / "one-bit-user-0.1.0").guarantee.unit.name == "user-values"
