"""Lab room: a paper's claim, what was measured beside it, and the verdict.

A claim is judged by the paper's own algorithm. Where the paper compares two methods, the column with exact accounting
decides: both then cost the same epsilon in truth. Beside it stands whether ours does what the paper claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lowkey_lab.trials import COLUMNS, PRINTED, Draws
from lowkey_lab.verdicts import Verdict


class Finding(NamedTuple):
    """Of one column: which algorithms, the figures in words, and what follows from them."""

    algorithm: str
    figures: str
    verdict: Verdict


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper (with its place), the figures in words, and whether it holds here.

    ``holds`` is for what is computed and not drawn; ``columns`` are findings from draws, of which ``judged`` decides.
    ``reason`` is the rule by which it is judged, or why it cannot be run.
    """

    paper: str
    ours: str = ""
    holds: bool | None = None  # None, and no columns: cannot be run here
    place: str = ""
    reason: str = ""
    columns: dict[str, Finding] = field(default_factory=dict)
    judged: str = PRINTED

    @property
    def verdict(self) -> Verdict:
        if self.columns:
            return self.columns[self.judged].verdict
        return "cannot be run here" if self.holds is None else "holds" if self.holds else "does not hold"


@dataclass(frozen=True)
class Outcome:
    """Of one experiment: its claims, and the rows that they rest on."""

    claims: list[Claim]
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


def in_columns(
    paper: str, place: str, rule: str, found: Draws, judge: Callable[[str], Finding], judged: str = PRINTED
) -> Claim:
    """The claim with one finding per column that was run."""
    here = [column for column in COLUMNS if any(row["column"] == column for row in found.rows)]
    return Claim(paper, place=place, reason=rule, columns={column: judge(column) for column in here}, judged=judged)


def absent(paper: str, what: str, where: str, place: str = "") -> Claim:
    """A claim whose data are not here."""
    return Claim(paper, "–", None, place, f"data absent: {what} (from {where})")


def row_of(values: Sequence[float], digits: int = 4) -> str:
    """Numbers of a table's row, in words."""
    return " / ".join(f"{value:.{digits}g}" for value in values)
