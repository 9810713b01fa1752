"""Local room: one sentence for every bad request, made of our own words: what was sent is never repeated.

A validation library quotes the input, and the path to it: for a history both are somebody's items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowkey.serving.http.schemas import OWN_WORDS, REQUESTS

NEEDED: dict[str, str] = {
    name: field.description or name for request in REQUESTS for name, field in request.model_fields.items()
} | {"start": "a whole number from 0", "name": "the name of the model"}
HTTP = {
    404: "There is nothing at this address. See /openapi.json for what there is.",
    405: "This address does not take this method. See /openapi.json for what it takes.",
    400: "The body is not JSON.",
}


def of_validation(errors: Sequence[Mapping[str, Any]]) -> tuple[int, str]:
    """The status and the sentence of a request that does not fit its schema."""
    first = errors[0]
    kind, named = str(first["type"]), [part for part in first["loc"][1:2] if part in NEEDED]
    if kind == "json_invalid":
        return 400, HTTP[400]
    if kind == OWN_WORDS:
        return 422, f"{first['msg']}."
    if kind == "extra_forbidden" and not named:
        return 422, "The body has a field that this address does not know. See /openapi.json for its fields."
    if not named:
        return 422, "The body is not a JSON object with the fields of /openapi.json, or its type is not application/json."
    trouble = "is missing" if kind == "missing" else "is not as needed"
    return 422, f"{named[0]} {trouble}. It is {NEEDED[named[0]]}."


def of_status(status: int) -> str:
    return HTTP.get(status, f"The request was refused with status {status}.")


def of_surprise(error: BaseException) -> str:
    """The kind of an unexpected error and where it was raised; its message could quote a history."""
    trace, place = error.__traceback__, "?"
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"An unexpected {type(error).__name__} at {place}; its message is not shown, as it could quote a history."
