"""Local room: what is asked and answered, as the OpenAPI document states it.

Whatever tells of a person stands in the body of a POST: addresses end up in the logs of every proxy on the way. A bad
request gets one sentence of our own words: a validation library quotes the input and the path to it, and for a history both
are somebody's items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

ItemId = StrictInt | StrictStr
Rating = Annotated[float, Field(strict=True, allow_inf_nan=False)]
History = dict[str, Rating] | list[ItemId]
Count = Annotated[int, Field(strict=True, ge=1)]

OWN_WORDS = "own_words"  # the kind of an error whose message is ours and holds no value
A_HISTORY = "an object {item id: rating}, or for a model of likes a list of item ids"
UNKNOWN = "error, or ignore for ids of a history that the catalogue does not have"
MINE: Any = {"film 7": 5.0, "film 9": 1.5}


class Asked(BaseModel):
    """A request has its fields and no others; a default must be as good as what it stands for."""

    model_config = ConfigDict(extra="forbid")


class Recommend(Asked):
    history: History | None = Field(None, description=A_HISTORY)
    histories: list[History] | None = Field(None, description="a list of histories")
    n: Count = Field(10, description="how many items, 1 or more")
    items: list[ItemId] | None = Field(None, description="a list of item ids: only these are recommended")
    exclude: list[ItemId] = Field([], description="a list of item ids: none of these is recommended")
    exclude_seen: StrictBool = Field(True, description="true or false: leave out what a history has")
    unknown: Literal["error", "ignore"] = Field("error", description=UNKNOWN)

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"history": MINE, "n": 3},
                {"histories": [MINE, {}], "exclude": ["film 1"], "unknown": "ignore"},
            ]
        }
    )

    @model_validator(mode="after")
    def _one_or_many(self) -> Recommend:
        if (self.history is None) == (self.histories is None):
            raise PydanticCustomError(OWN_WORDS, "Give either history or histories")
        return self


class Similar(Asked):
    item: ItemId = Field(description="an item id")
    n: Count = Field(10, description="how many items, 1 or more")

    model_config = ConfigDict(json_schema_extra={"examples": [{"item": "film 7", "n": 3}]})


class Explain(Asked):
    history: History = Field(description=A_HISTORY)
    item: ItemId = Field(description="an item id")
    unknown: Literal["error", "ignore"] = Field("error", description=UNKNOWN)

    model_config = ConfigDict(json_schema_extra={"examples": [{"history": MINE, "item": "film 3"}]})


class Answer(BaseModel):
    release: str = Field(description="the id of the release that answered")


class Best(BaseModel):
    items: list[ItemId]
    scores: list[float]


class OneList(Answer, Best):
    """For one history."""


class ManyLists(Answer):
    """For histories: a list for each, in their order."""

    lists: list[Best]


class Part(BaseModel):
    item: ItemId
    value: float


class Why(Answer):
    """base + offset + the parts' values is the score on the scale of ``by``, before it is clipped or linked."""

    item: ItemId
    by: str
    base: float
    offset: float
    parts: list[Part]


class Catalogue(Answer):
    n_items: int
    start: int
    items: list[ItemId]


class Promise(Answer):
    sentence: str
    guarantee: dict[str, Any]


class Error(BaseModel):
    error: str = Field(description="one sentence")


class Tensor(BaseModel):
    name: str
    datatype: str
    shape: list[int]


class ModelFacts(BaseModel):
    name: str
    versions: list[str]
    platform: str
    inputs: list[Tensor]
    outputs: list[Tensor]


REQUESTS: tuple[type[Asked], ...] = (Recommend, Similar, Explain)


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
