"""Public room: `lowkey recommend` and `lowkey similar`: what a release suggests. Histories are not kept."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.export import read_titles
from lowkey.cli.screen import Screen
from lowkey.cli.table import AS_WRITTEN, Duplicates, Missing, Table, UnknownItems, Written
from lowkey.errors import LowkeyError, refuse

Titles = Annotated[
    Path | None,
    typer.Option(help="A csv file with the columns item and title, or a MovieLens folder.", show_default=False),
]


def recommend(
    folder: o.Folder,
    history: Annotated[
        str | None,
        typer.Option(
            help="A file with your items and ratings (with --user: everybody's); - reads a JSON object per line and user.",
            show_default=False,
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many items.")] = 10,
    user: Annotated[
        str | None, typer.Option(help="The column with the users: lists for all of them.", show_default=False)
    ] = None,
    item: Annotated[str, typer.Option(help="The column with the items' ids.")] = "item",
    rating: Annotated[str, typer.Option(help="The column with the ratings; not needed for binary feedback.")] = "rating",
    out: Annotated[
        Path | None, typer.Option(help="With --user: a .parquet, .csv or .jsonl file to write.", show_default=False)
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Nothing but these: an id, or a file with an id per line; may be repeated.", show_default=False),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="None of these, given as for --only.", show_default=False)
    ] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also what is in the history.")] = False,
    why: Annotated[
        str | None,
        typer.Option(help="Instead of a list: what each of your items adds to this one.", metavar="ID", show_default=False),
    ] = None,
    titles: Titles = None,
    unknown_items: UnknownItems = "error",
    duplicates: Duplicates = None,
    time: o.Time = None,
    missing: Missing = "error",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="With --history -: tell of bad lines, and go on.")] = False,
    written: Written = AS_WRITTEN,
    as_json: o.Json = False,
) -> None:
    """Recommend items from a release to the owner of a history, or to all users of a file.

    With --history - each line is {"history": {"item id": rating, ...}}, or {"history": [ids]} for binary feedback, and may
    have more fields, which come back with its answer.

    Example: lowkey recommend release --history mine.csv
    """
    o.require("recommend", {"--history": history}, f"lowkey recommend {folder} --history mine.csv")
    assert history is not None
    if unknown_items not in ("error", "drop"):
        refuse("--unknown-items", got=repr(unknown_items), needed="error or drop", try_="--unknown-items drop")
    if (out is not None) != (user is not None) or (user is not None and (history == "-" or why is not None)):
        refuse("--user and --out", got="one without the other, or with - or --why", needed="both, for lists of all users",
               try_="--history ratings.csv --user user --out lists.parquet")  # fmt: skip
    screen = Screen(as_json=as_json)
    from lowkey.release import load

    model, names = load(folder), read_titles(titles) or {}
    options: dict[str, Any] = {
        "n": n,
        "items": None if only is None else _ids(only),
        "exclude": _ids(exclude or []),
        "exclude_seen": not include_seen,
        "unknown": "ignore" if unknown_items == "drop" else "error",
    }
    if history == "-":
        _answer_lines(model, options, skip_bad)
        return
    values = None if model.domain.feedback == "binary" else rating
    if user is not None and out is not None:
        how = {"time": time, "duplicates": duplicates, "missing": missing, **written.of_table()}
        _lists_for_all(model, Table(history, user, item, values, None, **how), options, out, screen)
        return
    mine = read_history(Path(history), item, values)
    if why is not None:
        _show_why(model, _known(model, mine, options["unknown"]), why, names, screen)
        return
    found = model.recommend(mine, **options)
    if not model.settings.get("rating_range"):
        _show(found, names, "score", screen, ignored=found.ignored)
        return
    expected = model.predict(_known(model, mine, options["unknown"]), list(found.ids))  # ranked by more than these
    _show(found, names, "expected rating", screen, expected, ignored=found.ignored)


def similar(
    folder: o.Folder,
    item: Annotated[str, typer.Argument(help="The item's id.", show_default=False)],
    n: Annotated[int, typer.Option("--n", "-n", help="How many items.")] = 10,
    titles: Titles = None,
    as_json: o.Json = False,
) -> None:
    """The items of a release that are most like one of them.

    Example: lowkey similar release 17
    """
    from lowkey.release import load

    _show(load(folder).similar_items(item, n), read_titles(titles) or {}, "likeness", Screen(as_json=as_json))


def _show(found: Any, names: dict[str, str], heading: str, screen: Screen, shown: Any = None, **more: Any) -> None:
    ids, scores = found[0].tolist(), [float(score) for score in found[1]]
    values = scores if shown is None else shown
    rows = [[*_named(item, names), f"{value:.3g}"] for item, value in zip(ids, values, strict=True)]
    screen.table("", ["item", *(["title"] if names else []), heading], rows)
    if more.get("ignored"):
        screen.say(f"{more['ignored']} of the history's items are not in the catalogue, and were left out.")
    with_titles = {"titles": [names.get(str(item)) for item in ids]} if names else {}
    screen.result({"items": ids, "scores": scores, **with_titles, **more})


def _named(item: Any, names: dict[str, str]) -> list[str]:
    return [str(item), names.get(str(item), "")] if names else [str(item)]


def _show_why(model: Any, mine: Any, item: str, names: dict[str, str], screen: Screen) -> None:
    found = model.explain(mine, item)
    rows = [[*_named("for somebody new", dict.fromkeys(["for somebody new"], "") if names else {}), f"{found.base:+.3g}"]]
    rows += [[*_named("how you rate at large", names), f"{found.offset:+.3g}"]] if found.offset else []
    rows += [[*_named(part, names), f"{value:+.3g}"] for part, value in found.parts]
    total = " ".join(_named(found.item, names)).strip()
    screen.table("", [f"why {total}", *(["title"] if names else []), f"adds to its {found.by}"], rows)
    screen.say(f"together {found.score:.3g}, before it is clipped to a scale")
    parts = [{"item": part, "value": value} for part, value in found.parts]
    screen.result({"item": found.item, "by": found.by, "base": found.base, "offset": found.offset, "parts": parts})


def _known(model: Any, mine: Any, unknown: str) -> Any:
    """The history without what the catalogue does not have, if that may be left out."""
    if unknown == "error" or not mine:
        return mine
    kept = [key for key, at in zip(mine, model.domain.positions(list(mine)), strict=True) if at >= 0]
    return {key: mine[key] for key in kept} if isinstance(mine, dict) else kept


def _ids(given: list[str]) -> list[str]:
    """Ids as they are, or those in a file, one a line."""
    found: list[str] = []
    for one in given:
        path = Path(one)
        if path.suffix in (".txt", ".csv") and path.is_file():
            found += [line.strip() for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
        else:
            found.append(one)
    return found


def _lists_for_all(model: Any, table: Table, options: dict[str, Any], out: Path, screen: Screen) -> None:
    import pyarrow as pa

    from lowkey.data.columns import ColumnNames
    from lowkey.data.formats import format_of, read_columns
    from lowkey.data.sources import existing_path
    from lowkey.data.text_files import Text

    check_table_file(out)
    file = existing_path(table.file, "--history")
    names = ColumnNames(table.user, table.item, table.rating, table.time)
    columns = read_columns(file, format_of(file, table.format), names, model.domain.item_ids.type, Text(**table.text))
    given = {name: getattr(table, name) for name in ("user", "item", "rating", "time", "duplicates", "missing")}
    asked: Any = {name: value for name, value in given.items() if value is not None}
    found = model.recommend(pa.table(columns), **options, **asked)
    write_table(found, out)
    ignored = "" if "ignored" not in found.column_names else "; how many items were left out is in the column ignored"
    screen.say(f"Wrote lists of {options['n']} items for every user to {out}: user, item, score, rank{ignored}.")
    screen.result({"file": str(out), "columns": found.column_names})


def _answer_lines(model: Any, options: dict[str, Any], skip_bad: bool) -> None:
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            answer = _answered(model, line, options)
        except LowkeyError as error:  # the number is that of the caller's own line
            told = f"line {number} of the input: {error}"
            if not skip_bad:
                refuse(f"line {number} of the input, {error.what}", got=error.got, needed=error.needed, try_=error.try_)
            print(f"lowkey: {told}", file=sys.stderr)
            continue
        print(json.dumps(answer, ensure_ascii=False), flush=True)


def _answered(model: Any, line: str, options: dict[str, Any]) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except ValueError:
        request = None
    needed = '{"history": {"item id": 4.5}}'
    if not isinstance(request, dict) or not isinstance(request.get("history"), dict | list):
        refuse("the object", got="something else", needed=needed, try_="one object a line")
    history = request.pop("history")
    mine = history if isinstance(history, dict) else [str(key) for key in history]
    found = model.recommend(mine, **options)
    more = {"ignored": found.ignored} if options["unknown"] == "ignore" else {}
    return {**request, "items": found.ids.tolist(), "scores": found.scores.tolist(), **more}


def read_history(path: Path, item: str, rating: str | None) -> Any:
    if not path.is_file():
        refuse("--history", got=f"{str(path)!r}, which does not exist", needed="a csv file, or -", try_="another path")
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        names = [item] if rating is None else [item, rating]
        if missing := [name for name in names if name not in (reader.fieldnames or [])]:
            refuse("--history", got=f"no column {missing[0]!r}", needed="a header with it", try_="--item and --rating")
        rows = list(reader)
    ids = [row[item] for row in rows]
    if rating is None:
        return ids
    try:
        history = {row[item]: float(row[rating]) for row in rows}
    except (TypeError, ValueError):
        refuse("--history", got=f"something in {rating!r} that is no number", needed="numbers", try_="another --rating")
    if len(history) < len(ids):
        refuse("--history", got="the same item twice", needed="each item once", try_="keeping the last")
    return history


ENDINGS = (".parquet", ".csv", ".jsonl")


def check_table_file(path: Path) -> None:
    """Before anything is computed."""
    if path.suffix not in ENDINGS or not path.absolute().parent.is_dir():
        refuse("--out", got=repr(str(path)), needed=f"a name that ends in {', '.join(ENDINGS)}, in a folder that exists",
               try_="--out lists.parquet")  # fmt: skip


def write_table(table: Any, path: Path) -> None:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(table, path)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist())
