"""Shared by all tests: where the tables live, how hypothesis behaves, and noise that is the same in every run.

A suite that draws fresh noise fails now and then for no fault of the code. So each test gets its own fixed stream, made
from its name and ``LOWKEY_TEST_SEED`` (default 0); ``LOWKEY_TEST_SEED=random`` brings back the operating system's
entropy and fresh hypothesis examples. Programs that a test starts as processes of their own always draw fresh noise.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lowkey.privacy import noise

SEED = os.environ.get("LOWKEY_TEST_SEED", "0")
SPARK_TESTS = ("test_spark.py", "test_engines_agree.py", "test_local_cluster.py")

# The table of estimators and the harness are plain modules that several folders of tests import.
for folder in ("conformance", "privacy", "web", "serve", "unit/release", "hostile"):
    sys.path.insert(0, str(Path(__file__).parent / "tests" / folder))

# Compilation by numba makes the first example slow; an example that fails is printed with what reproduces it.
settings.register_profile("lowkey", deadline=None, print_blob=True, derandomize=SEED != "random")
settings.load_profile("lowkey")


class NamedKeys:
    """Stands in for ``secrets``: the n-th key of a test, or of a fixture that several tests share, follows from its name.

    A forked child mixes in its process id, as it must not repeat its parent's keys.
    """

    def __init__(self) -> None:
        self.name, self.count, self.process = "collection", 0, os.getpid()

    def randbits(self, n: int) -> int:
        child = "" if os.getpid() == self.process else os.getpid()
        self.count += 1
        digest = hashlib.sha256(f"{SEED}|{self.name}|{self.count}|{child}".encode()).digest()
        return int.from_bytes(digest, "big") >> (256 - n)

    def under(self, name: str) -> Iterator[None]:
        outer = self.name, self.count
        self.name, self.count = name, 0
        yield
        self.name, self.count = outer


KEYS = NamedKeys()
if SEED != "random":
    noise.secrets = KEYS  # type: ignore[assignment]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    yield from KEYS.under(item.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef, request: pytest.FixtureRequest) -> Iterator[None]:
    if fixturedef.scope == "function":
        yield
    else:
        yield from KEYS.under(f"{fixturedef.baseid}|{fixturedef.argname}|{request.param_index}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests that need a Spark session in one process, as starting one is dear; the others wherever there is room.

    (The groups of ``--dist loadgroup`` are silently lost with pytest 9.2: pytest-dev/pytest-xdist#1386.)
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSession(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.partition("::")[0].endswith(SPARK_TESTS) else nodeid

    return OneSession(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What tests measured, by ``record_property("figures", text)``: printed by every run, in however many processes."""
    calls = [r for reports in terminalreporter.stats.values() for r in reports if getattr(r, "when", None) == "call"]
    figures = [text for report in calls for name, text in report.user_properties if name == "figures"]
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(figures))
