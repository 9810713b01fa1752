"""Public room: what a command prints. Text and progress for people, or one JSON object for programs, or nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from lowkey.errors import printable
from lowkey.methods.progress import clock, time_left


class Screen:
    """Results go to standard output; progress goes to standard error, and only to a terminal. NO_COLOR is heard."""

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.out = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
        self.err = Console(stderr=True, highlight=False, emoji=False)

    def say(self, text: str = "", style: str | None = None) -> None:
        """A line for people."""
        if not self.quiet and not self.as_json:
            self.out.print(printable(text, keep="\n"), style=style)

    def result(self, fields: dict[str, Any]) -> None:
        """The outcome for programs."""
        if self.as_json:
            text = json.dumps(fields, ensure_ascii=False)
            self.out.print("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text), soft_wrap=True)

    def table(self, title: str, columns: list[str], rows: list[list[str]]) -> None:
        if self.quiet or self.as_json:
            return
        table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for i, column in enumerate(columns):
            table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(printable, row))
        self.out.print(table)

    @contextmanager
    def working(self, what: str, total: int | None = None) -> Generator[Any]:
        """A progress bar with the time left, or a spinner where there is nothing to count; yields ``advance``.

        ``advance()`` is one step further; ``advance(0.3)`` says that three tenths are done.
        """
        if self.quiet or self.as_json:
            yield lambda *_: None
            return
        count = TextColumn("{task.completed:.0f}/{task.total:.0f}{task.fields[left]}")
        bar = [BarColumn(bar_width=24), count] if total else []
        with Progress(
            SpinnerColumn(), TextColumn("{task.description}"), *bar, TimeElapsedColumn(), console=self.err
        ) as progress:
            task, started, steps = progress.add_task(what, total=total, left=""), time.perf_counter(), 0

            def advance(done: float | None = None) -> None:
                nonlocal steps
                if done is None:
                    steps += 1
                    left = time_left(time.perf_counter() - started, steps, total or steps)
                    progress.update(task, advance=1, left=f", about {clock(left)} left")
                else:
                    progress.update(task, description=f"{what} ({done:.0%})")

            yield advance
