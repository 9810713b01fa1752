"""Lab room: `lowkey evaluate`, and `lowkey curve`: quality against epsilon. Their numbers come from single users' data that
are treated as public, and are not private.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.cli.table import AS_USUAL, UNNAMED, Columns, Table, Tidy, check_file
from lowkey.errors import refuse

if TYPE_CHECKING:
    from lowkey.cli.training import Order


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


EXACT_EPSILON = 1e4  # what a method without noise is told: defaults that follow the noise level expect next to none
QUICK_HEAD = 1024  # items among which lists have personal weights: twice as many take eight times as long
QUICK_SCORES = 100_000_000  # of the people held out, at a measurement
FEWEST_TESTED = 500
SMALL = 500  # items of a catalogue to compile on
KEPT = 0.8  # of what the method brings without noise: from there on an epsilon is recommended
CEILING = "without noise"
FLOORS = {"Popularity": "most popular", "Bias": "averages"}


def curve(
    file: o.Ratings,
    columns: Columns = UNNAMED,
    epsilons: Annotated[
        str, typer.Option(help="The epsilons to try, with commas between; inf is without noise.")
    ] = "0.25,0.5,1,2,4,8",
    delta: o.Delta = None,
    expected_users: o.ExpectedUsers = None,
    goal: o.Goal = "lists",
    method: o.Method = None,
    settings: o.Set = None,
    adjacency: o.Adjacency = "add-remove",
    figure: Annotated[
        Path | None, typer.Option(help="Draw it in this file.", metavar="FILE.svg", show_default=False)
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="As `release` does it, however long that takes on a large catalogue.")
    ] = False,
    k: K = 20,
    seed: Seed = 0,
    tidy: Tidy = AS_USUAL,
    as_json: o.Json = False,
) -> None:
    """Show quality against epsilon, between a floor (what is popular, or average) and a ceiling (the method without noise).

    For data that is treated as public. A tenth of the users is held out; each shows the model 80 % of the own entries. On a
    large catalogue fewer people are held out, and lists have personal weights among 1,024 items at most; --full takes all.

    Example: lowkey curve ratings.parquet --user user --item item --rating rating --scale 1 5 --items 1..1682 --delta 1e-6
    """
    o.require(
        "curve",
        {
            **columns.needed(),
            "--items": columns.items,
            "--delta or --expected-users": expected_users if delta is None else delta,
        },
        f"lowkey curve {file} --user user --item item --rating rating --scale 1 5 --items 1..1682 --delta 1e-6",
    )
    table = columns.table(file, **tidy.of_table())
    wanted = _epsilons(epsilons)
    if figure is not None and (figure.suffix != ".svg" or not figure.absolute().parent.is_dir()):
        refuse("--figure", got=repr(str(figure)), needed="a name that ends in .svg, in a folder that exists",
               try_="--figure curve.svg")  # fmt: skip
    screen = Screen(as_json=as_json)
    with screen.working("Starting"):
        from lowkey.cli.training import Order

    order: dict[str, Any] = {
        "table": table,
        "delta": o.delta_for(delta, expected_users) or 0.0,
        "adjacency": adjacency,
        "method": method,
        "parameters": o.parameters(settings),
        "items": columns.catalogue(),
        "expected_users": expected_users,
        "goal": goal,
    }
    orders = {epsilon: Order(epsilon=min(epsilon, EXACT_EPSILON), **order) for epsilon in (*wanted, math.inf)}
    runs = _runs(orders)
    found = _measure(runs, table, orders[math.inf], screen, (k, seed, full))
    measure = f"recall@{k}" if runs[-1].method == "Popularity" else "rmse"
    by_epsilon = {run.epsilon: found[run.name] for run in runs if run.epsilon is not None}
    verdict = judge(by_epsilon, found[runs[-1].name], measure, FLOORS[runs[-1].method])
    show_figures(screen, f"{runs[0].method} against its floor and ceiling", found)
    screen.say(verdict.sentence, "bold")
    if figure is not None:
        from lowkey.report.charts import quality_figure

        levels = {CEILING: verdict.ceiling, runs[-1].name: verdict.floor}
        figure.write_text(quality_figure(measure, verdict.values, levels, verdict.epsilon), "utf-8")
        screen.say(f"Drawn in {figure}.")
    screen.say(NOT_PRIVATE, "yellow")
    screen.result({"figures": found, "recommended_epsilon": verdict.epsilon, "verdict": verdict.sentence, "private": False})


class Run(NamedTuple):
    name: str
    method: str
    epsilon: float | None  # None: the floor; infinite: without noise
    model: Any


def _runs(orders: dict[float, Order]) -> list[Run]:
    """Every epsilon; without noise, the ceiling; and the floor."""
    from lowkey.evaluation.protocol import exact_twin
    from lowkey.methods.registry import estimator

    runs: list[Run] = []
    for epsilon, order in orders.items():
        made: Any = order.build()
        name, method = f"epsilon {epsilon:g}", type(made).__name__
        if math.isinf(epsilon):
            name, made = CEILING, exact_twin(type(made))(**made.get_params(deep=False))
        runs.append(Run(name, method, epsilon, made))
    last = next(reversed(orders.values()))
    floor = "Popularity" if last.goal == "lists" or last.table.scale is None else "Bias"
    return [*runs, Run(FLOORS[floor], floor, None, estimator(floor)())]


def _measure(
    runs: list[Run], table: Table, order: Order, screen: Screen, asked: tuple[int, int, bool]
) -> dict[str, dict[str, float]]:
    from sklearn.base import clone

    from lowkey.cli.paid import made_up_people
    from lowkey.evaluation.protocol import evaluate
    from lowkey.evaluation.splits import hold_out_users

    (k, seed, full), domain = asked, order.domain
    with screen.working("Reading the data"):
        rows = table.read(domain)
        people = rows._open_csr().shape[0]
        most = people if full else max(FEWEST_TESTED, QUICK_SCORES // domain.n_items)
        split = hold_out_users(rows, 0.1 if 0.1 * people <= most else most, seed=seed)
    with screen.working("Compiling what is needed"):  # once, so that the time left is that of the fits
        few = domain if order.parameters else replace(order, items=range(min(domain.n_items, SMALL))).domain
        for one in {run.method: run for run in runs}.values():
            fresh: Any = clone(one.model)
            fresh.fit(made_up_people(few))
    found = {}
    with screen.working("Fitting and measuring", len(runs)) as advance:
        for run in runs:
            settings = run.model.resolve(domain) if full else _quick(run.model.resolve(domain))
            found[run.name] = evaluate(run.model.fit(split.train, settings=settings), split.histories, split.held_out, k)
            advance()
    return found


def _quick(settings: Any) -> Any:
    """Settings with a smaller head, where there is one: its matrices take most of the time."""
    head = getattr(settings, "largest_head", 0)
    return replace(settings, largest_head=QUICK_HEAD) if head > QUICK_HEAD else settings


class Verdict(NamedTuple):
    """What the figures say: the measure, its value per epsilon, floor and ceiling, and the epsilon to take, if any."""

    measure: str
    values: dict[float, float]
    floor: float
    ceiling: float
    epsilon: float | None
    sentence: str


def judge(figures: dict[float, dict[str, float]], floor: dict[str, float], measure: str, floor_name: str) -> Verdict:
    """The smallest epsilon that keeps most of what the method brings; or that the floor is as good, or better."""
    better = -1.0 if measure == "rmse" else 1.0
    values = {epsilon: found[measure] for epsilon, found in figures.items()}
    ceiling, low = values.pop(math.inf), floor[measure]
    gains = {epsilon: better * (value - low) for epsilon, value in values.items()}
    most = better * (ceiling - low)
    enough = [epsilon for epsilon in sorted(gains) if gains[epsilon] >= KEPT * most > 0.0]
    if enough:
        share = min(gains[enough[0]] / most, 1.0)
        said = (
            f"Recommended: epsilon {enough[0]:g}, the smallest here that keeps at least {KEPT:.0%} of what the method "
            f"brings over {floor_name} ({share:.0%} by {measure})."
        )
    elif most <= 0.0:
        said = f"{floor_name.capitalize()} wins: by {measure} the method brings nothing over it here, even without noise."
    elif max(gains.values(), default=0.0) <= 0.0:
        said = (
            f"{floor_name.capitalize()} wins: by {measure} no epsilon here is better. Try more users, a larger epsilon, or "
            "--method bias, which is that and costs less."
        )
    else:
        best = max(gains, key=lambda epsilon: gains[epsilon])
        said = (
            f"No epsilon here keeps {KEPT:.0%} of what the method brings over {floor_name}; epsilon {best:g} comes nearest "
            f"({gains[best] / most:.0%} by {measure})."
        )
    return Verdict(measure, values, low, ceiling, enough[0] if enough else None, said)


def _epsilons(text: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    finite = sorted({number for number in numbers if not math.isinf(number)})
    if not finite or any(not number > 0.0 for number in numbers):
        refuse("--epsilons", got=repr(text), needed="numbers above 0 with commas between, and inf if you like",
               try_="--epsilons 0.5,1,2,inf")  # fmt: skip
    return finite
