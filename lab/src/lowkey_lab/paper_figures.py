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
    """A panel per value of a fact, a line per algorithm with a band of two standard errors; level without an epsilon."""
    plt = pyplot()
    panels = sorted({row["facts"][panel] for row in rows})
    lines = list(dict.fromkeys((row["algorithm"], row["facts"].get("start")) for row in rows))
    colours = {name: f"C{place}" for place, name in enumerate(dict.fromkeys(name for name, _ in lines))}
    epsilons = sorted({row["facts"]["epsilon"] for row in rows if row["facts"]["epsilon"]})
    legend = 0.22 * math.ceil(len(lines) / 2)  # inches
    size = (max(4.2 * len(panels), 10.0), 3.8 + legend)
    chart, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharey=True)
    for axis, value in zip(axes[0], panels, strict=True):
        for name, start in lines:
            mine = [row for row in rows if row["facts"][panel] == value and row["algorithm"] == name]
            mine = [row for row in mine if row["facts"].get("start") == start]
            at = lambda e, mine=mine: [row["values"][measure] for row in mine if row["facts"]["epsilon"] == e]
            style = {"color": colours[name], "linestyle": "--" if start == "random" else "-"}
            label = name + (f", {start} start" if start else "")
            if level := at(None):
                axis.axhline(estimate(level).mean, color=colours[name], linestyle=":", label=label)
                continue
            found = {e: estimate(at(e)) for e in epsilons if at(e)}
            y = [one.mean for one in found.values()]
            error = [2.0 * one.error if math.isfinite(one.error) else 0.0 for one in found.values()]
            axis.plot(list(found), y, marker="o", markersize=3, label=label, **style)
            low, high = np.subtract(y, error), np.add(y, error)
            axis.fill_between(list(found), low, high, color=colours[name], alpha=0.15, linewidth=0.0)
        title = f"{value:,} users" if isinstance(value, int) else str(value)
        axis.set(xscale="log", yscale="log", title=title, xlabel="epsilon, asked")
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.xaxis.minorticks_off()
        axis.grid(alpha=0.3, linewidth=0.5)
    axes[0, 0].set_ylabel(measure)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    chart.legend(handles, labels, loc="lower center", ncols=2, fontsize=8, frameon=False)
    chart.tight_layout(rect=(0.0, legend / size[1], 1.0, 1.0))
    chart.savefig(path, dpi=200)
    plt.close(chart)


def _infinite(row: Row) -> Row:
    """JSON has no infinity: the epsilon of what is not private was kept as null."""
    return {key: math.inf if value is None and key.startswith("epsilon") else value for key, value in row.items()}
