"""Public room: how far a fit is: releases made, of those planned, and the time left. No loss: that would be private.

Only the clock and the plan are looked at; a plan is public, and so is when a release was made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:  # a command's bar needs the clock alone, and --help must not wait for more
    from lowkey.privacy.billboard import Billboard


class Step(NamedTuple):
    """A release was just made: its name, how many of the plan's there were so far, and the seconds spent and left."""

    name: str
    done: int
    planned: int
    seconds: float
    seconds_left: float

    def __str__(self) -> str:
        return f"{self.name}, {self.done} of {self.planned} releases, about {clock(self.seconds_left)} left"


@contextmanager
def watched(billboard: Billboard, method: str, progress: Literal[True] | Callable[[Step], Any]) -> Generator[None]:
    """Tell of every post made on ``billboard`` meanwhile: to ``progress``, or in one line on the terminal."""
    if billboard.plan is None:
        yield
        return
    planned, started, done = sum(line.times for line in billboard.plan.lines), time.perf_counter(), 0
    before = billboard.on_post
    with _terminal(method) if progress is True else nullcontext(progress) as tell:

        def on_post(name: str) -> None:
            nonlocal done
            done += 1
            seconds = time.perf_counter() - started
            tell(Step(name, done, planned, seconds, time_left(seconds, done, planned)))
            if before is not None:
                before(name)

        billboard.on_post = on_post
        try:
            yield
        finally:
            billboard.on_post = before


@contextmanager
def _terminal(method: str) -> Generator[Callable[[Step], Any]]:
    """A line on standard error that is written anew at every step; nothing where that is no terminal."""
    from rich.console import Console

    with Console(stderr=True).status(f"{method}: the first pass") as line:
        yield lambda step: line.update(f"{method}: {step}")


def time_left(seconds: float, done: int, planned: int) -> float:
    """If the rest takes as long as what is done: nothing more is known of it."""
    return seconds * max(planned - done, 0) / done


def clock(seconds: float) -> str:
    """Whole seconds below two minutes, else whole minutes."""
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"
