"""Vault room: errors across Spark: what an executor refuses is said on the driver in the same words, and nothing else is.

Spark sends the whole text of a failed task to the driver and to its logs, and the libraries in a task quote cells. So a
task raises only errors of ours, which hold no value, written as JSON; whatever else happens in it keeps its kind alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from lowkey.errors import InputError, LowkeyError

Result = TypeVar("Result")
MARK = "lowkey refused: "


class TaskError(RuntimeError):
    """What a task raises: MARK and the four parts of an error."""


@dataclass(frozen=True)
class on_executor:
    """A function for mapInArrow whose errors quote nobody's data."""

    task: Callable[[Iterator[Any]], Iterator[Any]]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        words = None
        try:
            yield from self.task(batches)
        except LowkeyError as error:
            words = in_words(error)
        except MemoryError:
            raise
        except Exception as error:
            got = f"an unexpected {type(error).__name__} in a task"
            words = in_words(
                InputError(what="a pass on Spark", got=got, needed="none", try_="the same on public data here")
            )
        if words is not None:  # outside the handler, so that the original is not attached
            raise TaskError(f"{MARK}{words}\n")


def on_driver(job: Callable[[], Result]) -> Result:
    """Run a Spark job; if it fails, say why in our words, with nothing of Spark's text attached."""
    failure: LowkeyError
    try:
        return job()
    except LowkeyError:
        raise
    except Exception as error:
        failure = _translated(str(error), type(error).__name__)
    raise failure


def in_words(error: LowkeyError) -> str:
    """An error of ours as one line of text."""
    return json.dumps([error.what, error.got, error.needed, error.try_])


def from_words(words: str) -> LowkeyError:
    what, got, needed, try_ = json.loads(words)
    return InputError(what=what, got=got, needed=needed, try_=try_)


def _translated(text: str, kind: str) -> LowkeyError:
    _, found, rest = text.partition(MARK)
    if found:
        return from_words(rest.splitlines()[0])
    return InputError(
        what="a Spark job",
        got=f"a failure of Spark ({kind}), whose text could quote private data",
        needed="a job that runs through",
        try_="a look into the cluster's own logs",
    )
