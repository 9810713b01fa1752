"""Try every mutant of the catalogue, and say which test kills it: ``make mutants``.

First the tests that the mutants name are run on the clean tree, where all must pass. Then each mutant is put into a clone,
and its own tests are run up to the first that fails. If none does, a wider set of privacy tests has its turn (not with
``--narrow``); a test from there kills only if it passes without the mutant.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from catalogue import BUGS, Mutant, Stale, load
from rich.console import Console
from rich.progress import Progress
from workshop import NoVerdict, Outcome, Workshop

ROOT = Path(__file__).parents[2]
LEAST = 0.95  # of the mutants must die
# What takes a cluster, or minutes for nothing that the others do not see.
NOT_WIDER = {"test_spark.py", "test_engines_agree.py", "test_seeded_bugs.py"}


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    killer: str | None  # the test, or None for a survivor
    words: str
    seconds: float

    def __str__(self) -> str:
        fate = "SURVIVES " + self.words if self.killer is None else f"killed by {self.killer.removeprefix('tests/')}"
        return f"{self.mutant.kind:<15}{self.mutant.name:<34}{self.seconds:>6.0f} s  {fate}"


def wider_tests(root: Path) -> tuple[str, ...]:
    files = [file for folder in ("privacy", "property") for file in sorted((root / "tests" / folder).glob("test_*.py"))]
    return tuple(str(file.relative_to(root)) for file in files if file.name not in NOT_WIDER)


def try_mutant(workshop: Workshop, mutant: Mutant, wider: bool) -> Verdict:
    begin, killer, words = time.monotonic(), None, ""
    try:
        with workshop.clone(mutant) as tree:
            outcome = workshop.run(tree, mutant.tests)
            if outcome.failed is None and wider:
                outcome = workshop.run(tree, wider_tests(workshop.clean))
                if outcome.failed is not None and workshop.run(workshop.clean, (outcome.failed,)).failed is not None:
                    raise NoVerdict(f"{outcome.failed} fails without the mutant too")
        killer, words = outcome.failed, outcome.words
    except NoVerdict as error:
        words = f"(no verdict: {error})"
    return Verdict(mutant, killer, words, time.monotonic() - begin)


def try_all(workshop: Workshop, mutants: list[Mutant], *, jobs: int, wider: bool, console: Console) -> list[Verdict]:
    verdicts: list[Verdict] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("mutants", total=len(mutants))
        pool = ThreadPoolExecutor(jobs)
        try:
            trials: list[Future[Verdict]] = [pool.submit(try_mutant, workshop, mutant, wider) for mutant in mutants]
            for trial in as_completed(trials):
                verdicts.append(trial.result())
                console.print(str(verdicts[-1]), markup=False, highlight=False, soft_wrap=True)
                progress.advance(bar)
        except BaseException:  # told to end: nothing new begins, what runs is ended, and the folder goes
            pool.shutdown(wait=False, cancel_futures=True)
            workshop.stop()
            raise
        finally:
            pool.shutdown()
    return verdicts


def chosen(options: argparse.Namespace) -> list[Mutant]:
    mutants = load(options.bugs)
    if options.only:
        mutants = [mutant for mutant in mutants if options.only in (mutant.name, mutant.kind)]
    if options.sample and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    return mutants


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Seeded privacy bugs, and the tests that find them.")
    parser.add_argument("--only", help="one mutant, or one class of them, by name")
    parser.add_argument("--sample", type=int, default=0, help="so many of them, drawn by --seed")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at the same time")
    parser.add_argument("--narrow", action="store_true", help="the tests that a mutant names, no others")
    parser.add_argument("--list", action="store_true", help="list the mutants, try none")
    parser.add_argument("--time-limit", type=float, default=900.0, help="seconds for one run of tests")
    parser.add_argument("--bugs", type=Path, default=BUGS, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the workshop is closed
    options, begin = parsed(arguments), time.monotonic()
    console, mutants = Console(), chosen(options)
    if not mutants:
        console.print(f"No mutant and no class of mutants is called {options.only}.")
        return 2
    if options.list:
        for mutant in mutants:
            console.print(f"{mutant.kind:<15}{mutant.name:<34}{mutant.bug}", markup=False, highlight=False, soft_wrap=True)
        return 0
    try:
        for mutant in mutants:
            mutant.check(options.root)
    except Stale as error:
        console.print(f"STALE {error}. Write it anew for the code as it is now.", markup=False, soft_wrap=True)
        return 2
    with Workshop(options.root, options.time_limit) as workshop:
        tests = tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        with console.status(f"{len(tests)} tests and files of tests on the clean tree"):
            try:
                clean = workshop.run(workshop.clean, tests)
            except NoVerdict as error:
                clean = Outcome("something", str(error), 0.0)
        if clean.failed is not None:
            console.print(f"{clean.failed} fails without any mutant: {clean.words}", markup=False, soft_wrap=True)
            return 2
        console.print(f"The tests of {len(mutants)} mutants pass without them ({clean.seconds:.0f} s).", highlight=False)
        verdicts = try_all(workshop, mutants, jobs=options.jobs, wider=not options.narrow, console=console)
    killed = sum(verdict.killer is not None for verdict in verdicts)
    survivors = ", ".join(sorted(verdict.mutant.name for verdict in verdicts if verdict.killer is None)) or "none"
    for kind in dict.fromkeys(verdict.mutant.kind for verdict in verdicts):
        of_kind = [verdict.killer is not None for verdict in verdicts if verdict.mutant.kind == kind]
        console.print(f"{kind:<15}{sum(of_kind):>4} of {len(of_kind)} killed", highlight=False)
    share, minutes = killed / len(verdicts), (time.monotonic() - begin) / 60
    console.print(f"{killed} of {len(verdicts)} killed ({share:.1%}) in {minutes:.1f} minutes. Survivors: {survivors}.")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
