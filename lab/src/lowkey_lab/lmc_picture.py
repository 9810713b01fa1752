"""Lab room: the pictures of ``lmc``, drawn from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowkey_lab.lmc_trials import METHODS
from lowkey_lab.pyplot import pyplot

Row = dict[str, Any]
COLOURS = {method: f"C{place}" for place, method in enumerate(METHODS)}
DASHES = {"random": "--", "private": "-"}
LOWEST = 1e-5  # errors below are drawn at the edge: exact ratings of exact rank can be recovered nearly exactly


def draw(rows: Sequence[Row], name: str, path: Path) -> None:
    """Error against epsilon, a panel per number of users; or against rank, a panel per setting."""
    plt = pyplot()
    x, fixed = ("rank", ("n_users", "epsilon")) if name == "figure-3" else ("epsilon", ("n_users",))
    panels = list(dict.fromkeys(tuple(row[column] for column in fixed) for row in rows))
    chart, axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels), 4.4), squeeze=False, sharey=True)
    shown = [max(row["error"], LOWEST) for row in rows]
    scale = "log" if max(shown) > 10.0 * min(shown) else "linear"
    for axis, panel in zip(axes[0], panels, strict=True):
        here = [row for row in rows if tuple(row[column] for column in fixed) == panel]
        for method, start in dict.fromkeys((row["method"], row["start"]) for row in here):
            line = sorted((r for r in here if (r["method"], r["start"]) == (method, start)), key=lambda r: r[x])
            label = method if method == "DPMoments" else f"{method}, {start} start"
            style = {"color": COLOURS[method], "linestyle": ":" if method == "DPMoments" else DASHES[start]}
            points = [[row[column] for row in line] for column in (x, "error", "standard_error")]
            points[1] = [max(error, LOWEST) for error in points[1]]
            axis.errorbar(points[0], points[1], yerr=points[2], marker="o", markersize=3, label=label, **style)
        title = f"{panel[0]:,} users" + (f", ε = {panel[1]:g}" if len(panel) > 1 else "")
        axis.set(title=title, xlabel="rank" if x == "rank" else "ε (user level, replace-one, δ = 1e-5)", yscale=scale)
        if x == "epsilon":
            axis.set_xscale("log")
        ticks = sorted({row[x] for row in here})
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.xaxis.minorticks_off()
        axis.grid(alpha=0.3, linewidth=0.5)
    lowest = min(row["error"] for row in rows)
    if lowest < LOWEST:
        axes[0, 0].set_ylim(bottom=LOWEST / 2.0)  # an error bar can reach far below
    axes[0, 0].set_ylabel("mean squared error on all cells" + (f" (at least {LOWEST:g})" if lowest < LOWEST else ""))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    chart.legend(handles, labels, loc="lower center", ncols=4, fontsize=8, frameon=False)
    chart.tight_layout(rect=(0.0, 0.12, 1.0, 1.0))
    chart.savefig(path, dpi=110)
