"""Shared by all tests: where the tables live, and how hypothesis behaves."""

import sys
from pathlib import Path

from hypothesis import settings

# The table of estimators and the harness are plain modules that several folders of tests import.
for folder in ("conformance", "privacy"):
    sys.path.insert(0, str(Path(__file__).parent / folder))

# Compilation by numba makes the first example slow; an example that fails is printed with what reproduces it.
settings.register_profile("lowkey", deadline=None, print_blob=True)
settings.load_profile("lowkey")
