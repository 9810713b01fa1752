"""Local room: the release that is being served, and its exchange for another one between two answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lowkey.model import Model

EXACT = 2**53  # whole numbers above it are not themselves in JavaScript


@dataclass(frozen=True)
class Served:
    """One release, checked and in memory: nothing of its folder is read again."""

    id: str
    model: Model
    report: Mapping[str, Any]
    files: Mapping[str, bytes]  # the page and what stands beside it, by name

    def ids(self, found: Any) -> list[Any]:
        """Item ids for JSON."""
        values = np.asarray(found).tolist()
        return [str(value) if isinstance(value, int) and abs(value) >= EXACT else value for value in values]


class Current:
    """What is served now. A request takes ``served`` once and answers from it alone, whatever is exchanged meanwhile."""

    def __init__(self, served: Served, name: str = "lowkey") -> None:
        self.served, self.name = served, name
        self.draining = False
        self.swaps = {"done": 0, "refused": 0}

    def swap(self, served: Served) -> None:
        self.served = served  # one reference: whoever has the old one keeps it
        self.swaps["done"] += 1

    def keep(self) -> None:
        """A folder was refused; the release at hand goes on."""
        self.swaps["refused"] += 1
