"""Public room: the options that several commands share, and what they mean.

Nothing heavy is imported at the top: `--help` must answer at once.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from lowkey.errors import refuse
from lowkey.methods.registry import private_methods

RATINGS = typer.Argument(
    help="The ratings: a file (parquet, csv, tsv, jsonl, arrow, feather, .inter), a folder of Parquet or of MovieLens, "
    "s3://, gs://, or a database: sqlite:///, duckdb:///, postgresql://.",
    show_default=False,
)
Ratings = Annotated[str, RATINGS]
Key = Annotated[
    str | None, typer.Option("--key", help="The curator's public key: a file, or its text.", show_default=False)
]
User = Annotated[str | None, typer.Option(help="The column with the users' ids.", show_default=False)]
Item = Annotated[str | None, typer.Option(help="The column with the items' ids.", show_default=False)]
Rating = Annotated[str | None, typer.Option(help="The column with the ratings.", show_default=False)]
Scale = Annotated[
    tuple[float, float] | None,
    typer.Option(help="The lowest and the highest possible rating.", metavar="LO HI", show_default=False),
]
Binary = Annotated[
    bool,
    typer.Option(
        "--binary",
        help="There are no ratings: who has what is all there is. A --rating of truth values says which rows count.",
    ),
]
Counts = Annotated[
    int | None,
    typer.Option(
        help="There are counts (plays, clicks) in --rating, or a row each; more than MOST is taken for MOST.",
        metavar="MOST",
        show_default=False,
    ),
]
Time = Annotated[
    str | None, typer.Option(help="The column with the times: --duplicates last is then the latest.", show_default=False)
]
Items = Annotated[
    str | None,
    typer.Option(
        help="The public catalogue: a file of ids, or a range such as 1..1682.", metavar="FILE|LO..HI", show_default=False
    ),
]
ItemsColumn = Annotated[
    str | None,
    typer.Option(help="The catalogue file's column with the ids \\[default: as --item].", show_default=False),
]
OutOfCore = Annotated[
    bool | None,
    typer.Option(
        "--out-of-core/--in-memory",
        help="Keep the ratings on disk, in a private folder that is removed afterwards \\[default: by size].",
        show_default=False,
    ),
]
Scratch = Annotated[
    Path | None, typer.Option(help="Where these are kept meanwhile \\[default: next to the file].", show_default=False)
]
Delta = Annotated[
    float | None,
    typer.Option(help="The chance that epsilon does not hold, far below 1/users.", show_default=False),
]
ExpectedUsers = Annotated[
    int | None,
    typer.Option(help="About how many users there are, from public knowledge: gives a delta.", show_default=False),
]
Adjacency = Annotated[str, typer.Option(help="add-remove, or replace-one if the number of users is public.")]
Method = Annotated[
    str | None,
    typer.Option(help=f"The method: {', '.join(private_methods())} \\[default: by a public rule].", show_default=False),
]
Goal = Annotated[str, typer.Option("--for", help="What the release is for: lists (what to take next) or ratings.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="A parameter of the method, such as --set n_iter=3.", metavar="NAME=VALUE", show_default=False
    ),
]
ExpectHead = Annotated[
    str | None,
    typer.Option(help="A head that this ledger once had: an older copy is refused.", metavar="HEAD", show_default=False),
]
PublicRatings = Annotated[
    Path | None,
    typer.Option(help="Ratings of people who are not protected, with the same columns: free.", show_default=False),
]
ItemFeatures = Annotated[
    Path | None, typer.Option(help="Public features, one row per item, with the column --item: free.", show_default=False)
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Folder = Annotated[Path, typer.Argument(help="The release folder.", show_default=False)]

EXAMPLE = "--user user --item item --rating rating --scale 1 5 --items 1..1682 --epsilon 1 --delta 1e-6 --out release"


def require(command: str, given: dict[str, Any], example: str) -> None:
    """One line for everything that is missing and has no safe default."""
    missing = [name for name, value in given.items() if value is None or value is False]
    if missing:
        refuse(
            f"options of {command}",
            got=f"no {', no '.join(missing)}",
            needed="all of these, as they have no safe default",
            try_=example,
        )


def check_engine(engine: str, master: str | None, partitions: int | None, out_of_core: bool | None) -> None:
    if engine not in ("local", "spark"):
        refuse("--engine", got=repr(engine), needed="local or spark", try_="leaving it out")
    if engine == "local" and (master is not None or partitions is not None):
        refuse("--master and --partitions", got="no --engine spark", needed="both or neither", try_="--engine spark")
    if engine == "spark" and out_of_core is not None:
        refuse("--engine spark", got="--out-of-core or --in-memory", needed="none: Spark decides", try_="leaving it out")


def delta_for(delta: float | None, expected_users: int | None) -> float | None:
    """The delta asked for, or from the expected number of users a power of ten of at most a hundredth of 1/users."""
    if delta is not None or expected_users is None:
        return delta
    if expected_users < 1:
        refuse("--expected-users", got=f"{expected_users}", needed="1 or more", try_="a public estimate")
    return 10.0 ** -(math.ceil(math.log10(expected_users)) + 2)


def parameters(settings: list[str] | None) -> dict[str, Any]:
    """--set n_iter=3 as {"n_iter": 3}."""
    found: dict[str, Any] = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals or not name.isidentifier():
            refuse("--set", got=repr(setting), needed="NAME=VALUE", try_="--set n_iter=3")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found
