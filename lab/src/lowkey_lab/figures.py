"""Lab room: figures of results rows: quality against epsilon, quality by popularity, time. Drawn from the rows alone.

Points, with two standard errors where there are draws; no bars, so that no axis need begin at 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowkey_lab.compare import SLICES
from lowkey_lab.pyplot import pyplot
from lowkey_lab.tables import Cell, is_better, measure_of, seconds

Row = dict[str, Any]
WIDTH = 8.0  # inches
STYLES = {  # a method has the same colour and mark in every figure; unknown ones get the rest
    "bias": ("#7f7f7f", "o"), "als": ("#D55E00", "s"), "moments": ("#0072B2", "^"), "factors": ("#009E73", "D"),
    "frank-wolfe": ("#CC79A7", "v"), "svd": ("#8c6d31", "P"), "lmc": ("#56B4E9", "X"), "sketch": ("#332288", "*"),
}  # fmt: skip
LINES = {  # what is not private: floors dotted, ceilings dashed
    "Bias": ("non-private bias", "#555555", ":"), "Popularity": ("non-private popularity", "#555555", ":"),
    "ALS": ("non-private ALS", "black", "--"), "FrankWolfe": ("non-private Frank-Wolfe", "#a05080", "-."),
}  # fmt: skip
NAMES = {"rmse": "RMSE", "recall@20": "Recall@20"}


def draw_all(rows: Sequence[Row], folder: Path) -> list[Path]:
    """quality, slices and time in the folder, each as SVG and as PNG with 200 dots an inch."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for row in rows if "refused" not in row]
    drawn: list[Path] = []
    for name, draw in {"quality": quality, "slices": slices, "time": times}.items():
        if any(row["epsilon"] is not None for row in rows):
            drawn += draw(rows, folder / name)
    return drawn


def quality(rows: Sequence[Row], path: Path) -> list[Path]:
    """One panel per data set: the measure against epsilon, with the non-private lines."""
    chart, panels = _panels(rows, 3.1)
    for axis, (data, mine) in zip(panels, _by(rows, "data").items(), strict=False):
        measure = measure_of(mine)
        epsilons = sorted({row["epsilon"] for row in mine if row["epsilon"] is not None})
        shown: list[float] = []
        floors: list[float] = []  # item means, with noise and without
        for method, its in _by(mine, "method").items():
            if all(row["epsilon"] is None for row in its):
                value = Cell(its, measure).mean
                if method in LINES and not math.isnan(value) and not (method == "Bias" and measure != "rmse"):
                    label, colour, style = LINES[method]
                    axis.axhline(value, color=colour, linestyle=style, linewidth=1.3, label=label)
                    shown.append(value)
                    floors += [value] if method == "Bias" else []
                continue
            cells = {e: Cell([row for row in its if row["epsilon"] == e], measure) for e in epsilons}
            cells = {e: cell for e, cell in cells.items() if cell.draws}
            if cells:
                means = [cell.mean for cell in cells.values()]
                errors = [0.0 if math.isnan(cell.error) else 2.0 * cell.error for cell in cells.values()]
                colour, mark = _style(method)
                axis.errorbar(list(cells), means, errors, color=colour, marker=mark, markersize=4.5, linewidth=1.4,
                              capsize=2, label=method)  # fmt: skip
                shown += means
                floors += means if method == "bias" else []
        if (ceiling := _best_without_noise(mine, measure)) is not None:
            axis.axhline(ceiling, color="#0072B2", linestyle="--", linewidth=1.0, label="best method without noise")
            shown.append(ceiling)
        _limit(axis, shown, floors, measure)
        axis.set(xscale="log", title=data, xlabel="epsilon (per user)", ylabel=NAMES.get(measure, measure))
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
        axis.grid(alpha=0.3, linewidth=0.5)
    return _finish(chart, panels, path)


def _best_without_noise(rows: Sequence[Row], measure: str) -> float | None:
    """Of the private methods, run with exact posts."""
    best = None
    for row in rows:
        if row["epsilon"] is None and row["method"] not in LINES and measure in row:
            best = row[measure] if best is None or is_better(measure, row[measure], best) else best
    return best


