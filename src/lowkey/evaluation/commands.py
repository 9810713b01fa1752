"""Lab room: `lowkey evaluate`. Its numbers come from single users' data and are not private."""

from __future__ import annotations

from typing import Annotated

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.cli.table import AS_USUAL, Table, Tidy, check_file

NOT_PRIVATE = "These numbers are computed on data that is treated as public. They are not private: do not publish them."

K = Annotated[int, typer.Option("--k", help="The length of a list of recommendations.")]
Seed = Annotated[int, typer.Option(help="Chooses what is held out.")]


def evaluate(
    folder: o.Folder,
    file: o.Ratings,
    user: o.User = None,
    item: o.Item = None,
    rating: o.Rating = None,
    k: K = 20,
    fold_in: Annotated[float, typer.Option(help="The share of each user's ratings that the model may see.")] = 0.8,
    seed: Seed = 0,
    tidy: Tidy = AS_USUAL,
    as_json: o.Json = False,
) -> None:
    """Measure a release on a file of other users' ratings, which is treated as public.

    Example: lowkey evaluate release others.parquet --user user --item item --rating rating
    """
    o.require("evaluate", {"--user": user, "--item": item}, f"lowkey evaluate {folder} {file} --user user --item item")
    check_file(file)
    assert user is not None
    assert item is not None
    screen = Screen(as_json=as_json)
    with screen.working("Evaluating"):
        from lowkey.evaluation.protocol import evaluate as measure
        from lowkey.evaluation.splits import fold_in_rows
        from lowkey.release import load

        model = load(folder)
        table = Table(
            file, user, item, rating, model.domain.rating_range, model.domain.scale.counted, None, **tidy.of_table()
        )
        histories, held_out = fold_in_rows(table.read(model.domain), fold_in, seed)
        figures = measure(model, histories, held_out, k)
    screen.table("", ["measure", "value"], [[name, f"{value:.4f}"] for name, value in figures.items()])
    screen.say(NOT_PRIVATE, "yellow")
    screen.result({**figures, "private": False})


def show_figures(screen: Screen, title: str, found: dict[str, dict[str, float]]) -> None:
    """One row per model, one column per measure; a dash where a model has none."""
    measures = list(dict.fromkeys(measure for figures in found.values() for measure in figures))
    rows = [[name, *(f"{figures[m]:.4f}" if m in figures else "-" for m in measures)] for name, figures in found.items()]
    screen.table("", [title, *measures], rows)
