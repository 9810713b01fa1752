"""Lab room: `lowkey evaluate` and `lowkey curve`. Their numbers come from single users' data and are not private."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse

NOT_PRIVATE = "These numbers are computed on data that is treated as public. They are not private: do not publish them."

NOT_PRIVATE_MODELS = ("ALS", "Bias", "Popularity")  # the ceiling that noise keeps one from, and two floors

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
    duplicates: o.Duplicates = "error",
    unknown_items: o.UnknownItems = "error",
    format: o.Format = None,
    as_json: o.Json = False,
) -> None:
    """Measure a release on a file of other users' ratings, which is treated as public.

    Example: lowkey evaluate release others.parquet --user user --item item --rating rating
    """
    o.require("evaluate", {"--user": user, "--item": item}, f"lowkey evaluate {folder} {file} --user user --item item")
    o.check_file(file)
    assert user is not None
    assert item is not None
    screen = Screen(as_json=as_json)
    with screen.working("Evaluating"):
        from lowkey.evaluation.protocol import evaluate as measure
        from lowkey.evaluation.splits import fold_in_rows
        from lowkey.release import load

        model = load(folder)
        table = o.Table(file, user, item, rating, model.domain.rating_range, duplicates, unknown_items, format)
        histories, held_out = fold_in_rows(table.read(model.domain), fold_in, seed)
        figures = measure(model, histories, held_out, k)
    screen.table("", ["measure", "value"], [[name, f"{value:.4f}"] for name, value in figures.items()])
    screen.say(NOT_PRIVATE, "yellow")
    screen.result({**figures, "private": False})


def curve(
    file: o.Ratings,
    user: o.User = None,
    item: o.Item = None,
    rating: o.Rating = None,
    scale: o.Scale = None,
    binary: o.Binary = False,
    items: o.Items = None,
    items_column: o.ItemsColumn = None,
    epsilons: Annotated[str, typer.Option(help="The epsilons to try, with commas between.")] = "0.25,0.5,1,2,4,8",
    delta: o.Delta = None,
    expected_users: o.ExpectedUsers = None,
    method: o.Method = None,
    settings: o.Set = None,
    adjacency: o.Adjacency = "add-remove",
    k: K = 20,
    seed: Seed = 0,
    duplicates: o.Duplicates = "error",
    unknown_items: o.UnknownItems = "error",
    format: o.Format = None,
    as_json: o.Json = False,
) -> None:
    """Show quality against epsilon, with the non-private baselines beside it, on data that is treated as public.

    A tenth of the users is held out; each shows the model 80 % of the own ratings.

    Example: lowkey curve ratings.parquet --user user --item item --rating rating --scale 1 5 --items 1..1682 --delta 1e-6
    """
    o.require(
        "curve",
        {
            "--user": user,
            "--item": item,
            "--scale or --binary": scale or binary,
            "--items": items,
            "--delta or --expected-users": expected_users if delta is None else delta,
        },
        f"lowkey curve {file} --user user --item item --rating rating --scale 1 5 --items 1..1682 --delta 1e-6",
    )
    o.check_feedback(scale, binary, rating)
    o.check_file(file)
    assert user is not None
    assert item is not None
    assert items is not None
    wanted = _numbers(epsilons)
    screen = Screen(as_json=as_json)
    with screen.working("Fitting", len(wanted) + 1 + len(NOT_PRIVATE_MODELS)) as advance:
        from lowkey.cli.training import Order
        from lowkey.evaluation.protocol import evaluate as measure
        from lowkey.evaluation.splits import hold_out_users
        from lowkey.methods.registry import estimator

        table = o.Table(file, user, item, rating, scale, duplicates, unknown_items, format)
        order: dict[str, Any] = {
            "table": table,
            "delta": o.delta_for(delta, expected_users) or 0.0,
            "adjacency": adjacency,
            "method": method,
            "parameters": o.parameters(settings),
            "items": o.catalogue(items, items_column or item),
            "expected_users": expected_users,
        }
        orders = [(epsilon, Order(epsilon=epsilon, **order, goal="ratings")) for epsilon in wanted]
        domain = orders[0][1].domain()
        contestants = [(f"epsilon {epsilon:g}", one.build(domain)) for epsilon, one in orders]
        contestants += [(f"not private ({name})", estimator(name)()) for name in NOT_PRIVATE_MODELS]
        split = hold_out_users(table.read(domain), seed=seed)
        advance()
        found = {}
        for name, model in contestants:
            found[name] = measure(model.fit(split.train), split.histories, split.held_out, k)
            advance()
    show_figures(screen, f"{type(contestants[0][1]).__name__} against its baselines", found)
    screen.say(NOT_PRIVATE, "yellow")
    screen.result({"figures": found, "private": False})


def show_figures(screen: Screen, title: str, found: dict[str, dict[str, float]]) -> None:
    """One row per model, one column per measure; a dash where a model has none."""
    measures = list(dict.fromkeys(measure for figures in found.values() for measure in figures))
    rows = [[name, *(f"{figures[m]:.4f}" if m in figures else "-" for m in measures)] for name, figures in found.items()]
    screen.table("", [title, *measures], rows)


def _numbers(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers:
        refuse("--epsilons", got=repr(text), needed="numbers with commas between", try_="--epsilons 0.5,1,2")
    return numbers
