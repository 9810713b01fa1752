"""Lab room: the figures of the papers' experiments in one style, drawn from what `lowkey reproduce --out` kept.

A colour is a column (as printed, exact accounting, ours, not private), a mark is a method; bands are two standard errors.
Each is written as SVG and as PNG with 200 dots an inch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowkey_lab.papers.one_bit import MECHANISMS
from lowkey_lab.papers.trace import lower_bound
from lowkey_lab.pyplot import pyplot
from lowkey_lab.trials import EXACT, OURS, PRINTED
from lowkey_lab.verdicts import estimate

Row = dict[str, Any]
Rows = dict[str, list[Row]]
COLOURS = {PRINTED: "#D55E00", EXACT: "#0072B2", OURS: "#009E73", "not private": "#333333"}
MARKS = "osD^vPX*"
FLOORS = ("the mean of all ratings", "the user's own mean", "the commoner sign", "Popularity")  # dashed


class Shape(NamedTuple):
    """The measure, the fact along the axis, and the fact that makes the panels."""

    measure: str
    along: str = "epsilon"
    panel: str = "data"
    label: str = ""
    log: tuple[bool, bool] = (True, True)
    names: tuple[str, ...] = ()  # of the places along the axis, where they are not numbers


VARIED = {  # by figure of the paper: the fact that it varies, and in words
    "5": ("sampling", "sampling and projection"), "8": ("crowd", "people per row"), "9": ("rank", "rank"),
    "10": ("fraction", "fraction of films"), "11": ("fraction", "fraction of films"), "12": ("exponents", "exponents"),
}  # fmt: skip
SHAPES = {
    "dpals-figure-4": Shape("rmse", panel="n_users", label="RMSE"),
    "dpals-figure-7": Shape("rmse", "sigma", "n_users", "RMSE", (False, False)),
    "dpals-movies": Shape("rmse", panel="figure", label="RMSE", log=(True, False)),
    "dpals-lists": Shape("recall@20", panel="figure", label="Recall@20", log=(True, False)),
    "dpfw-figure-2a": Shape("rmse", panel="data", label="RMSE"),
    "dpfw-figure-2": Shape("rmse", panel="data", label="RMSE"),
    "dplmc-figure-1": Shape("error", panel="n_users", label="normalised squared error"),
    "dplmc-figure-2": Shape("error", panel="n_users", label="normalised squared error"),
    "dplmc-figure-3": Shape("error", "rank", "start", "normalised squared error", (False, True)),
    "onebit-figure-1": Shape("value", panel="link", label="average relative error"),
    "onebit-figure-2": Shape("value", "place", "link", "accuracy", (False, False), MECHANISMS),
    "onebit-figure-3": Shape("value", panel="link", label="accuracy", log=(True, False)),
    "onebit-figure-4": Shape("value", panel="share", label="average relative error"),
    "onebit-figure-5": Shape("value", panel="share", label="average relative error"),
    "trace-rates": Shape("frobenius", "n", "epsilon", "error, Frobenius norm"),
}


def drawn(name: str) -> bool:
    """Whether an experiment has a figure."""
    return name in SHAPES


def drawings(name: str) -> list[str]:
    """The names of an experiment's drawings."""
    return [name, f"{name}-varied"] if SHAPES[name].panel == "figure" else [name]


def draw(name: str, rows: Rows, path: Path) -> list[Path]:
    """``path`` without its ending, as SVG and PNG."""
    shape, kept = SHAPES[name], [row for some in rows.values() for row in some]
    kept = [row for row in kept if shape.measure in row["values"] and shape.panel in row["facts"]]
    if name == "trace-rates":
        kept = _over_n(kept)
    if name.startswith("onebit"):
        kept = [_placed(row) for row in kept if not _far_off(row, shape)]
    charts: dict[Path, Any] = {}
    if shape.panel == "figure":  # what a figure varies is not epsilon, but in Figure 3
        other = [row for row in kept if row["facts"]["figure"] in VARIED]
        kept = [row for row in kept if row["facts"]["figure"] not in VARIED]
        charts[path.with_name(f"{path.name}-varied")] = _varied(other, shape)
    charts[path] = _chart(kept, shape, bound=name == "trace-rates")
    return [file for stem, chart in charts.items() for file in _saved(chart, stem)]


def _saved(chart: Any, path: Path) -> list[Path]:
    written = []
    for ending in ("svg", "png"):
        extra: dict[str, Any] = {"metadata": {"Date": None}} if ending == "svg" else {}
        chart.savefig(path.with_suffix(f".{ending}"), dpi=200, **extra)
        written.append(path.with_suffix(f".{ending}"))
    pyplot().close(chart)
    return written


