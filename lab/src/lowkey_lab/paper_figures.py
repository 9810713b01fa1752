"""Lab room: the figures of the papers' experiments, drawn from what `lowkey reproduce --out` kept."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from lowkey_lab import one_bit, trace_figures
from lowkey_lab.pyplot import pyplot
from lowkey_lab.verdicts import estimate

Row = dict[str, Any]
Rows = dict[str, list[Row]]

# Of experiments in cells: the measure, and the fact that makes the panels.
TRIALS = {
    "dpals-figure-4": ("rmse", "n_users"),
    "dpfw-figure-2": ("rmse", "data"),
    "dplmc-figure-1": ("error", "n_users"),
    "dplmc-figure-2": ("error", "n_users"),
}


def drawn(name: str) -> bool:
    """Whether an experiment has a figure."""
    return name in TRIALS or name == "trace-rates" or name.startswith("onebit-")


def draw(name: str, rows: Rows, path: Path) -> None:
    if name in TRIALS:
        over_epsilon([row for some in rows.values() for row in some], *TRIALS[name], path)
    elif name == "trace-rates":
        trace_figures.n_and_epsilon(rows["trace-n-and-epsilon"], path)
    elif name.startswith("onebit-"):
        measure = "accuracy" if name[-1] in "23" else "are"
        one_bit.draw([_infinite(row) for row in rows[name]], measure, path)


def over_epsilon(rows: list[Row], measure: str, panel: str, path: Path) -> None:
    """A panel per value of a fact, a line per algorithm, with a band of two standard errors; level without an epsilon."""
    plt = pyplot()
    panels = sorted({row["facts"][panel] for row in rows})
    chart, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 4.6), squeeze=False, sharey=True)
    names = list(dict.fromkeys(_label(row) for row in rows))
    for axis, value in zip(axes[0], panels, strict=True):
        for place, name in enumerate(names):
            mine = [row for row in rows if row["facts"][panel] == value and _label(row) == name]
            found = {e: estimate([r["values"][measure] for r in mine if r["facts"]["epsilon"] == e])
                     for e in sorted({r["facts"]["epsilon"] for r in mine}, key=lambda e: e or 0.0)}  # fmt: skip
            if None in found:
                axis.axhline(found[None].mean, color="#555555", linestyle="--", linewidth=1.0, label=name)
                continue
            x, y = list(found), [one.mean for one in found.values()]
            error = [2.0 * one.error if math.isfinite(one.error) else 0.0 for one in found.values()]
            axis.plot(x, y, marker="o", markersize=3, color=f"C{place}", label=name)
            low, high = np.subtract(y, error), np.add(y, error)
            axis.fill_between(x, low, high, color=f"C{place}", alpha=0.2, linewidth=0.0)
        title = f"{value:,} users" if isinstance(value, int) else str(value)
        axis.set(xscale="log", yscale="log", title=title, xlabel="epsilon, asked")
        axis.grid(alpha=0.3, linewidth=0.5)
    axes[0, 0].set_ylabel(measure)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    chart.legend(handles, labels, loc="lower center", ncols=2, fontsize=8, frameon=False)
    chart.tight_layout(rect=(0.0, 0.05 + 0.03 * len(labels), 1.0, 1.0))
    chart.savefig(path, dpi=200)
    plt.close(chart)


def _label(row: Row) -> str:
    start = row["facts"].get("start")
    return row["algorithm"] + (f", {start} start" if start else "")


def _infinite(row: Row) -> Row:
    """JSON has no infinity: the epsilon of what is not private was kept as null."""
    return {key: math.inf if value is None and key.startswith("epsilon") else value for key, value in row.items()}
