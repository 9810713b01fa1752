"""Public room: what only the curator can say of a release: from a small file into the report, and hashed with it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowkey.errors import printable, refuse

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
