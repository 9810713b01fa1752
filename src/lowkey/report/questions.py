"""Public room: what a privacy officer asks, with answers from the ledger and, in a small file, from the curator.

The topics follow the pyramid of NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees, 2025), and
the entry the fields of public registries of differential-privacy deployments. What only the curator can know is in both as
far as the curator has said it; it is hashed with the report, which names once what was left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowkey.errors import printable, refuse
from lowkey.privacy.guarantee import OUTSIDE, Guarantee
from lowkey.privacy.price import at_most
from lowkey.report.contents import Question


def questions(guarantee: Guarantee, mechanisms: Sequence[str], facts: Mapping[str, Any]) -> tuple[Question, ...]:
    """The questions of NIST SP 800-226, from the top of its pyramid to the bottom."""
    asked = (*_about_the_promise(guarantee, mechanisms), *_about_the_setting(guarantee, facts.get("about", {})))
    return tuple(Question(topic=topic, question=question, answer=answer) for topic, question, answer in asked if answer)


def _about_the_promise(guarantee: Guarantee, mechanisms: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    unit, price = guarantee.unit, guarantee.price
    return (
        (
            "Privacy parameters",
            "Which epsilon and delta, and is there a total over time?",
            f"epsilon {at_most(price.epsilon)} and delta {price.delta:g}, for every post on the ledger together. "
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
            f"(epsilon, delta)-differential privacy, {unit.neighbours}, from Gaussian differential privacy with "
            f"mu {at_most(price.mu)}; the curve above gives every other (epsilon, delta) that holds too.",
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
        "privacy definition": f"(epsilon, delta)-differential privacy, {guarantee.unit.neighbours}",
        "privacy unit": f"{guarantee.unit.protected}: {guarantee.unit.in_words}",
        "privacy parameters": f"epsilon {at_most(guarantee.price.epsilon)}, delta {guarantee.price.delta:g}, "
        f"mu {at_most(guarantee.price.mu)}",
        "parameter justification": about.get("why_epsilon", ""),
        "trust model": guarantee.trust,
        "mechanisms": ", ".join(mechanisms),
        "accounting": "exact Gaussian composition; checked with dp_accounting",
        "post-processing": "the model's arrays are computed from the noisy sums alone",
        "implementation": f"lowkey {facts['lowkey']}, open source, Apache-2.0",
        "how to check": "lowkey verify, on the release folder, without the data",
    }
    return {name: text for name, text in entry.items() if text}


FIELDS = {
    "product": "What is it called? (the title of the report)",
    "organisation": "Who publishes it, and answers for it?",
    "data_set": "Which data, about whom, from when to when?",
    "purpose": "What is it for?",
    "contact": "Where can people ask, complain, or report a fault?",
    "collection": "Did people know and agree, and is no more collected than needed?",
    "legal_basis": "On which legal basis are the data used?",
    "retention": "How long are the raw data kept, and when is the next release?",
    "access": "Who can reach the raw data, and how are they kept?",
    "why_epsilon": "Why this epsilon and this delta?",
    "columns": "Which columns were used? (by default those of the command)",
}
NOT_STATED = "not_stated"
MAX_FILE, MAX_ANSWER = 1 << 16, 2000


def read_about(path: Path) -> dict[str, str]:
    """The answers of a file; those that are left empty are not given."""
    try:
        content: dict[str, Any] = tomllib.loads(path.read_bytes()[:MAX_FILE].decode("utf-8"))
    except (OSError, ValueError):  # whatever a parser quotes is the curator's own; still, one line
        refuse("--about", got=f"{path}, which can't be read", needed="a file of TOML", try_="lowkey release --init")
    return checked_about(content)


def checked_about(content: Any) -> dict[str, str]:
    unknown = [str(name) for name in content if name not in FIELDS]
    if unknown:
        refuse("about", got=f"a field {printable(unknown[0])[:40]!r}", needed=", ".join(FIELDS), try_="one of those")
    for name, answer in content.items():
        if not isinstance(answer, str) or len(answer) > MAX_ANSWER:
            refuse("about", got=f"{name} that is no text, or long", needed=f"up to {MAX_ANSWER} letters", try_='"…"')
    plain = {name: printable(" ".join(answer.split())) for name, answer in content.items()}
    return {name: answer for name, answer in plain.items() if answer}


def by_the_curator(about: Mapping[str, str]) -> dict[str, str]:
    """The answers in the order of the questions, and in one line at their end what was not answered."""
    asked = [name for name in FIELDS if name != "product"]
    answers = {name: about[name] for name in asked if name in about}
    missing = ", ".join(name.replace("_", " ") for name in asked if name not in about)
    return {**answers, NOT_STATED: missing} if missing else answers


def template(answers: dict[str, str] | None = None) -> str:
    """A file to fill in; what stays empty is said to be the curator's to answer."""
    given = answers or {}
    text = ["# What only you can say of a release. It is published with it. Leave out what does not apply."]
    for name, question in FIELDS.items():
        answer = given.get(name, "").replace("\\", "\\\\").replace('"', '\\"')
        text += [f"\n# {question}", f'{name} = "{answer}"']
    return "\n".join(text) + "\n"
