"""Shared by all tests: where the tables live, how hypothesis behaves, and noise that is the same in every run.

A suite that draws fresh noise fails now and then for no fault of the code. So each test gets its own fixed stream, made
from its name and ``LOWKEY_TEST_SEED`` (default 0); ``LOWKEY_TEST_SEED=random`` brings back the operating system's
entropy and fresh hypothesis examples. Programs that a test starts as processes of their own always draw fresh noise.
"""

import hashlib
import itertools
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from lowkey.privacy import noise

SEED = os.environ.get("LOWKEY_TEST_SEED", "0")

# The table of estimators and the harness are plain modules that several folders of tests import.
for folder in ("conformance", "privacy"):
    sys.path.insert(0, str(Path(__file__).parent / folder))

# Compilation by numba makes the first example slow; an example that fails is printed with what reproduces it.
settings.register_profile("lowkey", deadline=None, print_blob=True, derandomize=SEED != "random")
settings.load_profile("lowkey")


@pytest.fixture(autouse=True)
def same_noise_in_every_run(request, monkeypatch):
    """Keys for the cipher from the test's name. A forked child mixes in its process id, as it must not repeat a key."""
    if SEED == "random":
        return
    count, parent = itertools.count(), os.getpid()

    def randbits(n: int) -> int:
        child = "" if os.getpid() == parent else os.getpid()
        digest = hashlib.sha256(f"{SEED}|{request.node.nodeid}|{next(count)}|{child}".encode()).digest()
        return int.from_bytes(digest, "big") >> (256 - n)

    monkeypatch.setattr(noise, "secrets", SimpleNamespace(randbits=randbits))
