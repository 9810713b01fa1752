"""Lab room: the figures of the papers' experiments, drawn from what `lowkey reproduce --out` kept."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from lowkey_lab import dpals, frank_wolfe, one_bit, trace_figures

Row = dict[str, Any]
Rows = dict[str, list[Row]]


def drawn(name: str) -> bool:
    """Whether an experiment has a figure."""
    return name in ("dpals-figure-4", "dpfw-figure-2", "trace-rates") or name.startswith(("onebit-", "dplmc-"))


def draw(name: str, rows: Rows, path: Path) -> None:
    if name == "dpals-figure-4":
        dpals.draw(rows[name], path)
    elif name == "dpfw-figure-2":
        frank_wolfe.figure(rows, str(path))
    elif name == "trace-rates":
        trace_figures.n_and_epsilon(rows["trace-n-and-epsilon"], path)
    elif name.startswith("onebit-"):
        measure = "accuracy" if name[-1] in "23" else "are"
        one_bit.draw([_infinite(row) for row in rows[name]], measure, path)
    else:
        from lowkey_lab import lmc_picture

        lmc_picture.draw(rows[name], name.removeprefix("dplmc-"), path)


def _infinite(row: Row) -> Row:
    """JSON has no infinity: the epsilon of what is not private was kept as null."""
    return {key: math.inf if value is None and key.startswith("epsilon") else value for key, value in row.items()}
