"""Public room: `lowkey recommend`: what a release suggests to the owner of a history. The history is not kept."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.cli import options as o
from lowkey.cli.screen import Screen
from lowkey.errors import refuse


def recommend(
    folder: o.Folder,
    history: Annotated[
        str | None,
        typer.Option(
            help="A csv file with your items and ratings; - reads a JSON object per line and user.", show_default=False
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", help="How many items.")] = 10,
    item: Annotated[str, typer.Option(help="The column with the items' ids.")] = "item",
    rating: Annotated[str, typer.Option(help="The column with the ratings; not needed for binary feedback.")] = "rating",
    unknown_items: o.UnknownItems = "error",
    as_json: o.Json = False,
) -> None:
    """Recommend items from a release to the owner of a history.

    With --history - each line is {"history": {"item id": rating, ...}}, or {"history": [ids]} for binary feedback, and may
    have more fields, which come back with its answer.

    Example: lowkey recommend release --history mine.csv
    """
    o.require("recommend", {"--history": history}, f"lowkey recommend {folder} --history mine.csv")
    assert history is not None
    if unknown_items not in ("error", "drop"):
        refuse("--unknown-items", got=repr(unknown_items), needed="error or drop", try_="--unknown-items drop")
    screen = Screen(as_json=as_json)
    from lowkey.release import load

    model = load(folder)
    if history == "-":
        for request in _requests(sys.stdin):
            ids, scores = _best(model, _known(model, request.pop("history"), unknown_items), n)
            print(json.dumps({**request, "items": ids, "scores": scores}, ensure_ascii=False), flush=True)
        return
    mine = read_history(Path(history), item, None if model.domain.feedback == "binary" else rating)
    mine = _known(model, mine, unknown_items)
    ids, scores = _best(model, mine, n)
    shown = model.predict(mine, ids) if model.settings.get("rating_range") else scores
    rows = [[str(found), f"{score:.3g}"] for found, score in zip(ids, shown, strict=True)]
    screen.table("", ["item", "expected rating" if model.settings.get("rating_range") else "score"], rows)
    screen.result({"items": ids, "scores": scores})


def _known(model: Any, history: Any, unknown_items: str) -> Any:
    if not isinstance(history, dict | list):
        refuse(
            "a history", got="something else", needed="an object {item id: rating}, or a list of ids", try_='{"17": 4.5}'
        )
    if unknown_items == "drop" and history:
        known = model.domain.positions([str(key) for key in history]) >= 0
        kept = [key for key, there in zip(history, known, strict=True) if there]
        history = {key: history[key] for key in kept} if isinstance(history, dict) else kept
    return history


def _best(model: Any, history: Any, n: int) -> tuple[list[Any], list[float]]:
    keys = [str(key) for key in history]
    if len(set(keys)) < len(keys):
        refuse("a history", got="the same item twice", needed="each item once", try_="keeping the last")
    found, scores = model.recommend(history if isinstance(history, dict) else keys, n=n)
    return found.tolist(), [float(score) for score in scores]


def _requests(lines: Any) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except ValueError:
            request = None
        if not isinstance(request, dict) or "history" not in request:
            refuse(
                "a line of the input",
                got="something else",
                needed='{"history": {"item id": 4.5}}',
                try_="one object a line",
            )
        yield request


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
