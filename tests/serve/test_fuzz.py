"""Requests made from the OpenAPI document itself, good and bad, with an item planted in their histories.

`LOWKEY_FUZZ_EXAMPLES=1000` is the long form. Every answer is a documented one; a refusal is a sentence and repeats nothing.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lowkey.serving.http.app import build_app
from lowkey.serving.http.limits import Limits
from lowkey.serving.http.served import Current, Served

EXAMPLES = int(os.environ.get("LOWKEY_FUZZ_EXAMPLES", "25"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PLANTED = "Secret Affair 77"
HEARD: list[str] = []


@pytest.fixture(scope="module")
def document(served: Served) -> Any:
    app = build_app(Current(served), Limits(histories=4, length=50), version="0", surprised=HEARD.append)
    return schemathesis.openapi.from_asgi("/openapi.json", app)


QUESTIONS = ("/recommend", "/similar", "/explain")
FACTS = ("/items", "/guarantee", "/report", "/v2/models/{name}", "/v2/models/{name}/ready")
MODES = {"good": GenerationMode.POSITIVE, "bad": GenerationMode.NEGATIVE}
ASKED = [(path, "post", mode) for path in QUESTIONS for mode in MODES]
ASKED += [(path, "get", "good") for path in FACTS] + [("/items", "get", "bad")]


def plant(body: Any) -> bool:
    """Put the item into every history that there is; whether there is one."""
    if not isinstance(body, dict):
        return False
    many = body.get("histories")
    found = [body.get("history"), *(many if isinstance(many, list) else [])]
    for history in found:
        if isinstance(history, dict):
            history[PLANTED] = 3.0
        elif isinstance(history, list):
            history.append(PLANTED)
    return any(isinstance(history, dict | list) for history in found)


@pytest.mark.parametrize(("path", "method", "mode"), ASKED)
def test_every_answer_is_documented_and_repeats_nothing(
    document: Any, path: str, method: str, mode: str, capfd: Any
) -> None:
    operation = document[path][method]
    planted: list[int] = []

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    @given(case=operation.as_strategy(generation_mode=MODES[mode]))
    def ask(case: Any) -> None:
        planted.append(plant(case.body))
        answer = case.call()
        case.validate_response(answer, checks=CHECKS)
        if answer.status_code >= 400:
            told = answer.json()
            assert set(told) == {"error"}
            assert told["error"].endswith(".")
            assert "\n" not in told["error"]
        assert "Secret" not in answer.text + str(answer.headers)

    ask()
    assert "Secret" not in "".join(capfd.readouterr()) + "".join(HEARD)
    assert not HEARD, HEARD
    if path in ("/recommend", "/explain") and mode == "good":
        assert sum(planted) > EXAMPLES / 4


def test_the_item_is_planted_where_a_history_is() -> None:
    body: dict[str, Any] = {"histories": [{}, ["a"]], "history": {"b": 1.0}}
    assert plant(body)
    assert body == {"histories": [{PLANTED: 3.0}, ["a", PLANTED]], "history": {"b": 1.0, PLANTED: 3.0}}
    assert not plant([])
