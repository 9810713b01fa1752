"""One hostile input in a process of its own: how it ended, how long it took, how much memory it had, what was said.

The process is forked, so that nothing is imported twice. More than 10 seconds is a fault, by the processor and, where the
fuzzers run in full, by the clock (else a minute: tests run beside others). So is more than 1 GB above what the tests had
loaded before.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lowkey.errors import LowkeyError

SECONDS, MEGABYTES, ROOM = 10, 1000, 4 << 30
CLOCK = SECONDS if "LOWKEY_FUZZ" in os.environ else 60
Figures = Callable[[str, object], None]  # pytest's record_property: what is printed at the end of a run
FINE, REFUSED, UNEXPECTED = "fine", "refused", "unexpected"


@dataclass(frozen=True)
class Trial:
    how: str  # fine, refused, unexpected, or what ended it
    said: str
    seconds: float  # of the processor
    clock: float
    megabytes: float

    def faults(self, private: Iterable[str] = ()) -> list[str]:
        found = [] if self.how in (FINE, REFUSED) else [f"{self.how}: {self.said[-2000:]}"]
        found += ["too slow"] if self.seconds > SECONDS or self.clock > CLOCK else []
        found += ["too much memory"] if self.megabytes > MEGABYTES else []
        return found + [f"it says {text!r}: {self.said[:500]}" for text in private if text in self.said]


def attempt(call: Callable[[], Any]) -> Trial:
    """``call`` in a child; what it returns, or what its exception says, is its last word."""
    reading, writing = os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                json.dump([memory(1), *_inside(call)], out)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    ended = "hang" if code == -signal.SIGALRM else f"ended with {code}"
    resident, how, said = json.loads(text) if text else (0.0, ended, "")  # resident: before the call
    seconds, clock = usage.ru_utime + usage.ru_stime, time.monotonic() - begun
    return Trial(how, said, seconds, clock, usage.ru_maxrss / 1024 - resident)


def memory(column: int) -> float:
    """Of this process, in megabytes: 1 is what is resident, 5 what is allocated."""
    return int(Path("/proc/self/statm").read_text().split()[column]) * resource.getpagesize() / 2**20


def _inside(call: Callable[[], Any]) -> tuple[str, str]:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends a process even inside compiled code
    signal.alarm(CLOCK)
    room = (int(memory(5)) << 20) + ROOM
    resource.setrlimit(resource.RLIMIT_DATA, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            how, said = FINE, str(call())
        except LowkeyError as error:
            how = UNEXPECTED if "unexpected" in error.got else REFUSED
            said = words_of(error)
        except BaseException as error:  # a panic of a library below is no Exception
            how, said = UNEXPECTED, words_of(error) + "".join(traceback.format_exception(error))
    signal.alarm(0)
    return how, said + "".join(str(warning.message) for warning in caught)


def words_of(error: BaseException) -> str:
    """Everything that a log could show of an exception and of those behind it."""
    seen, said = [error], ""
    for link in seen:
        said += f"{link} {link!r} {link.args!r} {vars(link)} {getattr(link, '__notes__', '')}\n"
        seen += [chained for chained in (link.__cause__, link.__context__) if chained is not None]
    return said


@dataclass
class Tally:
    """Many trials, for people."""

    of: str
    ended: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    longest: float = 0.0
    largest: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    def add(self, trial: Trial) -> Trial:
        self.ended[trial.how] += 1
        self.slowest, self.longest = max(self.slowest, trial.seconds), max(self.longest, trial.clock)
        self.largest = max(self.largest, trial.megabytes)
        return trial

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {how}" for how, count in sorted(self.ended.items()))
        return (
            f"{self.ended.total()} {self.of}: {ended}; the slowest took {self.slowest:.2f} s of processor time, or "
            f"{self.longest:.2f} s by the clock, the largest {self.largest:.0f} MB, all of them "
            f"{time.monotonic() - self.begun:.0f} s"
        )
