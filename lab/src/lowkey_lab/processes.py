"""Lab room: each call in a process of its own: its peak memory is its own, and several run at once.

The process is forked, so large arguments are shared and not copied. The parent must not have run a parallel kernel:
GNU OpenMP does not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import resource
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any


def each(call: Callable[[Any], Any], arguments: Iterable[Any], jobs: int = 1) -> Iterator[tuple[Any, Any]]:
    """Pairs of argument and ``call(argument)`` in the order in which they end; what a call raises is raised here."""
    fork = multiprocessing.get_context("fork")
    waiting = deque(arguments)
    running: dict[Connection, tuple[Any, Any]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                argument = waiting.popleft()
                here, there = fork.Pipe(duplex=False)
                process = fork.Process(target=_answer, args=(there, call, argument))
                process.start()
                there.close()
                running[here] = process, argument
            for here in wait(list(running)):
                assert isinstance(here, Connection)
                process, argument = running.pop(here)
                yield argument, _received(here, process)
    finally:
        for process, _ in running.values():
            process.terminate()


def forget_peak() -> None:
    """Let ``peak_memory`` start from what is held now; where the kernel does not offer it, nothing happens."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Bytes: the most that this process has held since it was forked or ``forget_peak`` was called."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _answer(there: Connection, call: Callable[[Any], Any], argument: Any) -> None:
    try:
        there.send((True, call(argument)))
    except Exception as error:
        there.send((False, error))


def _received(here: Connection, process: Any) -> Any:
    try:
        fine, answer = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"a process ended with code {process.exitcode} and no answer (out of memory?)") from None
    process.join()
    if not fine:
        raise answer
    return answer
