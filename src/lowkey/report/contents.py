"""Public room: the fields of a privacy report. None may be empty: a report with a gap cannot be made."""

from __future__ import annotations

import math
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator


class Filled(BaseModel):
    """A record whose every field says something."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="after")
    def _nothing_empty(self) -> Self:
        for name in type(self).model_fields:
            if _empty(getattr(self, name)):
                raise ValueError(f"{type(self).__name__}.{name} is empty: the report would have a gap")
        return self


class Post(Filled):
    """One kind of release: noisy sums that were published."""

    fit: str
    name: str
    what: str  # for people
    posts: int
    numbers_each: int
    mechanism: str
    noise: str
    share: float  # of the budget
    note: str
    bound: str  # on what one of the protected can add


class History(Filled):
    """One number for each release on the ledger, and what it is."""

    of: str
    values: tuple[float, ...]


class Point(Filled):
    """One (epsilon, delta) of the many that hold at once."""

    epsilon: float
    delta: float


class Detection(Filled):
    """What an attacker's best test detects when it accuses this share of the innocent."""

    false_alarms: float
    detected: float


class Attack(Filled):
    """What an attacker can at best achieve, who knows everything but whether one unit is in the data."""

    best_success: float  # of guesses, when both are equally likely before
    in_words: str
    detections: tuple[Detection, ...]
    trade_off: str  # how the curve was computed
    gaussian: bool
    own_delta: float
    slack: float


class Accountant(Filled):
    """One computation of epsilon from the ledger."""

    name: str
    how: str
    epsilon: float


class Question(Filled):
    """A question that a privacy officer asks, and its answer."""

    topic: str
    question: str
    answer: str


class PrivacyReport(Filled):
    """Everything of the guarantee that the two numbers leave out."""

    title: str
    reference: str
    created: str
    about: dict[str, str]
    verdict: str
    verdict_level: str
    verdict_good: bool
    method: str
    what_it_is: str
    statement: str
    unit: str
    protected: str
    unit_in_words: str
    adjacency: str
    adjacency_in_words: str
    epsilon: float
    delta: float
    mu: float
    trust_model: str
    public: tuple[str, ...]
    withheld: str
    not_covered: tuple[str, ...]
    caveats: tuple[str, ...]
    erasure: str
    if_wrong: tuple[str, ...]
    posts: tuple[Post, ...]
    fits: tuple[str, ...]
    history: History
    budget: str
    curve: tuple[Point, ...]
    attack: Attack
    accountants: tuple[Accountant, ...]
    questions: tuple[Question, ...]
    registry_entry: dict[str, str]
    domain: dict[str, Any]
    settings: dict[str, str]
    software: dict[str, str]
    ledger_head: str


class AuditedReport(PrivacyReport):
    """A report to which the curator attached what an audit of a stand-in measured."""

    audit: tuple[str, ...]


def _empty(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, dict):
        return not value or any(_empty(entry) for entry in value.values())
    if isinstance(value, tuple | list):
        return not value or any(_empty(entry) for entry in value)
    return value is None
