"""Public room: the report as a function of a release's facts and its ledger, so that anyone can compute it again."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from lowkey.errors import PlanError
from lowkey.privacy.accounting import second_opinion
from lowkey.privacy.guarantee import OUTSIDE, Guarantee, verdict
from lowkey.privacy.ledger import Ledger
from lowkey.privacy.price import at_most, percent
from lowkey.report.contents import (
    Accountant,
    Attack,
    AuditedReport,
    Detection,
    Point,
    PrivacyReport,
    describe_history,
    describe_posts,
    fits_in_words,
)
from lowkey.report.questions import by_the_curator, questions, registry_entry

RULES_IN_WORDS = {
    "factors": "A score is how much an item is liked at large, moved by how well it fits the user's own taste, which the "
    "user's own device computes from the user's own history.",
    "item-weights": "A score is a weighted sum over the items of a user's own history; the weights between items are "
    "released.",
    "lists": "A list is what many people take, moved by what goes together with the user's own history; how popular items "
    "are, and which go together, is released, and the list is made on the user's own device.",
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
ERASURE = (
    "Whoever asks for erasure is taken out of the raw data, and so out of every later release. This release stays as it "
    "is: it holds no row of anybody, and how much it can depend on {protected} is bounded by the promise above, whether "
    "they are in the raw data or not. Whoever asks for access gets what the raw data hold on them: nothing in this folder "
    "can be told to be theirs. Whether that is anonymous in the sense of a law is for the curator to judge, with this "
    "epsilon and delta."
)
IF_WRONG = (
    "Check the folder with lowkey verify and the curator's key or id; if a claim fails, do not use it, and tell the "
    "contact.",
    "If the noise, a bound or the ledger was wrong, what is published cannot be called back: the curator should say so, "
    "publish no more on this ledger, and treat what was released as if it had the smaller protection.",
    "If the ledger was lost, an older copy must not be used: it would spend the same budget twice.",
)
FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)
GENERAL_CAVEATS = (
    "The guarantee holds if the listed facts and all hyper-parameters were chosen without looking at these data.",
    "Two people together are protected less than one: a group of k pays up to k times mu.",
)


def build_report(facts: Mapping[str, Any], ledger: Ledger) -> PrivacyReport:
    """``facts`` are those of the manifest. Fails if a field would be empty or infinite."""
    guarantee = ledger.guarantee()
    unit = guarantee.unit
    delta, price = guarantee.price.delta, guarantee.price
    posts = describe_posts(ledger, delta)
    mechanisms = tuple(dict.fromkeys(post.mechanism for post in posts))
    domain, about = facts["domain"], facts.get("about", {})
    n_items = domain["n_items"]
    fits, history = fits_in_words(ledger.plans()), describe_history(ledger, delta)
    found, statement = verdict(price.epsilon, delta, domain.get("expected_users")), guarantee.sentence()
    report = PrivacyReport(
        title=f"Privacy report: {about.get('product', f'a recommender for {n_items:,} items')}",
        reference=_reference(facts),
        created=facts["created"],
        verdict=found.text,
        verdict_level=found.level,
        verdict_good=found.good,
        method=facts["method"],
        what_it_is=RULES_IN_WORDS.get(facts["rule"], f"A model with the rule {facts['rule']!r}."),
        statement=statement,
        unit=unit.name,
        protected=unit.protected,
        unit_in_words=unit.in_words,
        adjacency=unit.neighbours,
        adjacency_in_words=unit.compared,
        epsilon=price.epsilon,
        delta=delta,
        mu=price.mu,
        trust_model=guarantee.trust,
        public=guarantee.public,
        withheld=unit.withheld,
        not_covered=(*NOT_COVERED, *OUTSIDE),
        caveats=(*guarantee.caveats, *GENERAL_CAVEATS),
        erasure=ERASURE.format(protected=unit.protected),
        if_wrong=IF_WRONG,
        posts=posts,
        fits=fits,
        history=history,
        budget=_budget_in_words(ledger, guarantee),
        curve=epsilon_delta_curve(ledger),
        attack=describe_attack(guarantee),
        accountants=accountants(ledger, guarantee),
        about=by_the_curator(about),
        questions=questions(guarantee, mechanisms, facts),
        registry_entry=registry_entry(guarantee, mechanisms, facts),
        domain={name: "not given" if value is None else value for name, value in domain.items()},
        settings={"rule": facts["rule"], **{name: str(value) for name, value in facts["settings"].items()}},
        software=dict(facts["software"]),
        ledger_head=ledger.head,
    )
    return report if "audit" not in facts else AuditedReport(**dict(report), audit=tuple(map(str, facts["audit"])))


def accountants(ledger: Ledger, guarantee: Guarantee) -> tuple[Accountant, ...]:
    """Epsilon from the ledger twice, by different roads."""
    lines = ledger.spent()
    left = guarantee.price.delta - sum(line.mechanism.own_delta for line in lines)
    pure = [epsilon for line in lines if (epsilon := line.mechanism.epsilon) > 0.0]
    other = second_opinion(guarantee.price.mu, pure, left)
    return (
        Accountant(
            name="lowkey",
            how="exact Gaussian composition in closed form, plus the resolution of the sampler; this is the stated epsilon",
            epsilon=guarantee.price.epsilon,
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


def _reference(facts: Mapping[str, Any]) -> str:
    """A name for the release that can stand inside it: of everything but the files, whose hashes follow from the report."""
    known = {name: value for name, value in facts.items() if name not in ("files", "id")}
    text = json.dumps(known, sort_keys=True, ensure_ascii=False)
    return f"{facts['created']}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _budget_in_words(ledger: Ledger, guarantee: Guarantee) -> str:
    if ledger.total is None:
        return "No total was set for these people: a further release on them is a decision of the curator, and adds up."
    epsilon, delta = ledger.total
    return (
        f"All releases on these people together may cost epsilon {epsilon:g} at delta {delta:g}; "
        f"{at_most(guarantee.price.epsilon, 4)} of it is spent."
    )


def describe_attack(guarantee: Guarantee) -> Attack:
    """At best, by one who knows everything except which of two neighbouring data sets was used, and tests for it."""
    price, unit = guarantee.price, guarantee.unit
    wrong, found = unit.accused
    words = (
        f"{unit.coin}. An attacker who sees the release and knows everything else, even all the other data, guesses at "
        f"most {percent(price.best_guess)} of them right on average; tossing the coin again gets 50 %. If the attacker may "
        f"falsely accuse 5 % of {wrong}, at most {percent(price.detected(0.05))} of {found} are found; accusing at random "
        "would find 5 %."
    )
    return Attack(
        best_success=price.best_guess,
        in_words=words,
        detections=tuple(Detection(false_alarms=a, detected=price.detected(a)) for a in FALSE_ALARMS),
        trade_off=price.trade_off,
        gaussian=price.gaussian,
        own_delta=price.own_delta,
        slack=price.slack,
    )
