"""Lab room: `lowkey bench` and `lowkey reproduce`. Their numbers are NOT private: for public data only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.errors import refuse

NOT_PRIVATE = "Computed on data treated as public: these numbers are not private."


def bench(
    data: Annotated[str, typer.Option(help="Names with commas between, `standard`, or a file; `list` shows the names.")],
    methods: Annotated[str, typer.Option(help="Names with commas between.")] = "bias,moments,Bias,Popularity",
    epsilons: Annotated[str, typer.Option(help="Numbers with commas between.")] = "1,5,20",
    draws: Annotated[int, typer.Option("--draws", "--seeds", help="Fits of every method at every epsilon.")] = 3,
    delta: Annotated[float, typer.Option(help="The delta of all of them.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(help="add-remove or replace-one.")] = "add-remove",
    split: Annotated[int, typer.Option(help="The seed of the split.")] = 0,
    user: Annotated[str, typer.Option(help="Of a file: the column of user ids.")] = "user",
    item: Annotated[str, typer.Option(help="Of a file: the column of item ids.")] = "item",
    rating: Annotated[str | None, typer.Option(help="Of a file: the column of ratings; without it, binary.")] = None,
    scale: Annotated[tuple[float, float] | None, typer.Option(help="Of a file: lowest and highest rating.")] = None,
    exact: Annotated[bool, typer.Option(help="Each private method without noise, too. NOT PRIVATE.")] = True,
    bounds: Annotated[bool, typer.Option(help="What is trivial, and what is tuned without noise, beside them.")] = True,
    oracle_tuning: Annotated[bool, typer.Option(help="The best candidate by the test users. NOT PRIVATE.")] = False,
    private_selection: Annotated[bool, typer.Option(help="Candidates selected by noisy scores, priced.")] = False,
    ablation: Annotated[bool, typer.Option(help="DPFactors, each lever switched off once, in place of --methods.")] = False,
    results: Annotated[Path | None, typer.Option(help="JSON lines: rows found there are kept, new ones appended.")] = None,
    jobs: Annotated[int, typer.Option(help="How many fits run at once, each in its own process.")] = 1,
    table: Annotated[str, typer.Option(help="text, markdown or latex.")] = "text",
    figures: Annotated[Path | None, typer.Option(help="A folder for figures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:  # fmt: skip
    """Compare methods: same split, same adjacency, same delta, same accounting.

    Example: lowkey bench --data jester,ml-1m --methods bias,moments,Bias --epsilons 0.5,1,5 --draws 5
    """
    from lowkey_lab import compare, datasets, gains, tables, tuning

    if data == "list":
        typer.echo("\n".join(f"{name:<20} {datasets.about(name)}" for name in datasets.DATASETS))
        typer.echo(f"{'standard':<20} {', '.join(datasets.STANDARD)}")
        return
    if table not in tables.FORMATS:
        refuse("--table", got=repr(table), needed=" | ".join(tables.FORMATS), try_="--table markdown")
    if oracle_tuning and private_selection:
        refuse("tuning", got="both", needed="--oracle-tuning or --private-selection", try_="one of the two")
    if draws < 1 or jobs < 1:
        refuse("--draws and --jobs", got="less than 1", needed="1 or more of each", try_="--draws 3 --jobs 2")
    protocol = tuning.ORACLE if oracle_tuning else tuning.SELECTION if private_selection else tuning.DEFAULTS
    shared = {"split_seed": split, "delta": delta, "adjacency": adjacency, "tuning": protocol}
    todo: list[Any] = []
    beside = gains.BOUNDS if bounds else ()
    for name in datasets.STANDARD if data == "standard" else _words(data):
        file = None if name in datasets.DATASETS else datasets.File(user, item, rating, scale)
        if ablation:
            from lowkey_lab.factors import ablation_lines

            lines = ablation_lines(name, _numbers(epsilons), draws, results, **{**shared, "file": file})
            typer.echo(f"{tables.FORMATS[table](lines)}\ndelta = {delta:g}, {adjacency}, split {split}. {NOT_PRIVATE}")
            continue
        run = dict.fromkeys((*_words(methods), *beside))
        todo += compare.tasks(name, list(run), _numbers(epsilons), draws, exact=exact, **shared, file=file)
    if ablation:
        return
    rows = _with_progress(todo, results, quiet or as_json, jobs)
    if figures is not None:
        from lowkey_lab.figures import draw_all

        for path in draw_all([row for row in rows if row["tuning"] != tuning.BOUND], figures):
            typer.echo(f"wrote {path}", err=True)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
        return
    if bounds:
        typer.echo(tables.FORMATS[table](gains.lines(rows)) + "\n")
    typer.echo(tables.FORMATS[table](tables.comparison(rows)))
    for statement in dict.fromkeys(f"{row['method']}: {row['how_tuned']}" for row in rows if "how_tuned" in row):
        typer.echo(f"  {statement}")
    refused = (row for row in rows if "refused" in row and row["tuning"] != tuning.BOUND)
    for refusal in dict.fromkeys(f"{row['method']} on {row['data']}: {row['refused']}" for row in refused):
        typer.echo(f"  {refusal}")
    typer.echo(f"delta = {delta:g}, {adjacency}, exact accounting, split {split}; ± is the standard error over draws.")
    typer.echo(NOT_PRIVATE)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in _words(text)]
    except ValueError:
        return refuse("--epsilons", got=repr(text), needed="numbers with commas between", try_="--epsilons 1,5,20")


def _with_progress(todo: list[Any], results: Path | None, quiet: bool, jobs: int) -> list[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from lowkey_lab import compare

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=quiet) as progress:
        bar = progress.add_task("fits", total=len(todo))
        told = lambda row: progress.update(bar, advance=1, description=f"{row['data']} {row['method']}")
        return compare.run(todo, results, on_row=told, jobs=jobs)


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, several with commas between, or `all`; `list` shows them.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small and with few draws: minutes for all of them.")] = False,
    jobs: Annotated[int, typer.Option(help="How many experiments run at once, each in its own process.")] = 1,
    out: Annotated[Path | None, typer.Option(help="A folder for the claims and the rows behind them, as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON lines.")] = False,
) -> None:
    """Run the papers' experiments: what each claims, what comes out here, and whether it holds.

    Example: lowkey reproduce all --quick
    """
    from lowkey_lab import reproduce as experiments

    if name == "list":
        typer.echo("\n".join(f"{key:<18} {value.paper}" for key, value in experiments.EXPERIMENTS.items()))
        return
    verdicts: list[str] = []
    pieces = None if out is None or quick else out / "pieces"
    for report in experiments.reproduce(experiments.names(name), quick, jobs, pieces):
        verdicts += [claim.verdict for claim in report.claims]
        if out is not None:
            experiments.save(report, out)
        if as_json:
            typer.echo(json.dumps({**report.to_json(), "rows": None}))
            continue
        typer.echo(f"{report.name}: {report.paper}{', quick form' if quick else ''}, {report.seconds:.0f} s")
        for claim in report.claims:
            typer.echo(f"  claim    {claim.paper}{f' ({claim.place})' if claim.place else ''}")
            for column, finding in claim.columns.items():
                typer.echo(f"  {column:<16} {finding.verdict.upper()}: {finding.figures} ({finding.algorithm})")
            if claim.ours:
                typer.echo(f"  ours     {claim.ours}")
            typer.echo(f"  verdict  {claim.verdict.upper()}{f': {claim.reason}' if claim.reason else ''}\n")
    if not as_json:
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        typer.echo(f"{len(verdicts)} claims: {counts}. {NOT_PRIVATE}")
