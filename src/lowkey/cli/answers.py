"""Public room: `lowkey release --init`: asks for what only the curator can say of a release."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.report.about import FIELDS, template


def ask(path: Path, screen: Screen) -> None:
    """A file of answers: asked one by one at a terminal, else empty, to be filled in."""
    if path.exists():
        o.refuse("--init", got=f"{path}, which exists", needed="a new file", try_="--about another.toml")
    answers = dict[str, str]()
    if sys.stdin.isatty():
        screen.say("Each answer is published with the release. Enter leaves one out.")
        answers = {name: typer.prompt(question, default="", show_default=False) for name, question in FIELDS.items()}
    path.write_text(template(answers), "utf-8")
    screen.say(f"Wrote {path}. Look it over, then: lowkey release … --about {path}")
    screen.result({"about": str(path)})
