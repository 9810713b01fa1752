"""Public room: what a privacy officer asks, with answers from the ledger.

The topics follow the pyramid of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees, 2025), and
the entry the fields of public registries of differential-privacy deployments. What only the curator can know is in both as
far as the curator has said it (about.py); the report names once what was left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowkey.privacy.guarantee import OUTSIDE, Guarantee
from lowkey.privacy.price import at_most
from lowkey.report.contents import Question


def questions(guarantee: Guarantee, mechanisms: Sequence[str], facts: Mapping[str, Any]) -> tuple[Question, ...]:
    """The questions of NIST SP 800-226, from the top of its pyramid to the bottom."""
    asked = (*_about_the_promise(guarantee, mechanisms), *_about_the_setting(guarantee, facts.get("about", {})))
    return tuple(Question(topic=topic, question=question, answer=answer) for topic, question, answer in asked if answer)


def _about_the_promise(guarantee: Guarantee, mechanisms: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    unit = guarantee.unit
    return (
        (
            "Privacy parameters",
            "Which epsilon and delta, and is there a total over time?",
            f"epsilon {at_most(guarantee.epsilon)} and delta {guarantee.delta:g}, for every post on the ledger together. "
            "What is not on this ledger is not in this number.",
        ),
        (
            "Unit of privacy",
            "Whose data is hidden: a person's, or one event's?",
            f"{unit.protected.capitalize()}: {unit.in_words}. The promise compares {unit.compared}.",
        ),
        (
            "Definition",
            "Which variant of differential privacy?",
            f"(epsilon, delta)-differential privacy, {guarantee.adjacency}, from Gaussian differential privacy with "
            f"mu {at_most(guarantee.mu)}; the curve above gives every other (epsilon, delta) that holds too.",
        ),
        (
            "Algorithms",
            "Which mechanisms, and are their sensitivities bounded for every data set?",
            f"{', '.join(mechanisms)}. What {unit.protected} can change is clipped to a public bound before it is summed, "
            "whatever the data are; sums are exact integers on a public grid and the noise is rounded to that grid.",
        ),
        (
            "Utility and bias",
            "Who is served worse because of the noise?",
            "Items with few ratings are drowned by the noise first, so people with rare tastes gain least. Quality was not "
            "measured on the private data: such a measurement would be a release of its own.",
        ),
    )


def _about_the_setting(guarantee: Guarantee, about: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    return (
        (
            "Correctness",
            "How is the implementation checked?",
            "All private sums leave through one function. Tests replay whole fits on neighbouring data sets against the "
            "declared sensitivities, and two accountants recompute epsilon from the ledger; the command "
            "lowkey verify repeats that.",
        ),
        (
            "Floating point and randomness",
            "Could the number format or the generator betray something?",
            "The noise is drawn as whole grid units from AES in counter mode, keyed by the operating system; the error of "
            "the sampler is bounded and included in epsilon and delta.",
        ),
        (
            "Side channels",
            "What can be seen besides the release?",
            OUTSIDE[0],
        ),
        (
            "Trust model",
            "Who is trusted with the raw data?",
            f"{guarantee.trust}.",
        ),
        ("Access control and security", "Who can reach the raw data, and how are they kept?", about.get("access", "")),
        (
            "Data collection",
            "Did people know and agree, and is no more collected than needed?",
            about.get("collection", ""),
        ),
        (
            "Public facts",
            "What was treated as public?",
            "; ".join(guarantee.public) + ".",
        ),
    )


def registry_entry(guarantee: Guarantee, mechanisms: Sequence[str], facts: Mapping[str, Any]) -> dict[str, str]:
    """An entry for a public registry of deployments, as far as the software and the curator's words can fill it in."""
    about = facts.get("about", {})
    entry = {
        "name": about.get("product", f"{facts['method']} recommender"),
        "data curator": about.get("organisation", ""),
        "intended use": about.get("purpose", ""),
        "data set": about.get("data_set", ""),
        "publication date": facts["created"],
        "data product": f"the item side of a recommender for {facts['domain']['n_items']} items, and its ledger",
        "access": "static release; anybody may compute anything from it",
        "privacy definition": f"(epsilon, delta)-differential privacy, {guarantee.adjacency}",
        "privacy unit": f"{guarantee.unit.protected}: {guarantee.unit.in_words}",
        "privacy parameters": f"epsilon {at_most(guarantee.epsilon)}, delta {guarantee.delta:g}, "
        f"mu {at_most(guarantee.mu)}",
        "parameter justification": about.get("why_epsilon", ""),
        "trust model": guarantee.trust,
        "mechanisms": ", ".join(mechanisms),
        "accounting": "exact Gaussian composition; checked with dp_accounting",
        "post-processing": "the model's arrays are computed from the noisy sums alone",
        "implementation": f"lowkey {facts['lowkey']}, open source, Apache-2.0",
        "how to check": "lowkey verify, on the release folder, without the data",
    }
    return {name: text for name, text in entry.items() if text}
