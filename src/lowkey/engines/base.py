"""Vault room: the engine's one verb."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from lowkey.kernels.sweep import Public, Sweep
from lowkey.privacy.sums import Statistic, Unreleased

EXACT = 2**53  # float64 holds every integer up to here


class Engine(ABC):
    """Runs sweeps over private data. What it returns is closed; nothing else leaves it."""

    @abstractmethod
    def sweep(
        self, sweep: Sweep, data: Any, local: Any = None, public: Public | None = None
    ) -> tuple[dict[str, Unreleased], Any]:
        """One pass over all users: the closed sums by name, and the users' new local state, closed too."""


def block_users(statistics: tuple[Statistic, ...], wanted: int) -> int:
    """How many users a block may hold so that its float64 partial sums are exact. Public."""
    return max(1, min([wanted, *(EXACT // max(1, s.peak_units) for s in statistics)]))
