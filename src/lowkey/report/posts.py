"""Public room: the posts of a ledger as people read them: what each is, its bound, noise and share of the budget."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lowkey.privacy.accounting import gaussian_epsilon
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import at_most, price
from lowkey.report.contents import History, Post

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