def _varied(rows: list[Row], shape: Shape) -> Any:
    """A panel per figure: points over what it varies, a colour per epsilon; two standard errors."""
    plt = pyplot()
    figures = sorted({row["facts"]["figure"] for row in rows}, key=int)
    chart, axes = plt.subplots(1, len(figures), figsize=(max(9.0, 2.6 * len(figures)), 3.9), squeeze=False)
    lines = sorted({(row["column"], row["algorithm"], row["facts"]["epsilon"]) for row in rows}, key=lambda k: k[2] or 99.0)
    for axis, figure in zip(axes.flat, figures, strict=True):
        fact, words = VARIED[figure]
        mine = [row for row in rows if row["facts"]["figure"] == figure]
        mine = [row for row in mine if fact == "fraction" or row["facts"]["fraction"] == mine[0]["facts"]["fraction"]]
        places = list(dict.fromkeys(row["facts"][fact] for row in mine))
        for at, line in enumerate(lines):
            column, algorithm, epsilon = line
            drawn = [row for row in mine if (row["column"], row["algorithm"], row["facts"]["epsilon"]) == line]
            here = [[row["values"][shape.measure] for row in drawn if row["facts"][fact] == place] for place in places]
            found = {x: estimate(draws) for x, draws in enumerate(here) if draws}
            shift = 0.5 * (at + 0.5) / len(lines) - 0.25
            axis.errorbar([x + shift for x in found], [one.mean for one in found.values()],
                          [2.0 * one.error if math.isfinite(one.error) else 0.0 for one in found.values()],
                          color=COLOURS[column], marker=MARKS[at % len(MARKS)], markersize=4, capsize=2, linestyle="none",
                          label=f"{algorithm}{'' if epsilon is None else f', epsilon {epsilon:g}'}")  # fmt: skip
        axis.set_xticks(range(len(places)), [str(place).replace(" ", "\n") for place in places])
        axis.set(title=f"Figure {figure}", xlabel=words, xlim=(-0.5, len(places) - 0.5))
        axis.title.set_fontsize(10)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3, linewidth=0.5)
    axes[0, 0].set_ylabel(shape.label)
    handles = {text: line for axis in axes.flat for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    chart.legend(list(handles.values()), list(handles), loc="lower center", ncols=2, fontsize=7.5, frameon=False)
    chart.tight_layout(rect=(0.0, 0.05 * math.ceil(len(handles) / 2) + 0.02, 1.0, 1.0))
    return chart


def _far_off(row: Row, shape: Shape) -> bool:
    """Output perturbation with noise that holds has errors beyond 10^7: it would flatten all others. The page has it."""
    return shape.label not in ("accuracy",) and (row["column"], row["facts"]["mechanism"]) == (EXACT, "output")


def _placed(row: Row) -> Row:
    """With the mechanism's place among the four, none for what is not private."""
    mechanism = row["facts"]["mechanism"]
    return {**row, "facts": {**row["facts"], "place": MECHANISMS.index(mechanism) if mechanism in MECHANISMS else None}}


def _over_n(rows: list[Row]) -> list[Row]:
    """Records at sigma_r = 1; what has no epsilon stands in every panel."""
    epsilons = sorted({row["facts"]["epsilon"] for row in rows if row["facts"]["epsilon"]})
    rows = [row for row in rows if row["facts"].get("design", "equal") == "equal"]
    found = [row for row in rows if row["facts"]["sigma_r"] == 1.0 and row["facts"]["protect"] == "records"]
    clear = [row for row in rows if row["facts"]["epsilon"] is None]
    return found + [{**row, "facts": {**row["facts"], "epsilon": e}} for row in clear for e in epsilons]


def _line(row: Row, shape: Shape) -> tuple[str, str, str]:
    """What belongs on one line: column, algorithm, and the start or the method where panels mix them."""
    start = row["facts"].get("start") if shape.panel != "start" else None
    algorithm = (
        row["algorithm"].rpartition(",")[0] if shape.names and row["facts"]["place"] is not None else row["algorithm"]
    )
    return row["column"], algorithm, f", {start} start" if start else ""


def _chart(rows: Sequence[Row], shape: Shape, bound: bool) -> Any:
    plt = pyplot()
    panels = sorted({row["facts"][shape.panel] for row in rows}, key=str)
    panels = sorted(panels) if all(isinstance(value, int | float) for value in panels) else panels
    lines = sorted({_line(row, shape) for row in rows}, key=lambda line: (list(COLOURS).index(line[0]), line))
    families = list(dict.fromkeys(_family(line) for line in lines))
    legend = 0.17 * math.ceil((len(lines) + bound) / 2) + 0.15  # inches
    across = min(len(panels), 3)
    down = math.ceil(len(panels) / across)
    size = (max(3.9 * across, 9.0), 3.4 * down + legend)
    chart, axes = plt.subplots(down, across, figsize=size, squeeze=False, sharey=shape.log[1])
    for axis, value in zip(axes.flat, panels, strict=False):
        mine = [row for row in rows if row["facts"][shape.panel] == value]
        for line in lines:
            here = [row for row in mine if _line(row, shape) == line]
            if here:
                _plot(axis, here, shape, line, MARKS[families.index(_family(line)) % len(MARKS)])
        if bound:
            sizes = np.array(sorted({row["facts"]["n"] for row in mine}), float)
            axis.plot(sizes, [lower_bound(n, value) for n in sizes], ":", color="#777777", label="Theorem 2 with c = 1")
        _dress(axis, mine, shape, value)
    for axis in list(axes.flat)[len(panels) :]:
        axis.axis("off")
    axes[0, 0].set_ylabel(shape.label)
    handles = {text: line for axis in axes.flat for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    chart.legend(list(handles.values()), list(handles), loc="lower center", ncols=2, fontsize=7.5, frameon=False)
    chart.tight_layout(rect=(0.0, legend / size[1], 1.0, 1.0))
    return chart


def _family(line: tuple[str, str, str]) -> str:
    """The method or mechanism: the same mark in every column."""
    for word in (
        "ridge after the projection",
        "input",
        "objective",
        "gradient",
        "output",
        "DPLMC",
        "DPALS",
        "DPFW",
        "DPSVD",
        "DP-SGD",
        "DPFactors",
    ):
        if word in line[1]:
            return word
    return ""


def _plot(axis: Any, rows: Sequence[Row], shape: Shape, line: tuple[str, str, str], mark: str) -> None:
    column, algorithm, start = line
    colour, label = COLOURS[column], f"{column}: {_family(line) or algorithm}{start}"
    at: dict[Any, list[float]] = {}
    for row in rows:
        at.setdefault(row["facts"][shape.along], []).append(row["values"][shape.measure])
    if set(at) == {None}:
        axis.axhline(estimate(at[None]).mean, color=colour, linestyle="--" if algorithm in FLOORS else ":", label=label)
        return
    places = sorted(at)
    found = [estimate(at[place]) for place in places]
    y = np.array([one.mean for one in found])
    error = np.array([2.0 * one.error if math.isfinite(one.error) else 0.0 for one in found])
    style = "--" if "random" in start else "-"
    if shape.names:
        shift = 0.15 * (list(COLOURS).index(column) - 1)
        axis.errorbar(
            [place + shift for place in places], y, error, fmt=mark, markersize=4, capsize=2, color=colour, label=label
        )
        return
    axis.plot(places, y, marker=mark, markersize=4, color=colour, linestyle=style, linewidth=1.2, label=label)
    low = np.maximum(y - error, 0.5 * y) if shape.log[1] else y - error
    axis.fill_between(places, low, y + error, color=colour, alpha=0.18, linewidth=0.0)


def _dress(axis: Any, rows: Sequence[Row], shape: Shape, value: Any) -> None:
    names = {"n_users": f"{value:,} users" if isinstance(value, int) else "", "share": f"{value} observed",
             "start": f"{value} start", "epsilon": f"epsilon = {value}", "figure": f"Figure {value}"}  # fmt: skip
    ticks = sorted({row["facts"][shape.along] for row in rows if row["facts"][shape.along] is not None})
    values = [row["values"][shape.measure] for row in rows]
    wide = shape.log[1] and max(values) > 3.0 * min(values)  # a narrow range reads better on a linear axis
    axis.set(xscale="log" if shape.log[0] else "linear", yscale="log" if wide else "linear",
             title=names.get(shape.panel, str(value)), xlabel="" if shape.names else shape.along)  # fmt: skip
    axis.set_xticks(ticks, shape.names or [f"{tick:g}" for tick in ticks])
    axis.xaxis.minorticks_off()
    axis.title.set_fontsize(10)
    axis.tick_params(labelsize=8)
    axis.grid(alpha=0.3, linewidth=0.5)
