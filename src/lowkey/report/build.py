"""Public room: the report as a function of a release's facts and its ledger, so that anyone can compute it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lowkey.errors import PlanError
from lowkey.privacy.accounting import gaussian_epsilon, second_opinion
from lowkey.privacy.guarantee import OUTSIDE, Guarantee
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.plan import Line, Plan
from lowkey.privacy.price import at_most
from lowkey.report.attack import describe_attack
from lowkey.report.contents import Accountant, AuditedReport, Point, Post, PrivacyReport
from lowkey.report.questions import questions, registry_entry

RULES_IN_WORDS = {
    "factors": "A score is an item's own level plus the match of the item's factors with the user's factors, which the "
    "user's own device computes from the user's own history.",
    "item-weights": "A score is a weighted sum over the items of a user's own history; the weights between items are "
    "released.",
    "signs": "A score is the chance of a like, from the match of the item's factors with the user's factors, which the "
    "user's own device computes from the user's own likes and dislikes.",
    "replay": "A user's own device repeats the training steps on the user's own history; the released directions and step "
    "lengths are those of the training.",
    "projection": "A user's own device projects the user's own history on the released directions between items.",
}
NOT_COVERED = (
    "The facts listed as public: they are assumed to be known anyway, whoever is in the data.",
    "A user's own recommendations: they are made from that user's history, and whoever sees them may learn about it.",
    "What the release teaches about people in general: a habit that most share is learnt with or without any one of them.",
    "Other releases about the same people that are not on this ledger: they add to the cost.",
)
GENERAL_CAVEATS = (
    "The guarantee holds if the listed facts and all hyper-parameters were chosen without looking at these data.",
    "Two people together are protected less than one: a group of k pays up to k times mu.",
)


def build_report(facts: Mapping[str, Any], ledger: Ledger) -> PrivacyReport:
    """``facts`` are those of the manifest. Fails if a field would be empty or infinite."""
    guarantee = ledger.guarantee()
    unit = guarantee.unit
    posts = describe_posts(ledger, guarantee.delta)
    mechanisms = tuple(dict.fromkeys(post.mechanism for post in posts))
    domain = facts["domain"]
    report = PrivacyReport(
        title=f"Privacy report of a {facts['method']} release with {domain['n_items']:,} items",
        created=facts["created"],
        method=facts["method"],
        what_it_is=RULES_IN_WORDS.get(facts["rule"], f"A model with the rule {facts['rule']!r}."),
        statement=guarantee.sentence(),
        unit=unit.name,
        protected=unit.protected,
        unit_in_words=unit.in_words,
        adjacency=unit.neighbours,
        adjacency_in_words=unit.compared,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        mu=guarantee.mu,
        trust_model=guarantee.trust,
        public=guarantee.public,
        withheld=unit.withheld,
        not_covered=(*NOT_COVERED, *OUTSIDE),
        caveats=(*guarantee.caveats, *GENERAL_CAVEATS),
        posts=posts,
        fits=tuple(_fit_in_words(plan) for plan in ledger.plans()),
        budget=_budget_in_words(ledger, guarantee),
        curve=epsilon_delta_curve(ledger),
        attack=describe_attack(guarantee),
        accountants=accountants(ledger, guarantee),
        questions=questions(guarantee, mechanisms, facts),
        registry_entry=registry_entry(guarantee, mechanisms, facts),
        domain={name: "not given" if value is None else value for name, value in domain.items()},
        settings={"rule": facts["rule"], **{name: str(value) for name, value in facts["settings"].items()}},
        software=dict(facts["software"]),
        ledger_head=ledger.head,
    )
    return report if "audit" not in facts else AuditedReport(**dict(report), audit=tuple(map(str, facts["audit"])))


def describe_posts(ledger: Ledger, delta: float) -> tuple[Post, ...]:
    """The posts of a ledger, those of one kind together, each with its share of the budget."""
    plans, counts = [], {}
    for record in ledger.records:
        if record["kind"] == "plan":
            plans.append(Plan.from_json(record["plan"]))
        elif record["kind"] == "reserve":
            line = Line.from_json(record["line"])
            # Fits of several processes may take turns on one ledger: a post belongs to the last fit that planned it.
            owner = next((i for i in reversed(range(len(plans))) if _plans(plans[i], line)), len(plans) - 1)
            counts[owner, line] = counts.get((owner, line), 0) + 1
    weights = _weights([line for (_, line), count in counts.items() for _ in range(count)], delta)
    return tuple(
        Post(
            fit=plans[owner].method,
            name=line.name,
            posts=count,
            numbers_each=line.size,
            mechanism=line.mechanism.kind,
            noise=line.mechanism.in_words,
            share=count * weights[line],
            note=line.note or "a sum of bounded contributions",
        )
        for (owner, line), count in counts.items()
    )


def accountants(ledger: Ledger, guarantee: Guarantee) -> tuple[Accountant, ...]:
    """Epsilon from the ledger twice, by different roads."""
    lines = ledger.spent()
    left = guarantee.delta - sum(line.mechanism.own_delta for line in lines)
    pure = [epsilon for line in lines if (epsilon := line.mechanism.epsilon) > 0.0]
    other = second_opinion(guarantee.mu, pure, left)
    return (
        Accountant(
            name="lowkey",
            how="exact Gaussian composition in closed form, plus the resolution of the sampler; this is the stated epsilon",
            epsilon=guarantee.epsilon,
        ),
        Accountant(
            name="dp_accounting",
            how="discretised privacy loss distribution, rounded up"
            if not pure
            else "Rényi accountant: an upper bound that is not tight here",
            epsilon=other,
        ),
    )


def epsilon_delta_curve(ledger: Ledger) -> tuple[Point, ...]:
    """The (epsilon, delta) pairs that all hold at once, for delta from 1e-12 to 1e-2."""
    points = []
    for exponent in range(-48, -7):
        delta = 10.0 ** (exponent / 4.0)
        try:
            epsilon = ledger.price(delta).epsilon
        except PlanError:
            continue  # below the delta of a private selection there is no epsilon
        if math.isfinite(epsilon):
            points.append(Point(epsilon=epsilon, delta=delta))
    return tuple(points)


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


def _fit_in_words(plan: Plan) -> str:
    price = plan.price
    posts = sum(line.times for line in plan.lines)
    return f"{plan.method}: {posts} {'post' if posts == 1 else 'posts'}, epsilon {at_most(price.epsilon, 4)} by itself"


def _budget_in_words(ledger: Ledger, guarantee: Guarantee) -> str:
    if ledger.total is None:
        return "No total was set for these people: a further release on them is a decision of the curator, and adds up."
    epsilon, delta = ledger.total
    return (
        f"All releases on these people together may cost epsilon {epsilon:g} at delta {delta:g}; "
        f"{at_most(guarantee.epsilon, 4)} of it is spent."
    )
