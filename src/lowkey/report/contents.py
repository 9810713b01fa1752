"""Public room: the fields of a privacy report, and the posts of a ledger in them, as people read them: what each is, its
bound, noise and share of the budget. No field may be empty: a report with a gap cannot be made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from lowkey.privacy.accounting import gaussian_epsilon
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import at_most, price


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


NAMES = {
    "level": "the average of all ratings",
    "spread": "how much ratings vary",
    "item_means": "the average of every item",
    "item_counts": "how many people have each item",
    "taken_counts": "how many people took each item",
    "head_counts": "how many people took each of the items that seem to be taken most",
    "taste_moments": "which items are taken together",
    "taste_fit": "whether this foretells people left out",
    "left_out": "whether this foretells ratings left out",
    "catalogue": "which items enough people have",
    "rated_gram": "which items are rated together",
    "row_gram": "which items are taken together",
    "residual_gram": "which items are liked together",
    "co_ratings": "which items are rated together",
    "first_view": "which items are liked together, blurred to a sketch",
    "second_view": "which items are liked together, in the sketch's directions",
    "start_gram": "which items are liked together, for a start",
    "residual_product": "a step towards the main direction of taste",
    "residual_energy": "how much is not explained yet",
    "rating_density": "how many ratings there are",
    "misfit": "how far the model is off",
    "item_gram": "how people's tastes vary, for every item",
    "item_rhs": "how people's tastes go with ratings, for every item",
    "user_gram": "how people's tastes vary",
    "user_moments": "how people's tastes vary",
    "taken": "how people's tastes go with what they took",
    "item_gradient": "where to move every item",
    "item_update": "where to move every item",
    "spectral_start": "which items are liked together, for a start",
    "cleansed_covariance": "which items are liked together",
    "gradient": "where to move the model",
    "last_gradient": "where to move the model, a last time",
    "minimiser": "the fitted model",
    "responses": "answers, blurred",
    "number": "how many there are",
    "signs": "likes and dislikes, some of them flipped",
}


def human_name(name: str) -> str:
    """Of a post, without its round."""
    plain = re.sub(r"(_\d+)+$", "", name)
    return NAMES.get(plain, plain.replace("_", " "))


def describe_posts(ledger: Ledger, delta: float) -> tuple[Post, ...]:
    """The posts of a ledger, those of one kind together, over all fits, each with its share of the budget."""
    plans: list[Plan] = []
    counts: dict[tuple[str, Line], int] = {}
    bounds: dict[str, str] = {}
    for record in ledger.records:
        if "sensitivity" in record.get("statistic", {}):
            named = record["line"]["name"] if record["kind"] == "reserve" else record["name"]
            bounds[named] = _bound_in_words(record["statistic"])
        if record["kind"] == "plan":
            plans.append(Plan.from_json(record["plan"]))
        elif record["kind"] == "reserve":
            line = Line.from_json(record["line"])
            # Fits of several processes may take turns on one ledger: a post belongs to the last fit that planned it.
            owner = next((plan for plan in reversed(plans) if _plans(plan, line)), plans[-1])
            counts[owner.method, line] = counts.get((owner.method, line), 0) + 1
    weights = _weights([line for (_, line), count in counts.items() for _ in range(count)], delta)
    return tuple(
        Post(
            fit=method,
            name=line.name,
            what=human_name(line.name),
            posts=count,
            numbers_each=line.size,
            mechanism=line.mechanism.kind,
            noise=line.mechanism.in_words,
            share=count * weights[line],
            note=line.note or "a sum of bounded contributions",
            bound=bounds.get(line.name, "as its kernel states"),
        )
        for (method, line), count in counts.items()
    )


def describe_history(ledger: Ledger, delta: float) -> History:
    """One curve for all releases on the ledger: of a stream the noise of each, else what was spent after each fit."""
    plans = ledger.plans()
    schedules = [plan.schedule for plan in plans if plan.schedule is not None]
    if schedules:
        return History(of="noise of each release, in that of a single one", values=tuple(schedules[-1].noise.tolist()))
    lines, values = list[Line](), list[float]()
    for plan in plans:
        lines += plan.lines
        values.append(price(lines, delta).epsilon)
    return History(of="epsilon after each fit, as planned", values=tuple(values))


def fits_in_words(plans: Sequence[Plan]) -> tuple[str, ...]:
    """Each fit, the same ones together."""
    counts: dict[str, int] = {}
    for plan in plans:
        posts = sum(line.times for line in plan.lines)
        words = f"{plan.method}: {posts} {'post' if posts == 1 else 'posts'}, epsilon {at_most(plan.price.epsilon, 4)}"
        counts[words] = counts.get(words, 0) + 1
    return tuple(f"{words} by itself" + (f", {count} times" if count > 1 else "") for words, count in counts.items())


def _bound_in_words(statistic: Mapping[str, Any]) -> str:
    norm = {"l1": "in absolute values together", "l2": "in Euclidean length"}[statistic["norm"]]
    return f"at most {at_most(statistic['sensitivity'], 4)} {norm}"


def _plans(plan: Plan, line: Line) -> bool:
    return any(planned.name == line.name and planned.mechanism == line.mechanism for planned in plan.lines)


def _weights(lines: Sequence[Line], delta: float) -> dict[Line, float]:
    """Each post's share: by mu^2 among the Gaussian ones, by epsilon between these and the pure ones."""
    mu_squared = sum(line.mechanism.mu**2 for line in lines)
    gaussian = gaussian_epsilon(math.sqrt(mu_squared), delta)
    total = gaussian + sum(line.mechanism.epsilon for line in lines)
    return {
        line: (gaussian * line.mechanism.mu**2 / mu_squared if line.mechanism.mu else line.mechanism.epsilon) / total
        for line in lines
    }
