"""A release asks once: settings are resolved a single time, the budget is turned into mu at most twice, and its way through
the source does not grow unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowkey.privacy.gaussian import gaussian_mu
from lowkey_lab.walk import returns, walk, write_data


def test_a_release_resolves_its_settings_once(tmp_path: Path) -> None:
    write_data(tmp_path)
    gaussian_mu.cache_clear()  # what was remembered is not asked
    files, calls = walk("bias", tmp_path)
    assert calls["resolve"] == 1
    assert 1 <= calls["gaussian_mu"] <= 2
    assert {"cli/training.py", "methods/base.py", "privacy/billboard.py", "release/writing.py"} <= set(files)


def test_a_return_is_a_file_that_was_left_before() -> None:
    assert returns(["a", "a", "b", "a", "c", "b"]) == 2


@pytest.mark.parametrize(("method", "most_files", "most_returns"), [("factors", 63, 132), ("moments", 63, 137)])
def test_the_walk_of_a_release_does_not_grow(tmp_path: Path, method: str, most_files: int, most_returns: int) -> None:
    """What ``python -m lowkey_lab.walk`` prints: lower these numbers when it becomes shorter."""
    write_data(tmp_path)
    files, _ = walk(method, tmp_path)
    assert len(set(files)) <= most_files
    assert returns(files) <= most_returns
