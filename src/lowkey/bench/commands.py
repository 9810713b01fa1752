"""Lab room: `lowkey bench`: methods side by side on one data set. Its numbers are NOT private: for public data only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lowkey.errors import refuse


def bench(
    data: Annotated[str, typer.Option(help="A named data set; --data list shows the names.")],
    methods: Annotated[str, typer.Option(help="Names with commas between.")] = "bias,moments,Bias,Popularity",
    epsilons: Annotated[str, typer.Option(help="Numbers with commas between.")] = "1,5,20",
    draws: Annotated[int, typer.Option(help="Fits of every method at every epsilon.")] = 3,
    delta: Annotated[float, typer.Option(help="The delta of all of them.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(help="add-remove or replace-one.")] = "add-remove",
    split: Annotated[int, typer.Option(help="The seed of the split.")] = 0,
    results: Annotated[Path | None, typer.Option(help="JSON lines: rows found there are kept, new ones appended.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Compare methods: same split, same adjacency, same delta, same accounting.

    Example: lowkey bench --data jester --methods bias,moments,Bias --epsilons 0.5,1,5 --draws 5
    """
    from lowkey.bench import compare, datasets

    if data == "list":
        for name, make in datasets.DATASETS.items():
            typer.echo(f"{name:<20} {(make.__doc__ or '').splitlines()[0] if make.__doc__ else ''}")
        return
    try:
        wanted = [float(e) for e in epsilons.split(",")]
    except ValueError:
        refuse("--epsilons", got=repr(epsilons), needed="numbers with commas between", try_="--epsilons 1,5,20")
    shared = {"split_seed": split, "delta": delta, "adjacency": adjacency}
    todo = compare.tasks(data, [m.strip() for m in methods.split(",")], wanted, draws, **shared)
    rows = _with_progress(todo, results, quiet or as_json)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
        return
    _print_table(compare.table(rows))
    typer.echo(
        f"delta = {delta:g}, {adjacency}, exact accounting, split {split}; ± is the standard error over noise draws."
    )
    typer.echo("Computed on data treated as public: these numbers are not private.")


def _with_progress(todo: list, results: Path | None, quiet: bool) -> list:
    from rich.console import Console
    from rich.progress import Progress

    from lowkey.bench import compare

    with Progress(console=Console(stderr=True), disable=quiet) as progress:
        bar = progress.add_task("fits", total=len(todo))
        return compare.run(todo, results, on_row=lambda row: progress.advance(bar))


def _print_table(lines: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*lines[0])
    for line in lines[1:]:
        table.add_row(*line)
    Console().print(table)
