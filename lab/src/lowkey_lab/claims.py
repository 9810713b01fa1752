"""Lab room: a paper's claim, what we measured beside it, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "does not hold", "cannot be run here"]


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper (with its place), our figures in words, and whether it holds here."""

    paper: str
    ours: str
    holds: bool | None  # None: cannot be run here
    place: str = ""
    reason: str = ""  # why it cannot be run, or what was done differently

    @property
    def verdict(self) -> Verdict:
        return "cannot be run here" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Outcome:
    """Of one experiment: its claims, and the rows that they rest on."""

    claims: list[Claim]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def absent(paper: str, what: str, where: str, place: str = "") -> Claim:
    """A claim whose data are not here."""
    return Claim(paper, "–", None, place, f"data absent: {what} (from {where})")
