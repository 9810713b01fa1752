"""Lab room: results rows as tables: text, Markdown, LaTeX. Every number comes from the rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lowkey_lab import tuning

Row = dict[str, Any]
Lines = list[list[str]]
MEASURES = ("rmse", "recall@20")  # the measure of ratings, else that of binary feedback


def measure_of(rows: Iterable[Row]) -> str:
    """The measure of a data set: the first that any row has, as scores of some methods are no ratings."""
    held = {name for row in rows for name in row}
    known = [name for name in MEASURES if name in held]
    return known[0] if known else min(name for name in held if name.startswith("recall@"))  # a catalogue below 20


def is_better(measure: str, one: float, other: float) -> bool:
    return one < other if measure.startswith(("rmse", "mae")) else one > other


class Cell:
    """Mean and standard error of one measure over the draws of one method at one epsilon."""

    def __init__(self, rows: Sequence[Row], measure: str) -> None:
        rows = _best_settings(rows, measure)
        self.refused = any("refused" in row for row in rows)
        self.rows = [row for row in rows if measure in row]
        values = [row[measure] for row in self.rows]
        self.draws = len(values)
        self.mean = float(np.mean(values)) if values else math.nan
        self.error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan

    def text(self, digits: int = 4) -> str:
        if not self.draws:
            return "–"
        error = "" if math.isnan(self.error) else f" ± {self.error:.{digits}f}"
        return f"{self.mean:.{digits}f}{error}"


def _best_settings(rows: Sequence[Row], measure: str) -> Sequence[Row]:
    """Of oracle-tuned rows those of the best candidate; other rows as they are."""
    if not any(row["tuning"] == tuning.ORACLE for row in rows):
        return rows
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if measure in row:
            groups.setdefault(str(sorted(row["settings"].items())), []).append(row)
    mean = lambda group: float(np.mean([row[measure] for row in group]))
    best: list[Row] = []
    for group in groups.values():
        if not best or is_better(measure, mean(group), mean(best)):
            best = group
    return best


def comparison(rows: Sequence[Row]) -> Lines:
    """Methods down, epsilons across, then the non-private value, tuning, time and memory. The first line is the header."""
    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
    header = ["data", "method", "measure", *(f"eps {e:g}" for e in epsilons), "non-private", "tuning", "CPU s", "GB"]
    lines = [header]
    for data in dict.fromkeys(row["data"] for row in rows):
        here = [row for row in rows if row["data"] == data]
        measure = measure_of(here)
        for method, protocol in dict.fromkeys((row["method"], row["tuning"]) for row in here):
            mine = [row for row in here if (row["method"], row["tuning"]) == (method, protocol)]
            cells = [Cell([row for row in mine if row["epsilon"] == e], measure) for e in (*epsilons, None)]
            if not any(cell.draws for cell in cells) and (
                protocol == tuning.BOUND or all("refused" not in r for r in mine)
            ):
                continue  # a baseline whose scores are no ratings, or a bound of another measure
            note = "oracle (not private)" if protocol == tuning.ORACLE else protocol
            lines.append([data, method, measure, *(cell.text() for cell in cells), note, *costs(mine)])
    return lines


def costs(rows: Sequence[Row]) -> list[str]:
    """CPU seconds and gigabytes of a fit, on average."""
    memory = [row["fit_memory_gb"] for row in rows if "fit_memory_gb" in row]
    spent = seconds(rows)
    return [f"{np.mean(values):.2f}" if values else "–" for values in (spent, memory)]


def seconds(rows: Sequence[Row]) -> list[float]:
    """CPU seconds of the fits with noise, or of those without where there are no others."""
    timed = [row for row in rows if "cpu_seconds" in row]
    return [row["cpu_seconds"] for row in timed if row["epsilon"] is not None] or [row["cpu_seconds"] for row in timed]


def as_text(lines: Lines) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    rule = ["-" * width for width in widths]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip()
                     for line in (lines[0], rule, *lines[1:]))  # fmt: skip


def as_markdown(lines: Lines) -> str:
    rule = ["---"] * len(lines[0])
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:]))


def as_latex(lines: Lines) -> str:
    """A tabular with booktabs' rules."""
    escaped = [[_escaped(cell) for cell in line] for line in lines]
    body = [" & ".join(line) + r" \\" for line in escaped]
    return "\n".join([rf"\begin{{tabular}}{{{'l' * len(lines[0])}}}", r"\toprule", body[0], r"\midrule", *body[1:],
                      r"\bottomrule", r"\end{tabular}"])  # fmt: skip


def _escaped(text: str) -> str:
    for sign in "&%$#_{}":
        text = text.replace(sign, "\\" + sign)
    return text.replace("±", r"$\pm$").replace("–", "--").replace("@", "{@}")


FORMATS = {"text": as_text, "markdown": as_markdown, "latex": as_latex}
