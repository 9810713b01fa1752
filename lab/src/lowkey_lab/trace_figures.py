"""Lab room: the figures of trace regression, drawn from the rows of ``trace``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lowkey_lab.pyplot import pyplot
from lowkey_lab.trace import ERRORS, Row, averaged, slopes


def _axes(count: int, **sizes: Any) -> Any:
    plt = pyplot()
    width = 3.7 * count if count > 2 else 5.2 * count  # readable at 800 pixels
    return plt.subplots(1, count, figsize=(width, 4.0), layout="constrained", squeeze=False, **sizes)


def _plain_ticks(axis: Any, ticks: Sequence[float]) -> None:
    """A few values on a logarithmic axis, labelled as they are."""
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


def _finish(figure: Any, axes: Any, path: Path) -> None:
    for axis in axes.flat:
        axis.grid(alpha=0.3, which="both", linewidth=0.5)
        axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def n_and_epsilon(rows: Sequence[Row], path: Path) -> None:
    figure, axes = _axes(3)
    means = averaged(rows, ("n", "epsilon"), ERRORS)
    fitted = slopes(rows)
    for epsilon in sorted({row["epsilon"] for row in means}):
        line = [row for row in means if row["epsilon"] == epsilon]
        n = [row["n"] for row in line]
        axes[0, 0].loglog(n, [row["private_error"] for row in line], "o-", label=f"private, ε = {epsilon:g}")
        axes[0, 2].loglog(
            [row["n"] * epsilon for row in line], [row["privacy_part"] for row in line], "o", label=f"ε = {epsilon:g}"
        )
    for column in (0, 1):
        axes[0, column].loglog(n, [row["nonprivate_error"] for row in line], "ks--", label="non-private")
    texts = [f"{value:.2f} ± {error:.2f}" for value, error in fitted.values()]
    titles = ("error", f"statistical part: slope {texts[0]}", f"privacy part: slope {texts[1]} in nε")
    for axis, title, label in zip(axes.flat, titles, ("n", "n", "n ε"), strict=True):
        axis.set_title(title, fontsize=10)
        axis.set(xlabel=label, ylabel="Frobenius norm")
        axis.xaxis.set_minor_formatter("")
    _finish(figure, axes, path)


def rank_and_d(rows: Sequence[Row], path: Path) -> None:
    figure, axes = _axes(2)
    means = averaged(rows, ("d", "rank"), ERRORS)
    for axis, key, fixed, value in ((axes[0, 0], "rank", "d", 12), (axes[0, 1], "d", "rank", 2)):
        line = sorted((row for row in means if row[fixed] == value), key=lambda row: row[key])
        for name, style in (("private_error", "o-"), ("privacy_part", "^:"), ("nonprivate_error", "ks--")):
            axis.loglog([row[key] for row in line], [row[name] for row in line], style, label=name.replace("_", " "))
        _plain_ticks(axis, [row[key] for row in line])
        axis.set(title=f"{fixed} = {value}", xlabel=key, ylabel="Frobenius norm")
    _finish(figure, axes, path)


def convergence(rows: Sequence[Row], path: Path) -> None:
    figure, axes = _axes(1)
    for fit in dict.fromkeys(row["fit"] for row in rows):
        line = [row for row in rows if row["fit"] == fit]
        axes[0, 0].semilogy([row["step"] for row in line], [row["error"] for row in line], "o-", label=fit)
    axes[0, 0].set(title="convergence", xlabel="step", ylabel="error, Frobenius norm")
    _finish(figure, axes, path)


def records_and_responses(rows: Sequence[Row], path: Path) -> None:
    figure, axes = _axes(2, sharey=True)
    means = averaged(rows, ("sigma_r", "kind", "protect"), ("error",))
    for axis, kind in zip(axes.flat, dict.fromkeys(row["kind"] for row in means), strict=True):
        for protect, style in (("records", "o-"), ("responses", "s--")):
            line = [row for row in means if row["kind"] == kind and row["protect"] == protect]
            axis.loglog([row["sigma_r"] for row in line], [row["error"] for row in line], style, label=protect)
        _plain_ticks(axis, sorted({row["sigma_r"] for row in means}))
        axis.set(title=kind, xlabel="σ_r (error_std = 0.25)", ylabel="error, Frobenius norm")
    _finish(figure, axes, path)


def start_and_descent(rows: Sequence[Row], path: Path) -> None:
    figure, axes = _axes(1)
    for name, style in (("start_alone", "o-"), ("start_share", "^:"), ("descent", "s-"), ("nonprivate", "k--")):
        axes[0, 0].loglog([row["n"] for row in rows], [row[name] for row in rows], style, label=name.replace("_", " "))
    axes[0, 0].set(title="spectral start, and after descent (ε = 1)", xlabel="n", ylabel="relative error")
    _finish(figure, axes, path)


FIGURES: dict[str, Callable[[Sequence[Row], Path], None]] = {
    "n_and_epsilon": n_and_epsilon,
    "rank_and_d": rank_and_d,
    "convergence": convergence,
    "records_and_responses": records_and_responses,
    "start_and_descent": start_and_descent,
}