def slices(rows: Sequence[Row], path: Path) -> list[Path]:
    """One panel per data set: the measure on popular and on rare items, at the epsilon nearest to 1."""
    chart, panels = _panels(rows, 2.9)
    for axis, (data, mine) in zip(panels, _by(rows, "data").items(), strict=False):
        measure = measure_of(mine)
        near = min({row["epsilon"] for row in mine if row["epsilon"]}, key=lambda e: abs(math.log(e)))
        shown = [row for row in mine if row["epsilon"] == near or row["method"] in LINES]
        groups = {
            method: its
            for method, its in _by(shown, "method").items()
            if any(f"{measure}, {SLICES[0]}" in row for row in its) and method not in ("FrankWolfe", "Popularity")
        }
        for at, (method, its) in enumerate(groups.items()):
            cells = [Cell(its, f"{measure}, {name}") for name in SLICES]
            colour, mark = (LINES[method][1], "_") if method in LINES else _style(method)
            label = LINES[method][0] if method in LINES else method
            places = np.arange(len(SLICES)) + (at - len(groups) / 2 + 0.5) * 0.8 / len(groups)
            errors = [0.0 if math.isnan(cell.error) else 2.0 * cell.error for cell in cells]
            axis.errorbar(places, [cell.mean for cell in cells], errors, color=colour, marker=mark, markersize=6, capsize=2,
                          linestyle="none", label=label)  # fmt: skip
        axis.set_xticks(range(len(SLICES)), [name.removesuffix(" third") for name in SLICES])
        title = f"{data}, epsilon = {near:g}"
        axis.set(title=title, xlabel="thirds of the ratings, by the item's count", ylabel=NAMES.get(measure, measure))
        axis.grid(alpha=0.3, linewidth=0.5, axis="y")
    return _finish(chart, panels, path)


def times(rows: Sequence[Row], path: Path) -> list[Path]:
    """Seconds of a fit, per data set and method."""
    plt = pyplot()
    data = list(_by(rows, "data"))
    methods = [method for method, its in _by(rows, "method").items() if method not in LINES]
    chart, axis = plt.subplots(figsize=(WIDTH, 3.4))
    for at, method in enumerate(methods):
        spent = [seconds([r for r in rows if (r["data"], r["method"]) == (name, method)]) for name in data]
        means = [float(np.mean(values)) if values else math.nan for values in spent]
        places = np.arange(len(data)) + (at - len(methods) / 2 + 0.5) * 0.8 / len(methods)
        colour, mark = _style(method)
        axis.plot(places, means, mark, color=colour, label=method)
    threads = " / ".join(str(n) for n in sorted({row["threads"] for row in rows}))
    axis.set(yscale="log", ylabel=f"CPU seconds per fit ({threads} thread{'' if threads == '1' else 's'})")
    axis.set_xticks(range(len(data)), data, fontsize=8)
    axis.grid(alpha=0.3, linewidth=0.5, axis="y")
    return _finish(chart, [axis], path)


def _panels(rows: Sequence[Row], height: float) -> tuple[Any, list[Any]]:
    """Two columns of panels; what is left over is switched off."""
    count = len(_by(rows, "data"))
    columns = min(2, count)
    lines = math.ceil(count / columns)
    chart, axes = pyplot().subplots(lines, columns, figsize=(WIDTH, height * lines + 0.6), squeeze=False)
    panels = list(axes.flat)
    for axis in panels[count:]:
        axis.axis("off")
    return chart, panels


def _finish(chart: Any, panels: Sequence[Any], path: Path) -> list[Path]:
    """One legend for all panels, under them; both files."""
    for axis in panels:
        axis.title.set_fontsize(10)
        axis.xaxis.label.set_fontsize(9)
        axis.yaxis.label.set_fontsize(9)
        axis.tick_params(labelsize=8)
    handles = {text: line for axis in panels for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    lines = math.ceil(len(handles) / 4)
    room = 0.26 * lines / chart.get_figheight()
    chart.tight_layout(rect=(0.0, room + 0.01, 1.0, 1.0))
    chart.legend(list(handles.values()), list(handles), loc="lower center", ncols=4, fontsize=8.5, frameon=False)
    written = [path.with_suffix(".svg"), path.with_suffix(".png")]
    chart.savefig(written[0], metadata={"Date": None})
    chart.savefig(written[1], dpi=200)
    pyplot().close(chart)
    return written


def _limit(axis: Any, shown: list[float], floors: list[float], measure: str) -> None:
    """A method far off must not flatten the others: the axis ends a little beyond what means alone reach, and says so."""
    if measure != "rmse" or not floors:
        return
    low, floor = min(shown), max(floors)
    top = floor + 0.4 * (floor - low) + 1e-3
    if max(shown) > top:
        axis.set_ylim(low - 0.08 * (top - low), top)
        place: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
        axis.annotate("worse values are cut off", (0.98, 0.97), fontsize=7, color="#555555", **place)


def _by(rows: Sequence[Row], name: str) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return groups


def _style(method: str) -> tuple[str, str]:
    spare = ("#117733", "#882255", "#44AA99", "#999933")
    return STYLES.get(method) or (spare[sum(map(ord, method)) % len(spare)], "o")
