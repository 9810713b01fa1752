"""Public room: the options that several commands share, and what they mean.

Nothing heavy is imported at the top: `--help` must answer at once.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowkey.errors import refuse

if TYPE_CHECKING:
    from lowkey.data.domain import Domain

Ratings = Annotated[
    Path, typer.Argument(help="The ratings: parquet, csv, tsv, ratings.dat, u.data or .inter.", show_default=False)
]
User = Annotated[str | None, typer.Option(help="The column with the users' ids.", show_default=False)]
Item = Annotated[str | None, typer.Option(help="The column with the items' ids.", show_default=False)]
Rating = Annotated[str | None, typer.Option(help="The column with the ratings.", show_default=False)]
Scale = Annotated[
    tuple[float, float] | None,
    typer.Option(help="The lowest and the highest possible rating.", metavar="LO HI", show_default=False),
]
Binary = Annotated[bool, typer.Option("--binary", help="There are no ratings: who has what is all there is.")]
Items = Annotated[
    str | None,
    typer.Option(
        help="The public catalogue: a file of ids, or a range such as 1..1682.", metavar="FILE|LO..HI", show_default=False
    ),
]
ItemsColumn = Annotated[
    str | None, typer.Option(help="The column of the catalogue file with the ids [default: as --item].", show_default=False)
]
Duplicates = Annotated[str, typer.Option(help="A pair of user and item that occurs again: error, last, mean or sum.")]
UnknownItems = Annotated[str, typer.Option(help="Items that the catalogue does not have: error or drop.")]
Format = Annotated[str | None, typer.Option(help="The file's format, if its name does not tell.", show_default=False)]
OutOfCore = Annotated[
    bool | None,
    typer.Option(
        "--out-of-core/--in-memory",
        help="Keep the ratings on disk, in a private folder that is removed afterwards [default: by size].",
        show_default=False,
    ),
]
Scratch = Annotated[
    Path | None, typer.Option(help="Where these are kept meanwhile [default: next to the file].", show_default=False)
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
Method = Annotated[str | None, typer.Option(help="The method [default: by a public rule].", show_default=False)]
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Folder = Annotated[Path, typer.Argument(help="The release folder.", show_default=False)]

EXAMPLE = "--user user --item item --rating rating --scale 1 5 --items 1..1682 --epsilon 1 --delta 1e-6 --out release"


@dataclass(frozen=True)
class Table:
    """How the ratings are to be read."""

    file: Path
    user: str
    item: str
    rating: str | None
    scale: tuple[float, float] | None
    duplicates: str = "error"
    unknown_items: str = "error"
    format: str | None = None
    out_of_core: bool | None = None  # None: by size
    scratch: Path | None = None

    @property
    def feedback(self) -> str:
        return "binary" if self.scale is None else "ratings"

    def read(self, domain: Domain, progress: Any = lambda done: None) -> Any:
        from lowkey.data.readers import read_ratings

        return read_ratings(
            self.file,
            domain,
            user=self.user,
            item=self.item,
            rating=self.rating,
            duplicates=self.duplicates,
            unknown_items=self.unknown_items,
            format=self.format,
            out_of_core=self.out_of_core,
            scratch=self.scratch,
            progress=progress,
        )

    def read_uncatalogued(self, progress: Any = lambda done: None) -> Any:
        from lowkey.data.readers import read_uncatalogued

        return read_uncatalogued(
            self.file,
            user=self.user,
            item=self.item,
            rating=self.rating,
            rating_range=self.scale,
            feedback=self.feedback,
            duplicates=self.duplicates,
            format=self.format,
            out_of_core=self.out_of_core,
            scratch=self.scratch,
            progress=progress,
        )


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


def check_feedback(scale: tuple[float, float] | None, binary: bool, rating: str | None) -> None:
    if binary and scale is not None:
        refuse(
            "--binary", got="--scale too", needed="one of the two", try_="--scale for ratings, --binary for who has what"
        )
    if scale is not None and not -3e38 < scale[0] < scale[1] < 3e38:
        refuse(
            "--scale", got=f"{scale[0]:g} {scale[1]:g}", needed="the lowest, then the highest rating", try_="--scale 0.5 5"
        )
    if scale is not None and rating is None:
        refuse("--scale", got="no --rating", needed="the column with the ratings", try_="--rating rating, or --binary")


def check_engine(engine: str, master: str | None, partitions: int | None, out_of_core: bool | None) -> None:
    if engine not in ("local", "spark"):
        refuse("--engine", got=repr(engine), needed="local or spark", try_="leaving it out")
    if engine == "local" and (master is not None or partitions is not None):
        refuse("--master and --partitions", got="no --engine spark", needed="both or neither", try_="--engine spark")
    if engine == "spark" and out_of_core is not None:
        refuse("--engine spark", got="--out-of-core or --in-memory", needed="none: Spark decides", try_="leaving it out")


def check_file(file: Path) -> None:
    """Before anything is imported: a mistyped name is the commonest mistake."""
    if not file.exists():
        refuse("the ratings file", got=f"{str(file)!r}, which does not exist", needed="a file", try_="another path")


def catalogue(items: str, column: str) -> Any:
    """The ids of a public catalogue: a range of integers, or a file."""
    if written := re.fullmatch(r"(-?\d{1,18})\.\.(-?\d{1,18})", items):
        import numpy as np

        low, high = int(written[1]), int(written[2])
        if not 0 <= high - low < 2**31:
            refuse("--items", got=items, needed="a range from its lowest to its highest id", try_="--items 1..1682")
        return np.arange(low, high + 1)
    from lowkey.data.readers import read_catalogue

    return read_catalogue(items, item=column)


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
